"""Coverage: does an agent's update stand for graphs that are worth what was found?

An agent whose updates are of the usual length, and point about as much where the others' do as
updates do on average, gets what its graphs are worth. To agree more than that, or to be longer,
brings nothing more; noise, a reversed or a tiny update bring nothing or little. Only directions are
compared: a longer update is not further away, and a shorter one not nearer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.mechanism.bounds import median

SMALLEST = 1e-30
SHARPNESS = 3  # power of the consensus: rounds in which agents disagree say little
CHANCE, ENOUGH = 0.1, 0.2  # of the agreement of an average update: earn nothing, and everything
USUAL = 0.5  # of the median length that earns everything
ALL = 1 - 1e-9  # of the weight: nobody else has any


def coverage(updates: Tensor, worth: Tensor, lengths: Tensor) -> Tensor:
    """φ_i = c³·a_i·min(1, 10·n_i − 1)₊·min(1, 2·l_i).

    a_i is the agent's part of what all graphs are `worth`, and m_i the same with nobody worth more
    than the median: who claims many graphs does not decide what is common. With e_i = u_i / |u_i|,
    s_i = cos(e_i, Σ_{j≠i} m_j e_j) is how far an update points where the others' do, and
    n_i = s_i / Σ_j m_j max(s_j, 0) compares that with the average; l_i is the length of the update
    by the median's, at most 1. c = |Σ_j m_j e_j|² is the consensus: near the end of a training,
    when agents pull in different directions, it is small.
    `(..., A, D), (..., A), (..., A) -> (..., A)`.

    >>> u = torch.tensor([[2.0, 0.0], [1.0, 0.0]])
    >>> coverage(u, torch.tensor([3.0, 1.0]), torch.ones(2)).tolist()
    [0.75, 0.25]
    >>> u = torch.tensor([[1.0, 0.0], [1.0, 0.2], [0.0, -2.0]], dtype=torch.float64)
    >>> coverage(u, torch.tensor([4.0, 4.0, 1.0]), torch.ones(3)).round(decimals=3).tolist()
    [0.207, 0.207, 0.0]
    """
    worth = worth.to(updates.dtype)
    agreement, consensus = agreement_of_gram(
        updates @ updates.mT, _shares(torch.minimum(worth, median(worth)))
    )
    agrees = ((agreement - CHANCE) / (ENOUGH - CHANCE)).clamp(0, 1)
    effort = agrees * (lengths.to(updates.dtype) / USUAL).clamp(max=1)
    return consensus.unsqueeze(-1) ** SHARPNESS * _shares(worth) * effort


def _shares(worth: Tensor) -> Tensor:
    return worth / worth.sum(dim=-1, keepdim=True).clamp(min=SMALLEST)


def agreement_of_gram(gram: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the agreement n and the consensus c from inner products of updates `(..., A, A)` and
    the agents' weights, which add up to 1, `(..., A)`.
    """
    length = gram.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()
    here = (length > SMALLEST).to(gram.dtype)
    scale = here / length.clamp(min=SMALLEST)
    product = (gram * scale.unsqueeze(-1) * scale.unsqueeze(-2)) @ weight.unsqueeze(-1)
    product = product.squeeze(-1)  # of e_i with Σ_j m_j e_j
    consensus = (weight * product).sum(dim=-1, keepdim=True).clamp(min=0)
    others = consensus - 2 * weight * product + weight**2 * here  # |Σ_{j≠i} m_j e_j|²
    cosine = (product - weight * here) / others.clamp(min=SMALLEST).sqrt()
    cosine = torch.where(others > SMALLEST, cosine, 0.0)
    cosine = torch.where(weight > ALL, here, cosine)  # nothing stands against who has no others
    average = (weight * cosine.clamp(min=0)).sum(dim=-1, keepdim=True)
    return cosine / average.clamp(min=SMALLEST), consensus.squeeze(-1)
