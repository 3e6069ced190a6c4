"""Coverage: does an agent's update stand for graphs that are worth what was found?

One graph of an agent alone would move the model by the agent's update, and miss the federation's
step by the distance between both. An agent whose updates are of the usual length, and do not miss
the common step by much more than updates do on average, gets what its graphs are worth. To be
nearer than that, or longer, brings nothing more; noise, a reversed or a tiny update bring nothing
or little.
"""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.mechanism.bounds import median

SMALLEST = 1e-30
SHARPNESS = 3  # power of the consensus: rounds in which agents disagree say little
ENOUGH = 0.25  # of the nearness of an average update that earns everything
USUAL = 0.5  # of the median length that earns everything


def coverage(updates: Tensor, worth: Tensor, lengths: Tensor) -> Tensor:
    """φ_i = c³·a_i·min(1, 4·n_i)₊·min(1, 2·l_i), `(..., A, D), (..., A), (..., A) -> (..., A)`.

    a_i is the agent's part of what all graphs are `worth`, and m_i the same with nobody worth more
    than the median: who claims many graphs does not decide what is common. u_N = Σ_j m_j u_j,
    d_i = |u_i − u_N|; n_i = 1 + (Σ_j m_j d_j² − d_i²)/|u_N|² is 1 for an average update; l_i is the
    length of the update by the median's, at most 1. c = |u_N|² / Σ_j m_j|u_j|² is the consensus,
    the share of the updates' squared length that is common: near the end of a training, when agents
    pull in different directions, it is small.

    >>> coverage(torch.ones(2, 3), torch.tensor([3.0, 1.0]), torch.ones(2)).tolist()
    [0.75, 0.25]
    >>> u = torch.tensor([[1.0, 0.0], [1.0, 0.2], [1.0, -2.0]], dtype=torch.float64)
    >>> coverage(u, torch.tensor([4.0, 4.0, 1.0]), torch.ones(3)).round(decimals=3).tolist()
    [0.15, 0.15, 0.0]
    """
    worth = worth.to(updates.dtype)
    weight = _shares(worth)
    nearness, consensus = nearness_of_gram(
        updates @ updates.mT, _shares(torch.minimum(worth, median(worth)))
    )
    effort = (nearness / ENOUGH).clamp(0, 1) * (lengths.to(updates.dtype) / USUAL).clamp(max=1)
    return consensus.unsqueeze(-1) ** SHARPNESS * weight * effort


def _shares(worth: Tensor) -> Tensor:
    return worth / worth.sum(dim=-1, keepdim=True).clamp(min=SMALLEST)


def nearness_of_gram(gram: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearness n and the consensus c from inner products of updates `(..., A, A)` and
    the agents' weights, which add up to 1, `(..., A)`.
    """
    product = (gram @ weight.unsqueeze(-1)).squeeze(-1)  # ⟨u_i, u_N⟩
    square = gram.diagonal(dim1=-2, dim2=-1)
    length = (weight * square).sum(dim=-1, keepdim=True)
    common = (weight * product).sum(dim=-1, keepdim=True).clamp(min=0)
    # Σ a_j d_j² − d_i², in which |u_N|² cancels.
    nearer = (length - common) - (square - 2 * product + common)
    nearness = 1 + nearer / common.clamp(min=SMALLEST)
    consensus = torch.where(length > SMALLEST, common / length.clamp(min=SMALLEST), 0.0)
    return nearness, consensus.squeeze(-1)
