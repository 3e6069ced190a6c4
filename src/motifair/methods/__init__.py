"""Every method of the comparison as a short recipe."""

from __future__ import annotations

from collections.abc import Mapping

from motifair.config import OPTIONS, Config, make_config
from motifair.errors import MotifairError, nearest
from motifair.methods.ablations import (
    RandomRewards,
    WithoutAggregation,
    WithoutAlignment,
    WithoutAllocation,
    WithoutDiversity,
    WithoutPrototypes,
)
from motifair.methods.base import Memory, Method, Seen
from motifair.methods.cgsv import CFFL, CGSV, DW, EU
from motifair.methods.fedavg import FedAvg
from motifair.methods.fedprox import FedProx
from motifair.methods.fedsage import FedSage
from motifair.methods.fedstar import FedStar
from motifair.methods.gcfl import GCFL, GCFLPlus
from motifair.methods.motifair import Motifair
from motifair.methods.self_train import SelfTrain

__all__ = ["METHODS", "Memory", "Method", "Seen", "find_method", "make_method", "refuse_unused"]

METHODS: Mapping[str, type[Method]] = {
    m.name: m
    for m in (
        SelfTrain, FedAvg, FedProx, FedSage, GCFL, GCFLPlus, FedStar, DW, EU, CFFL, CGSV,
        Motifair, WithoutAlignment, WithoutDiversity, WithoutAllocation, WithoutAggregation,
        WithoutPrototypes, RandomRewards,
    )
}  # fmt: skip

# Options that belong to the mechanism: a method that does not list one does not read it.
MECHANISM_OPTIONS = frozenset().union(*(m.options for m in METHODS.values()))


def make_method(config: Config) -> Method:
    """Return the method that the configuration names."""
    return find_method(config.method)(config)


def find_method(name: str) -> type[Method]:
    """Look a method up by name."""
    if name not in METHODS:
        raise MotifairError(f"There is no method '{name}'. {nearest(name, METHODS)}")
    return METHODS[name]


def refuse_unused(config: Config, given: Mapping[str, object]) -> None:
    """Refuse options that were set otherwise than the profile has them, but are not read.

    What merely repeats the profile (as the configuration file of an earlier run does) is let pass.
    """
    method = find_method(config.method)
    usual = make_config({"profile": config.profile})
    changed = [name for name in given if getattr(config, name) != getattr(usual, name)]
    for name in changed:
        if name in MECHANISM_OPTIONS and name not in method.options:
            can = sorted(method.options) or ["none"]
            raise MotifairError(
                f"Method {method.name} does not use {name} ({OPTIONS[name].metadata['help']}); "
                f"leave it out. Options of its own: {', '.join(can)}."
            )
    if "skew" in changed and config.partition not in ("dirichlet", "sizes"):
        raise MotifairError(
            f"partition={config.partition} does not use skew; leave it out, or use "
            "partition=dirichlet or sizes."
        )
