"""Every method of the comparison as a short recipe."""

from __future__ import annotations

from collections.abc import Mapping

from motifair.config import OPTIONS, Config, make_config
from motifair.errors import MotifairError, nearest
from motifair.methods.base import Method, Seen
from motifair.methods.fedavg import FedAvg
from motifair.methods.motifair import Motifair
from motifair.methods.self_train import SelfTrain

__all__ = ["METHODS", "FedAvg", "Method", "Motifair", "Seen", "SelfTrain", "make_method"]

METHODS: Mapping[str, type[Method]] = {m.name: m for m in (Motifair, FedAvg, SelfTrain)}

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
