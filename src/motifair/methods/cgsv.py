"""CGSV and its relatives: sparse rewards by a value that is smoothed over rounds."""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.config import option
from motifair.mechanism.aggregation import aggregate, size_weights
from motifair.mechanism.alignment import alignment
from motifair.mechanism.allocation import reward_ratio
from motifair.methods.base import Method, Seen


class SparseRewards(Method):
    """What CGSV and its relatives share: updates of one length Γ, rewards tensor by tensor.

    Γ is the mean length of the round, since a fixed one would be a multiple of the natural step.
    """

    options = frozenset({"share", "beta", "budget", "contribution", "aggregator"})
    mask_up = True
    returning = "own"
    update_length: float = option(
        0.0, "length that updates are scaled to [Γ]; 0: the round's mean length", least=0
    )

    @property
    def mask_scope(self) -> str:
        """Tensor by tensor."""
        return "layer"

    def prepare(self, updates: Tensor) -> Tensor:
        """Scale every update to the length Γ."""
        norm = updates.norm(dim=-1, keepdim=True)
        scaled: Tensor = updates * (self.length(norm) / (norm + 1e-7))
        return scaled

    def length(self, norm: Tensor) -> Tensor:
        """Return Γ for updates of these norms `(A, 1)`."""
        if self.update_length:
            return torch.full_like(norm[..., :1, :], self.update_length)
        mean: Tensor = norm.mean(dim=-2, keepdim=True)
        return mean

    def weigh(self, seen: Seen) -> Tensor:
        """Weigh by size in the first round, then by value."""
        return torch.where(seen.rounds == 0, size_weights(seen.graphs), seen.value)

    def align(self, seen: Seen, weights: Tensor) -> Tensor:
        """Return cos(u_i, u_N)."""
        return alignment(seen.updates, weights)

    def ratio(self, seen: Seen, value: Tensor) -> Tensor:
        """Return tanh(β r_i) / max_j tanh(β r_j)."""
        return reward_ratio(value, self.config.beta)


class CGSV(SparseRewards):
    """Value by the cosine of normalised updates with their sum, α-smoothed; rewards by tensor."""

    name = "cgsv"
    stacked = True
    summary = "gradient-based value, smoothed; sparse rewards, tensor by tensor"
    smoothing: float = option(0.95, "share of its last value an agent keeps [α]", least=0, below=1)
    least_value: float = option(1e-3, "value that no agent falls below", above=0)

    def valuate(self, seen: Seen, alignment: Tensor) -> Tensor:
        """Smooth from 0, keep above a least value, normalise."""
        before = seen.value * (seen.rounds > 0)
        value = self.smoothing * before + (1 - self.smoothing) * alignment
        value = value.clamp(min=self.least_value)
        return value / value.sum(dim=-1, keepdim=True)


class DW(SparseRewards):
    """The same rewards, with the share of the data as value."""

    name = "dw"
    stacked = True
    summary = "value by data size; sparse rewards, tensor by tensor"

    def weigh(self, seen: Seen) -> Tensor:
        """Weigh by size."""
        return size_weights(seen.graphs)

    def align(self, seen: Seen, weights: Tensor) -> Tensor:
        """Look at no update."""
        return torch.full_like(seen.value, torch.nan)

    def valuate(self, seen: Seen, alignment: Tensor) -> Tensor:
        """Return the share of the data."""
        return size_weights(seen.graphs)


class EU(CGSV):
    """The same rewards, with Euclidean closeness instead of the cosine."""

    name = "eu"
    stacked = True
    summary = "value by Euclidean closeness of updates; sparse rewards, tensor by tensor"

    def align(self, seen: Seen, weights: Tensor) -> Tensor:
        """Return 1 − |u_i − u_N| / (|u_i| + |u_N|)."""
        total = aggregate(seen.updates, weights).unsqueeze(-2)
        lengths: Tensor = seen.updates.norm(dim=-1) + total.norm(dim=-1)
        apart: Tensor = (seen.updates - total).norm(dim=-1)
        return 1 - apart / lengths.clamp(min=1e-12)


class CFFL(SparseRewards):
    """The paper's row "CFFL", which cites RFFL: reputation, removal, rewards on top of one's own
    step. An agent whose value is below a third of an equal share is removed for good. There is no
    server model: every agent has its own.
    """

    name = "cffl"
    stacked = True
    summary = "reputation with removal (RFFL); agents keep their own clipped step"
    options = frozenset({"share", "budget", "aggregator"})
    global_model = False
    smoothing: float = option(0.95, "share of its last value an agent keeps [α]", least=0, below=1)
    threshold: float = option(
        1 / 3, "share of an equal share of value below which an agent is removed", least=0, most=1
    )
    patience: int = option(10, "rounds before the first removal", least=0)

    def prepare(self, updates: Tensor) -> Tensor:
        """Clip updates to the length Γ."""
        return updates * self.clip(updates).unsqueeze(-1)

    def clip(self, updates: Tensor) -> Tensor:
        """Return the factor that shortens each update to the length Γ, `(A,)`."""
        norm = updates.norm(dim=-1, keepdim=True)
        factor: Tensor = (self.length(norm) / norm.clamp(min=1e-12)).clamp(max=1)
        return factor.squeeze(-1)

    def valuate(self, seen: Seen, alignment: Tensor) -> Tensor:
        """Smooth, and after some patience remove agents that fall behind: they have value 0."""
        before = seen.value * (seen.rounds > 0)
        here = (before != 0) | (seen.rounds <= self.patience)
        value = self.smoothing * before + (1 - self.smoothing) * alignment
        value = torch.where(here, value, 0.0)
        value = value / value.sum(dim=-1, keepdim=True)
        behind = value < self.threshold / here.sum(dim=-1, keepdim=True)
        value = torch.where(behind & (seen.rounds >= self.patience), 0.0, value)
        return value / value.sum(dim=-1, keepdim=True)

    def ratio(self, seen: Seen, value: Tensor) -> Tensor:
        """Return r_i / max_j r_j, and nothing for a negative value."""
        return (value / value.amax(dim=-1, keepdim=True)).clamp(min=0)

    def retain(self, seen: Seen, kept: Tensor) -> Tensor:
        """Keep one's own step, clipped."""
        return self.clip(seen.sent)
