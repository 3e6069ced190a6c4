"""Coverage: how well some agents' updates stand for everybody's, and what each agent adds to it.

A coalition that moves by the mean of its own updates misses the federation's step by the distance
between both means: because it has few graphs, or others than the rest. The Shapley value of an
agent in this game is its share in the federation's step. It grows with an agent's graphs, falls
with their noise and with their distance from what others hold, and needs nothing but the updates.
"""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.mechanism.alignment import MOST_AGENTS_EXACT, coalitions, shapley

SMALLEST = 1e-30
SHARPNESS = 3  # power of the consensus: rounds in which agents disagree say little
ENTRIES = 4_000_000  # numbers that a sample of orders may hold


def coverage(updates: Tensor, graphs: Tensor) -> Tensor:
    """φ_i = c³·Shapley value of ν(S) = −|u_S − u_N|²/|u_N|², `(..., A, D), (..., A) -> (..., A)`.

    u_S is the mean of the updates of S weighted by `graphs`, and 0 for nobody: the Shapley values
    add up to ν(N) − ν(∅) = 1. c = |u_N|² / Σ_j a_j|u_j|² is the consensus, the share of the
    updates' squared length that is common: near the end of a training, when agents pull in
    different directions, it is small.

    >>> coverage(torch.ones(2, 3), torch.tensor([3.0, 1.0])).tolist()
    [0.5, 0.5]
    >>> u = torch.tensor([[1.0, 0.0], [1.0, 0.2], [1.0, -2.0]], dtype=torch.float64)
    >>> coverage(u, torch.tensor([4.0, 4.0, 1.0])).round(decimals=3).tolist()
    [0.303, 0.298, -0.264]
    """
    weight = graphs.to(updates.dtype)
    weight = weight / weight.sum(dim=-1, keepdim=True).clamp(min=SMALLEST)
    share, consensus = shares_of_gram(updates @ updates.mT, weight)
    return consensus.unsqueeze(-1) ** SHARPNESS * share


def shares_of_gram(gram: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the Shapley values and the consensus from inner products of updates `(..., A, A)`
    and the agents' weights, which add up to 1, `(..., A)`.
    """
    common = _quadratic(weight, gram)
    length = (weight * gram.diagonal(dim1=-2, dim2=-1)).sum(dim=-1)
    consensus = torch.where(length > SMALLEST, common / length.clamp(min=SMALLEST), 0.0)
    return _shares(gram, weight, common), consensus


def _shares(gram: Tensor, weight: Tensor, common: Tensor) -> Tensor:
    """Return the Shapley values of the game, exact for a few agents, else by random orders."""
    agents = weight.shape[-1]
    if agents > MOST_AGENTS_EXACT:
        return _sampled(gram, weight, common)
    member = coalitions(agents, gram.device).to(gram.dtype) * weight.unsqueeze(-2)
    mean = member / member.sum(dim=-1, keepdim=True).clamp(min=SMALLEST)
    off = mean - weight.unsqueeze(-2)
    missed = ((off @ gram) * off).sum(dim=-1)
    return shapley(-missed / common.unsqueeze(-1).clamp(min=SMALLEST))


def _sampled(gram: Tensor, weight: Tensor, common: Tensor) -> Tensor:
    """Estimate the Shapley values from random orders, each forwards and backwards.

    Each order is turned, so that all agents are equally often at each place: who comes first adds
    most. The orders come from a fixed seed, so that the estimate depends on the updates alone.
    """
    agents = weight.shape[-1]
    draws = max(2, min(128, ENTRIES // agents**2))
    turns = min(agents, draws)
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randperm(agents, generator=generator) for _ in range(max(1, draws // turns))]
    forwards = [one.roll(k * agents // turns) for one in drawn for k in range(turns)]
    total = torch.zeros_like(weight)
    weighted = gram * weight.unsqueeze(-1) * weight.unsqueeze(-2)
    with_all = weighted.sum(dim=-1)
    for order in [o for one in forwards for o in (one, one.flip(0))]:
        place = order.to(weight.device)
        mass = weight[..., place].cumsum(dim=-1).clamp(min=SMALLEST)
        # Sums over the first k agents of the order: of one axis, and of both.
        inside = weighted[..., place, :][..., place].cumsum(-1).cumsum(-2)
        square = inside.diagonal(dim1=-2, dim2=-1) / mass**2
        product = with_all[..., place].cumsum(dim=-1) / mass
        value = -(square - 2 * product + common.unsqueeze(-1))
        gain = value - torch.cat([-common.unsqueeze(-1), value[..., :-1]], dim=-1)
        total[..., place] += gain
    return total / (2 * len(forwards)) / common.unsqueeze(-1).clamp(min=SMALLEST)


def _quadratic(weight: Tensor, gram: Tensor) -> Tensor:
    """Return |Σ_i a_i u_i|² from the inner products of the updates."""
    return ((weight.unsqueeze(-2) @ gram).squeeze(-2) * weight).sum(dim=-1).clamp(min=0)
