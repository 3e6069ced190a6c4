"""Every method as a short class, and how they are found by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, replace
from typing import Any

from motifair.components import Component, Registry
from motifair.config import OPTIONS, Config, make_config
from motifair.errors import MotifairError
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
from motifair.methods.aggregations import AGGREGATIONS, Aggregation
from motifair.methods.base import Judge, Memory, Method, Seen
from motifair.methods.cffl_lyu import CFFLLyu
from motifair.methods.cgsv import CFFL, CGSV, DW, EU
from motifair.methods.fedavg import FedAvg
from motifair.methods.fedprox import FedProx
from motifair.methods.fedsage import FedSage
from motifair.methods.fedstar import FedStar
from motifair.methods.gcfl import GCFL, GCFLPlus
from motifair.methods.motifair import Motifair
from motifair.methods.self_train import SelfTrain, StarAlone
from motifair.methods.valuations import E9_OPTIONS, VALUATIONS, Valuation
from motifair.models import GIN, Model
from motifair.models.factory import find_factory

__all__ = [
    "AGGREGATIONS", "MECHANISM_OPTIONS", "METHODS", "VALUATIONS", "Aggregation", "Judge", "Memory",
    "Method", "Seen", "Valuation", "all_methods", "component_options", "find_method",
    "fit_to_model", "make_method", "method_settings", "own_model", "reads", "refuse_unused",
]  # fmt: skip

METHODS: Mapping[str, type[Method]] = {
    m.name: m
    for m in (
        SelfTrain, FedAvg, FedProx, FedSage, GCFL, GCFLPlus, FedStar, StarAlone, DW, EU, CFFL,
        CFFLLyu, CGSV, Motifair, WithoutAlignment, WithoutDiversity, WithoutAllocation,
        WithoutAggregation, WithoutPrototypes, FedAvgWithOwn, FedAvgWithOwnStretched, RandomRewards,
    )
}  # fmt: skip
REGISTRY: Registry[Method] = Registry("method", "motifair.methods", METHODS)

# Options that belong to the mechanism: a method that does not list one does not read it.
MECHANISM_OPTIONS = frozenset().union(*(m.options for m in METHODS.values()))


def all_methods() -> dict[str, type[Method]]:
    """Return our methods, and those that installed packages offer as `motifair.methods`."""
    return REGISTRY.all()


def find_method(name: str) -> type[Method]:
    """Return the class of a method by its name."""
    return REGISTRY.find(name)


def method_settings(method: str | Method | type[Method]) -> dict[str, Any]:
    """Return a method given by name, as a class or as an instance, as settings of a run.

    >>> method_settings(FedProx(mu=0.1))
    {'method': 'fedprox', 'mu': 0.1}
    """
    if isinstance(method, str):
        return {"method": method}
    if isinstance(method, type):
        return {"method": REGISTRY.add(method)}
    own = {name: getattr(method, name) for name in method.own_options()}
    return {"method": REGISTRY.add(type(method)), **own}


def make_method(config: Config) -> Method:
    """Return the method that the configuration names, with its hyper-parameters."""
    return REGISTRY.make(config.method, config)


def component_options(values: Mapping[str, Any]) -> dict[str, Field[Any]]:
    """Return the options that the chosen method, aggregator and valuation declare, by name.

    `values` are the other options of the configuration.
    """
    method = find_method(values["method"])
    chosen: list[type[Component]] = [method]
    if "aggregator" in method.options:
        chosen.append(AGGREGATIONS.find(values["aggregator"]))
    if "valuation" in method.options:
        chosen.append(VALUATIONS.find(values["valuation"]))
    options: dict[str, Field[Any]] = {}
    for component in chosen:
        for name, rule in component.own_options().items():
            if name in options:
                raise MotifairError(
                    f"Two parts of method {method.name} have an option {name}; rename one of them."
                )
            options[name] = rule
    return options


def reads(method: str, name: str, values: Mapping[str, Any]) -> bool:
    """Whether a method reads an option, its own or the configuration's; `values` are those set."""
    if name in OPTIONS:
        return name not in MECHANISM_OPTIONS or name in find_method(method).options
    usual = {n: OPTIONS[n].default for n in ("aggregator", "valuation")}
    return name in component_options({**usual, **values, "method": method})


