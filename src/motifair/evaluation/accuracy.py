"""Share of graphs classified correctly."""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.models import Model


@torch.no_grad()
def accuracy(model: Model, weights: Tensor, batch: Batch) -> Tensor:
    """Return each agent's accuracy on its own graphs, `(R, D) -> (R,)`, without dropout."""
    predicted = model.classify(weights, model.embed(weights, batch)).argmax(dim=-1)
    real = batch.graph_weight > 0
    correct = ((predicted == batch.target) & real).sum(dim=1)
    return correct.double() / real.sum(dim=1)
