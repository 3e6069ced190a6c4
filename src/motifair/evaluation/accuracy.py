"""Predictions and accuracy of a stack of R agents on their own graphs."""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.models import Model


@torch.no_grad()
def probabilities(model: Model, weights: Tensor, batch: Batch) -> Tensor:
    """Return the probability of each class for every graph, without dropout, `(R, G, classes)`."""
    return model.classify(weights, model.embed(weights, batch)).exp()


def predictions(
    model: Model,
    weights: Tensor,
    batch: Batch,
    own: Tensor | None = None,
    own_weight: float = 0.0,
) -> Tensor:
    """Return the predicted class of every graph, `(R, D) -> (R, G)`.

    If agents have own models `own (R, D)`, probabilities are mixed: (1 − η)·p + η·p_own, with η the
    `own_weight`. Where a model has overflowed and its probabilities are NaN, the class is -1.
    """
    mixed = probabilities(model, weights, batch)
    if own is not None:
        mixed = torch.lerp(mixed, probabilities(model, own, batch), own_weight)
    return mixed.argmax(dim=-1).where(~mixed.isnan().any(dim=-1), -1)


def accuracy(model: Model, weights: Tensor, batch: Batch) -> Tensor:
    """Return each agent's accuracy on its own graphs, `(R, D) -> (R,)`."""
    return share_correct(predictions(model, weights, batch), batch)


def share_correct(predicted: Tensor, batch: Batch) -> Tensor:
    """Return the share of correctly predicted graphs of each agent, `(R, G) -> (R,)`.

    NaN for a row that has no class for one of them.
    """
    real = batch.graph_weight > 0
    correct = ((predicted == batch.target) & real).sum(dim=1)
    unknown = ((predicted < 0) & real).any(dim=1)
    return (correct.double() / real.sum(dim=1)).masked_fill(unknown, torch.nan)


def one_class(predicted: Tensor, batch: Batch) -> Tensor:
    """Return which agents predict the same class for all their graphs, `(R, G) -> (R,)`."""
    first = predicted[:, :1]  # padding comes last
    same: Tensor = ((predicted == first) | (batch.graph_weight == 0)).all(dim=1)
    return same
