"""Steps of Adam that are as long for one agent as for another: common second moments.

Adam divides a gradient by the root of its second moments. Where the answers an agent has are few or
nearly all the same, its gradients are small, these moments smaller still, and it moves as far as an
agent that has much to learn from. So agents share the mean second moment of each unit, of which the
median is common to them; what they know of single components within a unit stays their own.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from motifair.kernels import row_sums
from motifair.learning.adam import Moments
from motifair.models.layout import Layout

# Where an agent's own moments are far above the common ones, its steps would be too long for it.
MOST_LONGER = 4.0


class CommonMoments:
    """Second moments by unit: a row of a matrix `(inputs, outputs)`, or a whole vector.

    Args:
        layout: Layout of the model's weights.
        shared: The part of a row of weights that agents exchange.
        decay: Decay of the second moments (β2).
    """

    def __init__(self, layout: Layout, shared: slice, decay: float) -> None:
        self.shared, self.decay = shared, decay
        self.units = layout.units(shared)

    def means(self, moments: Moments) -> Tensor:
        """Return the mean second moment of each unit, `(R, U)`; 0 before the first step."""
        parts = self._apart(moments.second)
        means = [row_sums(p.flatten(0, 1)).view(p.shape[:2]) / p.shape[2] for p in parts]
        return torch.cat(means, dim=1) / self._grown(moments).clamp(min=1e-12)

    def scaled(self, moments: Moments, common: Tensor) -> Moments:
        """Return the moments with `common (R, U)` means; where these are 0 they stay.

        No step becomes longer than `MOST_LONGER` times what it would be. Of a unit in which an
        agent has no second moments at all, all become the common ones.
        """
        own, grown = self.means(moments), self._grown(moments)
        known = common > 0
        factor = torch.where(known & (own > 0), common / own, 1.0).clamp(min=MOST_LONGER**-2)
        filled = torch.where(known & (own == 0), common * grown, 0.0).to(own.dtype)
        sizes = [n for n, _ in self.units]
        each = zip(
            self._apart(moments.second),
            torch.split(factor, sizes, dim=1),
            torch.split(filled, sizes, dim=1),
            strict=True,
        )
        second = moments.second.clone()
        scaled = [(p * f[:, :, None] + b[:, :, None]).flatten(1) for p, f, b in each]
        second[:, self.shared] = torch.cat(scaled, dim=1)
        return replace(moments, second=second)

    def _apart(self, second: Tensor) -> list[Tensor]:
        """Split rows `(R, D)` into `(R, units, width)`, parameter by parameter."""
        sizes = [n * width for n, width in self.units]
        parts = torch.split(second[:, self.shared], sizes, dim=1)
        return [p.reshape(-1, *units) for p, units in zip(parts, self.units, strict=True)]

    def _grown(self, moments: Moments) -> Tensor:
        """Return how far averages that begin with 0 have grown, `(R, 1)`."""
        return (1 - self.decay ** moments.steps.double())[:, None].to(moments.second.dtype)
