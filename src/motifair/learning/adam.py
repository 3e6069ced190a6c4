"""Adam on the rows of a tensor, one optimiser for each agent.

`torch.optim.Adam` has one step count for a whole tensor; here each row has its own, because agents
with different numbers of graphs take different numbers of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motifair.kernels import Adam, adam_

__all__ = ["Adam", "Moments", "adam_step_"]


@dataclass(frozen=True)
class Moments:
    """First and second moments of the gradients, `(R, D)`, and the number of steps, `(R,)`."""

    first: Tensor
    second: Tensor
    steps: Tensor

    @classmethod
    def zero(cls, weights: Tensor) -> Moments:
        """Return the initial moments for weights `(R, D)`."""
        steps = torch.zeros(len(weights), dtype=torch.int64, device=weights.device)
        return cls(torch.zeros_like(weights), torch.zeros_like(weights), steps)

    @classmethod
    def concatenate(cls, parts: Sequence[Moments]) -> Moments:
        """Put the rows of several one after another."""
        first, second, steps = zip(*((m.first, m.second, m.steps) for m in parts), strict=True)
        return cls(torch.cat(first), torch.cat(second), torch.cat(steps))

    def rows(self, rows: slice | Tensor) -> Moments:
        """Return the moments of the given rows."""
        return Moments(self.first[rows], self.second[rows], self.steps[rows])

    def clone(self) -> Moments:
        """Return a copy."""
        return Moments(self.first.clone(), self.second.clone(), self.steps.clone())


def adam_step_(
    weights: Tensor, gradient: Tensor, moments: Moments, moving: Tensor, settings: Adam
) -> None:
    """Take one Adam step, in place, in the rows where `moving` is true.

    >>> w = torch.tensor([[1.0]])
    >>> m = Moments.zero(w)
    >>> adam_step_(w, torch.tensor([[3.0]]), m, torch.tensor([True]), Adam(0.1, weight_decay=0.0))
    >>> round(w.item(), 4), m.steps.tolist()
    (0.9, [1])
    """
    adam_(weights, gradient, moments.first, moments.second, moments.steps, moving, settings)
