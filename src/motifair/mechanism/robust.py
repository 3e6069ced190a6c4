"""Centres of updates that some agents, sending anything, cannot move far.

Each takes updates `(..., A, D)` and weights `(..., A)` of at least 0, and returns `(..., D)`: a
centre in place of the weighted mean. Agents of weight 0 do not count at all.
"""

from __future__ import annotations

import torch
from torch import Tensor


def median(updates: Tensor, weights: Tensor) -> Tensor:
    """Coordinate-wise weighted median (Yin et al., 2018).

    Half of the weight lies on either side; where it is split exactly, the middle of the two.

    >>> u = torch.tensor([[1.0], [2.0], [900.0]])
    >>> median(u, torch.ones(3)).tolist(), median(u, torch.tensor([1.0, 1.0, 0.0])).tolist()
    ([2.0], [1.5])
    """
    ordered, upper = _ranked(updates, weights)
    half = 0.5 * upper[..., -1:, :]
    slack = 1e-12 * half
    low = (upper < half - slack).sum(dim=-2, keepdim=True)
    high = (upper <= half + slack).sum(dim=-2, keepdim=True).clamp(max=upper.shape[-2] - 1)
    return (ordered.gather(-2, low) + ordered.gather(-2, high)).squeeze(-2) / 2


def trimmed_mean(updates: Tensor, weights: Tensor, trim: float) -> Tensor:
    """Coordinate-wise mean without the share `trim` of the weight at either end (Yin et al., 2018).

    >>> u = torch.tensor([[0.0], [1.0], [2.0], [900.0]])
    >>> trimmed_mean(u, torch.ones(4), trim=0.25).tolist()
    [1.5]
    """
    ordered, upper = _ranked(updates, weights)
    total = upper[..., -1:, :]
    lower = torch.cat([torch.zeros_like(total), upper[..., :-1, :]], dim=-2)
    ends = trim * total, (1 - trim) * total
    inside = (upper.minimum(ends[1]) - lower.maximum(ends[0])).clamp(min=0)
    return (inside * ordered).sum(dim=-2) / inside.sum(dim=-2)


def krum_scores(updates: Tensor, weights: Tensor, faulty: int) -> Tensor:
    """Sum of squared distances to an agent's n − `faulty` − 2 nearest others, `(..., A)`; infinite
    for agents of weight 0 (Blanchard et al., 2017).

    >>> u = torch.tensor([[0.0], [1.0], [2.0], [900.0]])
    >>> krum_scores(u, torch.ones(4), faulty=1).tolist()
    [1.0, 1.0, 1.0, 806404.0]
    """
    counts = weights > 0
    distance = torch.cdist(updates, updates, compute_mode="donot_use_mm_for_euclid_dist").square()
    itself = torch.eye(weights.shape[-1], dtype=torch.bool, device=weights.device)
    distance = distance.masked_fill(itself | ~counts.unsqueeze(-2), torch.inf).sort(dim=-1).values
    near = (counts.sum(dim=-1) - faulty - 2).clamp(min=1)
    rank = torch.arange(weights.shape[-1], device=weights.device)
    nearest = distance.masked_fill(rank >= near[..., None, None], 0.0)
    return nearest.sum(dim=-1).masked_fill(~counts, torch.inf)


def krum(updates: Tensor, weights: Tensor, faulty: int, *, several: bool = False) -> Tensor:
    """The update of least score; or, `several`, the mean of all but the `faulty` worst.

    >>> u = torch.tensor([[0.0], [1.0], [2.0], [900.0]])
    >>> krum(u, torch.ones(4), 1).tolist(), krum(u, torch.ones(4), 1, several=True).tolist()
    ([0.0], [1.0])
    """
    scores = krum_scores(updates, weights, faulty)
    place = scores.argsort(dim=-1, stable=True).argsort(dim=-1)
    chosen = (weights > 0).sum(dim=-1, keepdim=True) - faulty if several else 1
    kept = torch.where(place < chosen, weights, 0.0) if several else (place < 1).to(weights)
    return (kept.unsqueeze(-1) * updates).sum(dim=-2) / kept.sum(dim=-1, keepdim=True)


def geometric_median(updates: Tensor, weights: Tensor, iterations: int = 32) -> Tensor:
    """The point of least weighted distance to all updates (Pillutla et al., 2022), by so many
    iterations of Weiszfeld from the coordinate-wise median.

    >>> u = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [900.0, 900.0]]).double()
    >>> [round(x, 1) for x in geometric_median(u, torch.ones(4).double()).tolist()]
    [0.5, 0.5]
    """
    centre = median(updates, weights)
    # An update at the centre itself would weigh infinitely.
    typical = median((updates - centre.unsqueeze(-2)).norm(dim=-1, keepdim=True), weights)
    least = 1e-9 * typical + torch.finfo(updates.dtype).tiny ** 0.5
    for _ in range(iterations):
        distance = (updates - centre.unsqueeze(-2)).norm(dim=-1)
        pull = weights / distance.maximum(least)
        centre = (pull.unsqueeze(-1) * updates).sum(dim=-2) / pull.sum(dim=-1, keepdim=True)
    return centre


def _ranked(updates: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Sort each coordinate over agents; return it and the weight up to each place, inclusive.

    Agents of weight 0 come last, so that no rank is spent on them.
    """
    counts = (weights > 0).unsqueeze(-1)
    ordered, order = updates.masked_fill(~counts, torch.inf).sort(dim=-2)
    upper = weights.unsqueeze(-1).expand_as(updates).gather(-2, order).cumsum(dim=-2)
    # What is infinite has no weight, and 0 · inf would be NaN.
    return ordered.masked_fill(ordered.isinf(), 0.0), upper
