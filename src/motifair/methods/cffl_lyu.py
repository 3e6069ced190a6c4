"""CFFL as Lyu et al. published it: reputation by accuracy on graphs that agents lend the server."""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.config import option
from motifair.mechanism.allocation import sparsify
from motifair.methods.base import Memory, Method, Seen


class CFFLLyu(Method):
    """Agents upload the largest tenth of their clipped step, are judged by the accuracy it gives
    the server, and download in proportion to reputation and data. Who falls below a third of an
    equal share is removed for good (reputation 0).
    """

    name = "cffl-lyu"
    stacked = True
    summary = "reputation by validation accuracy, with removal; needs lent graphs"
    options = frozenset({"budget", "contribution", "aggregator"})
    validation = 0.05
    clip: float = option(0.01, "largest component of an update", above=0)
    uploaded: float = option(0.1, "share of its components that an agent uploads", above=0, most=1)
    smoothing: float = option(0.8, "share of its last reputation an agent keeps", least=0, below=1)
    sharpness: float = option(5.0, "punishment of low reputation [α]", above=0)
    threshold: float = option(
        1 / 3, "share of an equal share of reputation below which one is removed", least=0, most=1
    )

    @property
    def share(self) -> str:
        """Everything: the server must have a model to judge with."""
        return "all"

    def limit(self, updates: Tensor) -> Tensor:
        """Clip every component."""
        return updates.clamp(-self.clip, self.clip)

    def prepare(self, updates: Tensor) -> Tensor:
        """Keep the largest tenth of each update."""
        share = torch.full_like(updates[..., :1], self.uploaded)
        return sparsify(updates, share, [updates.shape[-1]])[0].squeeze(-2)

    def remember(self, seen: Seen) -> Memory:
        """Judge every update, and give each agent its reputation."""
        assert seen.judge is not None
        here = seen.value != 0
        reached = torch.where(here, seen.judge(seen.updates).to(seen.value), 0.0)
        share = reached / reached.sum(dim=-1, keepdim=True).clamp(min=1e-12)
        value = self.smoothing * seen.value + (1 - self.smoothing) * share
        value = torch.where(here, torch.sinh(self.sharpness * value), 0.0)
        value = value / value.sum(dim=-1, keepdim=True)
        value = torch.where(value < self.threshold / here.sum(dim=-1, keepdim=True), 0.0, value)
        return {"reached": reached, "value": value / value.sum(dim=-1, keepdim=True)}

    def weigh(self, seen: Seen) -> Tensor:
        """Add the updates of those that are still there."""
        return (seen.memory["value"] != 0).double()

    def align(self, seen: Seen, weights: Tensor) -> Tensor:
        """Return the accuracy each update reaches."""
        return seen.memory["reached"]

    def valuate(self, seen: Seen, alignment: Tensor) -> Tensor:
        """Return the reputation."""
        return seen.memory["value"]

    def ratio(self, seen: Seen, value: Tensor) -> Tensor:
        """Return reputation times data, each relative to the largest."""
        most, largest = value.amax(dim=-1, keepdim=True), seen.graphs.amax(dim=-1, keepdim=True)
        return value / most * (seen.graphs / largest)

    def adjust(self, seen: Seen, value: Tensor, reward: Tensor) -> Tensor:
        """Take out what the agent itself uploaded and has already."""
        return reward - torch.where((value != 0).unsqueeze(-1), seen.updates, 0.0)

    def retain(self, seen: Seen, kept: Tensor) -> Tensor:
        """Keep one's own clipped step."""
        return torch.ones_like(seen.value)
