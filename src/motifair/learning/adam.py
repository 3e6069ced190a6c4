"""Adam on rows: one optimiser for each agent, all in three tensors.

`torch.optim.Adam` keeps one step count for a whole tensor; here each row has its own, because
agents of unequal size take unequal numbers of steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Moments:
    """First and second moments `(R, D)` and the steps taken `(R,)`."""

    first: Tensor
    second: Tensor
    steps: Tensor

    @classmethod
    def zero(cls, weights: Tensor) -> Moments:
        """Start for rows of weights `(R, D)`."""
        steps = torch.zeros(len(weights), dtype=torch.int64, device=weights.device)
        return cls(torch.zeros_like(weights), torch.zeros_like(weights), steps)

    def rows(self, rows: slice) -> Moments:
        """Return the moments of some rows."""
        return Moments(self.first[rows], self.second[rows], self.steps[rows])


def adam_step(
    weights: Tensor,
    gradient: Tensor,
    moments: Moments,
    moving: Tensor,
    *,
    learning_rate: float,
    weight_decay: float,
) -> tuple[Tensor, Moments]:
    """Take one Adam step, with weight decay added to the gradient, in the rows that are moving.

    >>> w = torch.tensor([[1.0]])
    >>> w, m = adam_step(w, torch.tensor([[3.0]]), Moments.zero(w), torch.tensor([True]),
    ...                  learning_rate=0.1, weight_decay=0.0)
    >>> round(w.item(), 4), m.steps.tolist()
    (0.9, [1])
    """
    steps = moments.steps + moving
    gradient = torch.add(gradient, weights, alpha=weight_decay)
    first = torch.lerp(moments.first, gradient, 1 - BETA1)
    second = (moments.second * BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
    count = steps.clamp(min=1).to(torch.float64)
    size = (learning_rate / (1 - BETA1**count)).to(weights.dtype)[:, None]
    scale = (1 - BETA2**count).sqrt().to(weights.dtype)[:, None]
    stepped = weights - size * first / (second.sqrt() / scale + EPSILON)
    if bool(moving.all()):
        return stepped, Moments(first, second, steps)
    keep = moving[:, None]
    return torch.where(keep, stepped, weights), Moments(
        torch.where(keep, first, moments.first), torch.where(keep, second, moments.second), steps
    )
