"""FedSage without neighbour generation: federated averaging of GraphSAGE."""

from __future__ import annotations

from motifair.methods.base import Method
from motifair.models import SAGE


class FedSage(Method):
    """FedAvg with another encoder."""

    name = "fedsage"
    stacked = True
    summary = "federated averaging with a GraphSAGE encoder"
    model = SAGE
