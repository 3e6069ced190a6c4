"""Aggregation of the agents' updates: weights, and the weighted sum."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

SMALLEST = 1e-30


def size_weights(graphs: Tensor) -> Tensor:
    """E1: a_i = |D_i| / |D|, `(..., A) -> (..., A)`; 0 for all where nobody's graphs count.

    >>> size_weights(torch.tensor([30, 10])).tolist()
    [0.75, 0.25]
    """
    graphs = graphs.double()
    return graphs / graphs.sum(dim=-1, keepdim=True).clamp(min=SMALLEST)


def value_weights(value: Tensor) -> Tensor:
    """E12: a_i = ReLU(r_i) / Σ_j ReLU(r_j), `(..., A) -> (..., A)`.

    >>> value_weights(torch.tensor([0.6, -0.2, 0.6])).tolist()
    [0.5, 0.0, 0.5]
    """
    positive = value.clamp(min=0)
    return positive / positive.sum(dim=-1, keepdim=True)


ENOUGH = 0.25  # of the value that graphs are worth: with it their agent's update counts in full


def earned(value: Tensor, worth: Tensor) -> Tensor:
    """Return how far agents' values are what their graphs are `worth`, from 0 to 1, `(..., A)`.

        min(1, 4·(r_i / Σr) / (W_i / ΣW))₊, and 0 for graphs that are worth nothing

    An agent that was near the common step by chance in a few rounds has a value above 0, too: it
    must not count as one that always was.

    >>> earned(torch.tensor([0.9, 0.05, 0.05]), torch.tensor([1.0, 1.0, 0.0])).tolist()
    [1.0, 0.4000000059604645, 0.0]
    """
    value, worth = value.clamp(min=0), worth.to(value.dtype)
    total = worth.sum(dim=-1, keepdim=True) / value.sum(dim=-1, keepdim=True).clamp(min=SMALLEST)
    share = value * total / (ENOUGH * worth).clamp(min=SMALLEST)
    return share.clamp(max=1) * (worth > 0)


LARGEST_STRETCH = 3.0


def lengthened(update: Tensor, updates: Tensor, weights: Tensor, steps: Tensor) -> Tensor:
    """Stretch u_N towards the mean norm of the updates, Σ_i a_i |u_i|, at most threefold.

    Components on which agents disagree cancel in a mean: the mean of many updates is much shorter
    than each of them, and a federation that moves by it learns more slowly than an agent alone.
    With several optimiser `steps` in a round updates are longer and disagree more: the factor is
    the n-th root of the ratio of norms, n = Σ_i a_i steps_i. It is 1 if all updates are equal.
    `(..., D), (..., A, D), (..., A), (..., A) -> (..., D)`.

    >>> u, a = torch.tensor([[3.0, 4.0], [3.0, -4.0]]), torch.tensor([0.5, 0.5])
    >>> lengthened(u.mean(dim=0), u, a, steps=torch.ones(2)).tolist()
    [5.0, 0.0]
    """
    weights = weights.to(updates.dtype)
    typical = (weights * updates.norm(dim=-1)).sum(dim=-1, keepdim=True)
    length = update.norm(dim=-1, keepdim=True)
    stretch = torch.where(length > 0, typical / length.clamp(min=1e-30), 1.0).clamp(
        max=LARGEST_STRETCH
    )
    return update * stretch ** (1 / (weights * steps).sum(dim=-1, keepdim=True))


def aggregate(updates: Tensor, weights: Tensor) -> Tensor:
    """E1, E12: u_N = Σ_i a_i u_i, `(..., A, D), (..., A) -> (..., D)`.

    With weights `(..., A, A)` every agent has its own aggregate, `(..., A, D)`, of which row i of
    the weights are the coefficients.

    >>> aggregate(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0.5, 0.5])).tolist()
    [0.5, 1.0]
    """
    weights = weights.to(updates.dtype)
    if weights.dim() == updates.dim():
        return weights @ updates
    # Unlike a matrix product this adds agents in order, for all shapes and devices.
    rows, order = updates.flatten(0, -2), torch.arange(weights.numel(), device=weights.device)
    total = F.embedding_bag(
        order.view(-1, weights.shape[-1]),
        rows,
        mode="sum",
        per_sample_weights=weights.reshape(-1, weights.shape[-1]),
    )
    return total.view(*updates.shape[:-2], -1)
