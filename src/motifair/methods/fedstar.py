"""FedStar: agents share how nodes are connected, not what they look like."""

from __future__ import annotations

from motifair.methods.base import Method
from motifair.models import Star


class FedStar(Method):
    """FedAvg of the structure channel alone; everything else stays personal."""

    name = "fedstar"
    stacked = True
    summary = "two channels; only the structure channel is averaged"
    options = frozenset({"budget"})
    model = Star
    global_model = False

    @property
    def share(self) -> str:
        """The structure channel."""
        return "structure"
