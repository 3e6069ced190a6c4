"""No federation: every agent trains alone. The baseline that fairness is measured against."""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.methods.base import Method, Seen
from motifair.models import Star


class SelfTrain(Method):
    """Nothing is exchanged and nothing is paid."""

    name = "self-train"
    stacked = True
    summary = "every agent alone, from the same initial weights"
    options = frozenset()
    global_model = False

    @property
    def share(self) -> str:
        """Nothing."""
        return "none"

    def ratio(self, seen: Seen, value: Tensor) -> Tensor:
        """Nobody receives anything."""
        return torch.zeros_like(value)

    def settle(self, seen: Seen, value: Tensor) -> tuple[Tensor, Tensor]:
        """Nobody is paid."""
        return torch.zeros_like(value), torch.zeros_like(value)


class StarAlone(SelfTrain):
    """FedStar's network without a federation: what FedStar itself is to be compared with."""

    name = "star-alone"
    stacked = True
    summary = "every agent alone, with FedStar's network"
    model = Star
