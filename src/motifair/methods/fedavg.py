"""Federated averaging: everyone receives the size-weighted mean update."""

from __future__ import annotations

from motifair.methods.base import Method


class FedAvg(Method):
    """E1; the base recipe as it is."""

    name = "fedavg"
    stacked = True
    summary = "federated averaging: the size-weighted mean of the updates for everyone"
