"""How updates become one: weights over agents, and the weighted sum."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def size_weights(graphs: Tensor) -> Tensor:
    """E1: a_i = |D_i| / |D|, `(..., A) -> (..., A)`.

    >>> size_weights(torch.tensor([30, 10])).tolist()
    [0.75, 0.25]
    """
    return graphs.double() / graphs.double().sum(dim=-1, keepdim=True)


def value_weights(value: Tensor) -> Tensor:
    """E12: a_i = ReLU(r_i) / Σ_j ReLU(r_j), `(..., A) -> (..., A)`.

    >>> value_weights(torch.tensor([0.6, -0.2, 0.6])).tolist()
    [0.5, 0.0, 0.5]
    """
    positive = value.clamp(min=0)
    return positive / positive.sum(dim=-1, keepdim=True)


LONGEST = 3.0


def lengthened(update: Tensor, updates: Tensor, weights: Tensor, steps: Tensor) -> Tensor:
    """Stretch u_N towards the mean length of the updates in it, Σ_i a_i |u_i|, at most threefold.

    What agents agree on survives in a mean, what they do not agree on cancels: the mean of many
    updates is much shorter than any of them, and a model that moves by it slower than one that
    trains alone. Agents that take many `steps (..., A)` in a round have gone far already, and
    apart: the stretch is its n-th root, n = Σ_i a_i steps_i. It is 1 where all agree.
    `(..., D), (..., A, D), (..., A)`.

    >>> u, a = torch.tensor([[3.0, 4.0], [3.0, -4.0]]), torch.tensor([0.5, 0.5])
    >>> lengthened(u.mean(dim=0), u, a, steps=torch.ones(2)).tolist()
    [5.0, 0.0]
    """
    weights = weights.to(updates.dtype)
    typical = (weights * updates.norm(dim=-1)).sum(dim=-1, keepdim=True)
    length = update.norm(dim=-1, keepdim=True)
    stretch = torch.where(length > 0, typical / length.clamp(min=1e-30), 1.0).clamp(max=LONGEST)
    return update * stretch ** (1 / (weights * steps).sum(dim=-1, keepdim=True))


def aggregate(updates: Tensor, weights: Tensor) -> Tensor:
    """E1, E12: u_N = Σ_i a_i u_i, `(..., A, D), (..., A) -> (..., D)`.

    With a weight for each pair of agents `(..., A, A)` every agent has an aggregate of its own
    `(..., A, D)`: row i holds the weights in agent i's.

    >>> aggregate(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0.5, 0.5])).tolist()
    [0.5, 1.0]
    """
    weights = weights.to(updates.dtype)
    if weights.dim() == updates.dim():
        return weights @ updates
    # Unlike a matrix product this adds agent after agent, whatever the shapes and the device.
    rows, order = updates.flatten(0, -2), torch.arange(weights.numel(), device=weights.device)
    total = F.embedding_bag(
        order.view(-1, weights.shape[-1]),
        rows,
        mode="sum",
        per_sample_weights=weights.reshape(-1, weights.shape[-1]),
    )
    return total.view(*updates.shape[:-2], -1)