def refuse_unused(config: Config, given: Mapping[str, object]) -> None:
    """Refuse options that were set otherwise than the profile has them, but are not read.

    What merely repeats the profile (as the configuration file of an earlier run does) is accepted.
    """
    method = find_method(config.method)
    usual = make_config({"profile": config.profile})
    named = [name for name in given if name in OPTIONS]
    changed = [name for name in named if getattr(config, name) != getattr(usual, name)]
    for name in changed:
        if name in MECHANISM_OPTIONS and name not in method.options:
            can = sorted(method.options) or ["none"]
            raise MotifairError(
                f"Method {method.name} does not use {name} ({OPTIONS[name].metadata['help']}); "
                f"leave it out. Options of its own: {', '.join(can)}."
            )
    if config.edges == "label" and not method.reads_edges():
        raise MotifairError(
            f"The network of {method.name} reads no edge labels; use edges=ignore or auto."
        )
    if config.model:
        _refuse_unused_sizes(config, method, changed)
    if "valuation" in method.options:
        unread = E9_OPTIONS - VALUATIONS.find(config.valuation).options
        for name in changed:
            if name in unread:
                raise MotifairError(
                    f"valuation={config.valuation} does not use {name}; leave it out."
                )
    idle = {
        "tfidf": ("vocabulary_fraction", 1.0),
        "prototype_distance": ("prototype_weight", 0.0),
        "prototype_reduce": ("prototype_weight", 0.0),
        "corroboration": ("diversity_weight", 0.0),
        "alignment_of": ("alignment_against", "coverage"),
    }
    for name, (other, value) in idle.items():
        if name in changed and getattr(config, other) == value:
            word = value if isinstance(value, str) else f"{value:g}"
            raise MotifairError(
                f"With {other}={word} {name} changes nothing; leave it out, or set {other}."
            )
    if "skew" in changed and config.partition not in ("dirichlet", "sizes"):
        raise MotifairError(
            f"partition={config.partition} does not use skew; leave it out, or use "
            "partition=dirichlet or sizes."
        )


def _refuse_unused_sizes(config: Config, method: type[Method], changed: Sequence[str]) -> None:
    """Refuse sizes of the network that a module of the user does not take."""
    if method.model is not GIN:
        raise MotifairError(
            f"{method.name} has a network of its own; leave model out, or use another method."
        )
    factory = find_factory(config.model)
    for name in ("hidden", "layers", "dropout"):
        if name in changed and name not in factory.takes:
            raise MotifairError(
                f"The model {factory.name} has no argument {name}; leave it out, or add it to the "
                "model."
            )


def fit_to_model(config: Config, model: Model, given: Mapping[str, object]) -> Config:
    """Return the configuration without prototypes if the model has no embeddings; refuse a model
    that has no such parameters as are to be exchanged.
    """
    model.layout.shared(make_method(config).share)
    if model.hidden or not make_method(config).uses_prototypes:
        return config
    if "prototype_weight" in given:
        raise MotifairError(
            f"The model {config.model} returns no embeddings, of which prototypes are made; let it "
            "return (scores, embeddings), or leave prototype_weight out."
        )
    return replace(config, prototype_weight=0.0)


def check_own_spaces(config: Config, models: Sequence[Model]) -> None:
    """Refuse a module, made for each of several datasets, if what agents exchange of it depends on
    a dataset's inputs or classes.
    """
    method, one = make_method(config), models[0]
    wider = method.network(one.width + 1, 0, one.task)
    sizes = {m.layout.tensor_sizes(m.layout.shared(method.share)) for m in (*models, wider)}
    if len(sizes) > 1:
        raise MotifairError(
            f"Convolutions of the model {config.model} read the inputs or give the classes, which "
            "datasets have of their own, so they cannot be shared; begin and end it with layers "
            "whose names do not begin with convs."
        )


def own_model(method: Method) -> str:
    """Describe the user's module that a method trains; '' if it trains its own network."""
    name = method.config.model.partition("#")[0]
    if not name or method.uses_prototypes or "prototype_weight" not in method.options:
        return name
    return f"{name} (no prototypes, which need embeddings)"
