"""Coverage: how well an agent's graphs stand for everybody's, and how many they are.

One graph of an agent alone would move the model by the agent's update, and miss the federation's
step by the distance between both. Every graph gets an equal share of the step, and more or less as
its agent misses the step by less or more than graphs do on average. So the share grows with an
agent's graphs, falls with their noise and with their distance from what all hold; it is the same
under one name or several, and needs nothing but the updates.
"""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST = 1e-30
SHARPNESS = 3  # power of the consensus: rounds in which agents disagree say little


def coverage(updates: Tensor, graphs: Tensor) -> Tensor:
    """φ_i = c³·a_i·(1 + (Σ_j a_j d_j² − d_i²)/|u_N|²), `(..., A, D), (..., A) -> (..., A)`.

    a_i is the agent's part of all `graphs`, u_N = Σ_j a_j u_j, d_i = |u_i − u_N|. Without c³ the
    shares add up to 1. c = |u_N|² / Σ_j a_j|u_j|² is the consensus, the share of the updates'
    squared length that is common: near the end of a training, when agents pull in different
    directions, it is small.

    >>> coverage(torch.ones(2, 3), torch.tensor([3.0, 1.0])).tolist()
    [0.75, 0.25]
    >>> u = torch.tensor([[1.0, 0.0], [1.0, 0.2], [1.0, -2.0]], dtype=torch.float64)
    >>> coverage(u, torch.tensor([4.0, 4.0, 1.0])).round(decimals=3).tolist()
    [0.213, 0.199, -0.074]
    """
    weight = graphs.to(updates.dtype)
    weight = weight / weight.sum(dim=-1, keepdim=True).clamp(min=SMALLEST)
    share, consensus = shares_of_gram(updates @ updates.mT, weight)
    return consensus.unsqueeze(-1) ** SHARPNESS * share


def shares_of_gram(gram: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the shares and the consensus from inner products of updates `(..., A, A)` and the
    agents' weights, which add up to 1, `(..., A)`.
    """
    product = (gram @ weight.unsqueeze(-1)).squeeze(-1)  # ⟨u_i, u_N⟩
    square = gram.diagonal(dim1=-2, dim2=-1)
    length = (weight * square).sum(dim=-1, keepdim=True)
    common = (weight * product).sum(dim=-1, keepdim=True).clamp(min=0)
    # Σ a_j d_j² − d_i², in which |u_N|² cancels.
    nearer = (length - common) - (square - 2 * product + common)
    share = weight * (1 + nearer / common.clamp(min=SMALLEST))
    consensus = torch.where(length > SMALLEST, common / length.clamp(min=SMALLEST), 0.0)
    return share, consensus.squeeze(-1)
