"""Every method of the comparison as a short recipe."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points

from motifair.config import OPTIONS, Config, make_config
from motifair.errors import MotifairError, nearest
from motifair.methods.ablations import (
    FedAvgWithOwn,
    FedAvgWithOwnStretched,
    RandomRewards,
    WithoutAggregation,
    WithoutAlignment,
    WithoutAllocation,
    WithoutDiversity,
    WithoutPrototypes,
)
from motifair.methods.base import Memory, Method, Seen
from motifair.methods.cffl_lyu import CFFLLyu
from motifair.methods.cgsv import CFFL, CGSV, DW, EU
from motifair.methods.fedavg import FedAvg
from motifair.methods.fedprox import FedProx
from motifair.methods.fedsage import FedSage
from motifair.methods.fedstar import FedStar
from motifair.methods.gcfl import GCFL, GCFLPlus
from motifair.methods.motifair import Motifair
from motifair.methods.self_train import SelfTrain, StarAlone

__all__ = [
    "METHODS", "Memory", "Method", "Seen", "all_methods", "find_method", "make_method", "name_of",
    "refuse_unused",
]  # fmt: skip

METHODS: Mapping[str, type[Method]] = {
    m.name: m
    for m in (
        SelfTrain, FedAvg, FedProx, FedSage, GCFL, GCFLPlus, FedStar, StarAlone, DW, EU, CFFL,
        CFFLLyu, CGSV, Motifair, WithoutAlignment, WithoutDiversity, WithoutAllocation,
        WithoutAggregation, WithoutPrototypes, FedAvgWithOwn, FedAvgWithOwnStretched, RandomRewards,
    )
}  # fmt: skip

# Options that belong to the mechanism: a method that does not list one does not read it.
MECHANISM_OPTIONS = frozenset().union(*(m.options for m in METHODS.values()))


def all_methods() -> dict[str, type[Method]]:
    """Return our methods, and those that installed packages offer as `motifair.methods`."""
    offered = {e.name: e.load() for e in entry_points(group="motifair.methods")}
    return {**offered, **_GIVEN, **METHODS}


_GIVEN: dict[str, type[Method]] = {}


def name_of(method: str | type[Method]) -> str:
    """Return the name of a method that is given by name or as a class."""
    if isinstance(method, str):
        return method
    if METHODS.get(method.name, method) is not method:
        raise MotifairError(f"A method called '{method.name}' exists; give yours another name.")
    _GIVEN[method.name] = method
    return method.name


def make_method(config: Config) -> Method:
    """Return the method that the configuration names."""
    return find_method(config.method)(config)


def find_method(name: str) -> type[Method]:
    """Look a method up by name; ours first, since looking through installed packages takes long."""
    if name in METHODS:
        return METHODS[name]
    known = all_methods()
    if name not in known:
        raise MotifairError(f"There is no method '{name}'. {nearest(name, known)}")
    return known[name]


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
    idle = {
        "tfidf": ("vocabulary_fraction", 1.0),
        "prototype_distance": ("prototype_weight", 0.0),
        "prototype_reduce": ("prototype_weight", 0.0),
        "corroboration": ("diversity_weight", 0.0),
    }
    for name, (other, value) in idle.items():
        if name in changed and getattr(config, other) == value:
            raise MotifairError(
                f"With {other}={value:g} {name} changes nothing; leave it out, or set {other}."
            )
    if "skew" in changed and config.partition not in ("dirichlet", "sizes"):
        raise MotifairError(
            f"partition={config.partition} does not use skew; leave it out, or use "
            "partition=dirichlet or sizes."
        )
