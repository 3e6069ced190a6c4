"""Predictions of a stack of R agents on their own graphs, and how good they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from motifair.evaluation.metrics import score
from motifair.graphs.batch import Batch
from motifair.graphs.task import CLASSES, Task
from motifair.models import Model


@torch.no_grad()
def outputs(
    model: Model,
    weights: Tensor,
    batch: Batch,
    own: Tensor | None = None,
    own_weight: Tensor | float = 0.0,
) -> Tensor:
    """Return what agents predict for every graph, without dropout, `(R, D) -> (R, G, outputs)`.

    Probabilities of classes or binary tasks, or standardised numbers. If agents have own models
    `own (R, D)`, both are mixed: (1 − η)·p + η·p_own, with η the `own_weight`, of each agent `(R,)`
    or of all.
    """
    mixed = model.predicted(model.forward(weights, batch)[1])
    if own is not None:
        each = torch.as_tensor(own_weight, dtype=mixed.dtype, device=mixed.device)
        mixed = torch.lerp(mixed, outputs(model, own, batch), each.view(-1, 1, 1))
    return mixed


def chosen_classes(probabilities: Tensor) -> Tensor:
    """Return the most probable class of every graph, `(R, G, classes) -> (R, G)`.

    Where a model has overflowed and its probabilities are NaN, the class is -1.
    """
    return probabilities.argmax(dim=-1).where(~probabilities.isnan().any(dim=-1), -1)


def measure(model: Model, weights: Tensor, batch: Batch) -> Tensor:
    """Return each agent's score on its own graphs, `(R, D) -> (R,)`."""
    return scores(model.task, outputs(model, weights, batch), batch)


def scores(
    task: Task, predicted: Tensor, batch: Batch, own: Sequence[Task] | None = None
) -> Tensor:
    """Return each agent's score by the task's metric, `(R, G, outputs) -> (R,)`; more is better.

    `own` are the agents' tasks where each has its own, with fewer outputs. NaN for an agent whose
    model has overflowed.
    """
    if task.kind == CLASSES and task.metric == "accuracy":
        return share_correct(chosen_classes(predicted), batch)
    real, target = (batch.graph_weight > 0).cpu().numpy(), batch.target.cpu().numpy()
    if task.kind != CLASSES:
        target = np.where(batch.label_weight.cpu().numpy() > 0, target, np.nan)
    tasks = [task] * len(real) if own is None else own
    rows = zip(tasks, real, target, predicted.double().cpu().numpy(), strict=True)
    judged = [
        score(t, y[r] if y.ndim == 1 else y[r][:, : t.outputs], p[r][:, : t.outputs])
        for t, r, y, p in rows
    ]
    return torch.tensor(judged, dtype=torch.float64, device=predicted.device)


def share_correct(predicted: Tensor, batch: Batch) -> Tensor:
    """Return the share of correctly predicted graphs of each agent, `(R, G) -> (R,)`.

    NaN for a row that has no class for one of them.
    """
    real = batch.graph_weight > 0
    correct = ((predicted == batch.target) & real).sum(dim=1)
    unknown = ((predicted < 0) & real).any(dim=1)
    return (correct.double() / real.sum(dim=1)).masked_fill(unknown, torch.nan)


def constant(task: Task, predicted: Tensor, batch: Batch) -> Tensor:
    """Return which agents predict the same class for all their graphs, `(R, G, outputs) -> (R,)`.

    Of binary tasks and numbers: the same outputs.
    """
    if batch.allowed is not None:
        predicted = predicted.where(batch.allowed, 0.0)
    answer = chosen_classes(predicted).unsqueeze(-1) if task.kind == CLASSES else predicted
    first = answer[:, :1]  # padding comes last
    padding = (batch.graph_weight == 0).unsqueeze(-1)
    same: Tensor = ((answer == first) | padding).all(dim=-1).all(dim=-1)
    return same
