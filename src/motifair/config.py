"""The validated configuration: its options, profiles and scenarios, written as JSON."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from motifair.errors import MotifairError, nearest
from motifair.options import check_range, parse_option, without_removed
from motifair.options import option as option  # plugins take it from here
from motifair.profiles import PROFILES, SCENARIOS


@dataclass(frozen=True, init=False)
class Config:
    """All options that determine the result of a run, validated.

    Arguments:
        **options: any of the options below, by name, as values or as text. Options that are not
            set have the values of the profile: `profile="default"`, or `"paper"`, which reads the
            paper literally and whose values are those below. A `scenario` sets `partition` and
            `perturbation` where they are not set. Symbols in brackets are the paper's;
            `docs/notation.md` lists them, `motifair options` lists the options with both defaults.

    >>> Config(beta=2).beta, Config().own_weight, Config(profile="paper").own_weight
    (2.0, 0.3, 0.0)
    >>> Config(scenario="twins").partition, Config(scenario="twins", partition="sizes").partition
    ('iid', 'sizes')
    >>> Config(bta=2)
    Traceback (most recent call last):
    motifair.errors.MotifairError: There is no option 'bta'. Did you mean beta?
    """

    # What is run
    dataset: str = option(
        "planted",
        "name, path of a TU folder or zip or of a file (CSV with SMILES or edges, PyG, NetworkX), "
        "or several joined by commas, one an agent, or `agents` over their number",
    )
    smiles: str = option("", "column of a CSV file with SMILES; by default the one called smiles")
    targets: str = option(
        "",
        "columns of a CSV file to predict, joined by commas, or `all` columns of numbers; by "
        "default the only one",
    )
    method: str = option("motifair", "one of those that `motifair methods` lists")
    profile: str = option(
        "paper",
        "set of defaults: `default` is what we recommend, `paper` reads the paper literally",
        choices=("default", "paper"),
    )
    splits: int = option(1, "data splits; split k uses seed + k", least=1)
    seed: int = option(0, "seed of the first split", least=0, below=2**31)
    fixed_split: bool = option(False, "keep the partition of the first split, vary training only")
    rounds: int = option(200, "communication rounds [T]", least=1)
    eval_every: int = option(10, "rounds between evaluations (the last is always one)", least=1)
    contribution: bool = option(
        False, "measure at evaluations what each agent contributes to the server's model"
    )
    incentives: bool = option(
        False,
        "train four more federations a split, in which one agent gives 0.75, 0.5, 0.25 or none of "
        "its graphs, and measure what that does to its accuracy and pay",
    )
    # Who holds what
    agents: int = option(10, "agents [N]", least=2)
    scenario: str = option(
        "none",
        "how the agents' contributions differ, a set of defaults of partition and perturbation: "
        "`iid`, `sizes`, `dirichlet`, `exclusive-structure` and `exclusive-class` are partitions, "
        "`rewired` (tiers), `label-noise`, `inverted`, `duplicates`, `twins` and `free-riders` "
        "perturbations of iid shares",
        choices=tuple(SCENARIOS),
    )
    partition: str = option(
        "chunks",
        "how graphs are shared out: `chunks` by blocks in the order of the file, `iid` equally at "
        "random, `dirichlet` with unequal classes, `sizes` with unequal sizes, `domains` each "
        "agent its own dataset; one agent alone has the largest graphs (`exclusive-structure`) or "
        "the rarest class (`exclusive-class`); of a CSV file also by a column, which it names, and "
        "of molecules by Murcko `scaffold`",
        choices=("chunks", "iid", "dirichlet", "sizes", "domains",
                 "exclusive-structure", "exclusive-class", "scaffold"),
        others=True,
    )  # fmt: skip
    spaces: str = option(
        "auto",
        "whether node labels, attributes and classes of datasets given one by one mean the same "
        "(`common`), or each dataset has inputs and classes of its `own`, so that nothing but "
        "convolutions is shared; `auto` is own for different published datasets",
        choices=("auto", "common", "own"),
    )
    skew: float = option(
        0.5,
        "Dirichlet concentration of the partitions dirichlet and sizes; less is more unequal",
        above=0,
    )
    test_fraction: float = option(0.1, "share of its graphs each agent tests on", above=0, below=1)
    perturbation: str = option(
        "none",
        "damage to training graphs: `tiers` rewires 0.7–1 of the edges of 3/10 of the agents, "
        "0.3–0.7 of another 3/10 and less of the rest; `label-noise` replaces half these shares of "
        "the classes; `inverted` inverts all classes of 1/5 of the agents; `duplicates` leaves "
        "3/10 of them a third of their graphs, three times each; `twins` gives two agents the same "
        "graphs; `free-riders` gives 1/5 of them random edges and classes",
        choices=("none", "tiers", "label-noise", "inverted", "duplicates", "twins", "free-riders"),

    )  # fmt: skip
    features: str = option(
        "first",
        "what a node shows the model: its `label`, `attributes`, both (`label+attributes`) or its "
        "`degree`; `auto` takes labels and attributes, `first` labels, else attributes, and where "
        "there is neither both take degrees",
        choices=("auto", "first", "label", "attributes", "label+attributes", "degree"),
    )
    edges: str = option(
        "ignore",
        "what an edge shows the model: its `label`, by GINE in place of GIN, or nothing "
        "(`ignore`); `auto` takes labels where there are any and the method's network is GIN",
        choices=("auto", "label", "ignore"),
    )
    task: str = option(
        "auto",
        "what is predicted: one of several `classes`, several `binary` tasks, or numbers "
        "(`regression`); `auto` goes by the graphs' targets",
        choices=("auto", "classes", "binary", "regression"),
    )
    metric: str = option(
        "auto",
        "how predictions are judged: `accuracy`, `balanced-accuracy`, `f1`, `roc-auc` or `pr-auc` "
        "of classes and binary tasks, `rmse` or `mae` of a regression; `auto` is accuracy, roc-auc "
        "for binary tasks and rmse",
        choices=("auto", "accuracy", "balanced-accuracy", "f1", "roc-auc", "pr-auc", "rmse", "mae"),

    )  # fmt: skip
    # Model and local training
    local_epochs: int = option(1, "local epochs a round [E]", least=1)
    batch_size: int = option(128, "graphs in a gradient step", least=1)
    local_steps: int = option(
        0, "most gradient steps in a local epoch; 0 is a pass over all graphs", least=0
    )
    learning_rate: float = option(0.001, "learning rate of Adam", above=0)
    weight_decay: float = option(0.0005, "weight decay of Adam", least=0)
    model: str = option(
        "",
        "a network of your own in place of the method's, package.module:name of a class or "
        "function that makes a PyG module (docs/models.md)",
    )
    hidden: int = option(64, "hidden units", least=8)
    layers: int = option(3, "graph convolutions", least=1)
    moments: str = option(
        "own",
        "second moments of agents' Adam: each its `own`, or after every round those of each unit "
        "scaled to a `common` mean, the median over agents; `auto` is common for binary tasks",
        choices=("auto", "common", "own"),
    )
    dropout: float = option(0.5, "dropout rate", least=0, most=0.95)
    share: str = option(
        "all",
        "exchanged parameters: `all`, or `conv`, the convolutions alone",
        choices=("all", "conv"),
    )
    # Motifs
    rings: str = option(
        "basis",
        "which cycles are motifs: a minimum cycle `basis`, or all `chordless` cycles up to "
        "max_ring",
        choices=("basis", "chordless"),
    )
    max_ring: int = option(0, "longest ring; 0 is no cap, for basis only", least=0, most=8)
    chance: bool = option(False, "keep only motifs that random wiring would not bring as often")
    vocabulary_fraction: float = option(0.9, "motifs kept by TF-IDF [β_s]", above=0, most=1)
    tfidf: str = option(
        "paper",
        "bracket of E14: `paper` is tf·log(·) + 1, `smooth` tf·(log(·) + 1)",
        choices=("paper", "smooth"),
    )
    # Value
    alignment_of: str = option(
        "update",
        "vector of an agent that is aligned: its `update`, or its mean raw `gradient`",
        choices=("update", "gradient"),
    )
    alignment_against: str = option(
        "all",
        "reference of φ: `all` is the sum of all updates, `others` leaves the agent out, `shapley` "
        "is exact; with `peers` the others' gradients vote alike, with `peers-by-value` by value; "
        "`coverage` is what an agent's graphs are worth, as far as its updates stand for them",
        choices=("all", "others", "shapley", "peers", "peers-by-value", "coverage"),
    )
    alignment_rate: float = option(
        1.0, "weight of a round in the running mean of φ; 1 is this round alone", above=0, most=1
    )
    corroboration: int = option(1, "agents that must hold a motif for it to count", least=1)
    evidence: str = option(
        "sum",
        "evidence of a round: `sum` is φ + α2·d; `judged` scales d by the typical φ and drops it "
        "for agents with φ ≤ 0",
        choices=("sum", "judged"),
    )
    value_guard: bool = option(
        False, "raise the evidence of all agents until Σx ≥ ½Σ|x|, which bounds the values of E9"
    )
    initial_value: str = option(
        "equal",
        "what an agent's value begins with: 1/N, `equal` for every name, or what its first "
        "`evidence` is of the others', late in a run with what its graphs are worth",
        choices=("equal", "evidence"),
    )
    trial_rounds: int = option(
        0,
        "rounds, at most as many as follow, that agents train their own models before the first, "
        "and not with it: their peers judge these models, and what an agent's graphs are worth in "
        "coverage depends on it; 0 is none",
        least=0,
    )
    value_update: str = option(
        "additive",
        "rule of E9: `additive` is r + α1·x, `ema` is (1 − α1)·r + α1·x, both over their total",
        choices=("additive", "ema"),
    )
    value_rate: float = option(0.05, "weight of a round in the values [α1]", above=0, most=1)
    diversity_weight: float = option(1.0, "weight of diversity in the evidence [α2]", least=0)
    aggregation: str = option(
        "value",
        "weights of the updates in the sum: by `value`, by `size`, or `trusted`, which is by size "
        "without agents whose value is not positive, and with coverage as far as values are what "
        "graphs are worth and updates not longer than usual",
        choices=("value", "size", "trusted"),
    )
    size: str = option(
        "claimed",
        "graphs of an agent that count in weights and coverage: `claimed` all it trains on; "
        "`believed` the distinct ones, those of several agents in parts, as far as they are wired "
        "unlike chance",
        choices=("claimed", "believed"),
    )
    bounded: bool = option(
        False,
        "shorten updates beyond twice the round's usual length before anything else, as the server "
        "of a deployed federation always does",
    )
    aggregator: str = option(
        "mean",
        "how weighted updates become one: `mean`, or robust against some agents: `median`, "
        "`trimmed-mean`, `krum`, `multi-krum`, `geometric-median`, or a plugin's",
    )
    valuation: str = option(
        "running",
        "how values follow from alignments: `running` is E9, `equal` a control in which all agents "
        "have the same value; or a plugin's",
    )
    # Reward
    aggregate_length: str = option(
        "mean",
        "length of the aggregate: `mean` as E12 has it, `typical` stretched towards that of the "
        "updates in it",
        choices=("mean", "typical"),
    )
    beta: float = option(1.0, "fairness temperature [β], may be inf", above=0, infinite=True)
    reward_for: str = option(
        "value",
        "what β multiplies: an agent's `value`, as E3 has it, or its `relative-value`, that over "
        "a tenth of an equal share",
        choices=("value", "relative-value"),
    )
    mask_scope: str = option(
        "global",
        "components that a mask ranks: of the whole update (`global`), or tensor by tensor "
        "(`layer`)",
        choices=("global", "layer"),
    )
    mask_by: str = option(
        "components",
        "what an agent's share q of the update is: of its `components`, the largest first, or of "
        "its `length`",
        choices=("components", "length"),
    )
    retention: float = option(0.0, "share of its own step an agent keeps [κ]", least=0, most=1)
    reward_step: float = option(1.0, "step along the reward [s]", above=0)
    own_weight: float = option(
        0.0, "share of a model trained alone in what an agent predicts [η]", least=0, below=1
    )
    own_prior: float = option(
        math.inf,
        "graphs that `own_weight` counts for where each agent chooses that share itself, by how "
        "well both models predict a fifth of its training graphs, which its own is not trained on; "
        "inf fixes it",
        least=0,
        infinite=True,
    )
    # Prototypes
    prototype_distance: str = option(
        "l2",
        "distance in E13: `l2` between prototypes as they are, `unit` between their directions",
        choices=("l2", "unit"),
    )
    prototype_reduce: str = option(
        "sum", "distances of E13 over motifs: their `sum` or `mean`", choices=("sum", "mean")
    )
    prototype_weight: float = option(0.1, "weight of the prototypes in E13 [λ]", least=0)
    # Payoff
    budget: float = option(1.0, "paid out in each round [B]", least=0)
    payoff: str = option(
        "paper",
        "payoff rule: `paper` is E4 and E5; for comparison `equal` shares, or by data size "
        "log(1 + graphs): what an agent adds to all (`union`), has alone (`individual`), or its "
        "`shapley` value",
        choices=("paper", "equal", "union", "individual", "shapley"),
    )

    # Options of the method, the aggregator and the valuation themselves, as pairs.
    component_options: tuple[tuple[str, Any], ...] = ()

    def __init__(self, **options: Any) -> None:
        from motifair.methods import component_options  # methods import this module

        inherited = dict(options.pop("component_options", ()))
        values = _resolve(options)
        own = component_options(values)
        for name in options:
            if name not in OPTIONS and name not in own:
                raise MotifairError(
                    f"There is no option '{name}'. {nearest(name, [*OPTIONS, *own])}"
                )
        set_here = {n: options.get(n, inherited.get(n, o.default)) for n, o in own.items()}
        components = tuple((n, parse_option(n, own[n], v)) for n, v in sorted(set_here.items()))
        for name, value in components:
            check_range(name, value, own[name].metadata)
        self.__dict__.update(values, component_options=components, _given=frozenset(options))
        self._check()

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> Config:
        """Return the configuration that `to_json` wrote.

        Options of components are taken as they were written, which is after they were checked: to
        check them again would import the methods, and torch with them.

        >>> config = Config(method="fedprox", mu=0.5, beta="inf")
        >>> Config.restored(config.to_json()) == config
        True
        """
        options = without_removed(stored)
        own = {n: math.inf if v == "inf" else v for n, v in options.items() if n not in OPTIONS}
        config = cls.__new__(cls)
        components, given = tuple(sorted(own.items())), frozenset(options)
        config.__dict__.update(_resolve(options), component_options=components, _given=given)
        config._check()
        return config

    @property
    def given(self) -> frozenset[str]:
        """Names of the options that were set; others have the profile's or scenario's values."""
        given: frozenset[str] = self.__dict__["_given"]
        return given

    def value(self, name: str) -> Any:
        """Return the value of an option, the configuration's or a component's.

        >>> Config(method="fedprox", mu=0.5).value("mu"), Config().value("rounds")
        (0.5, 200)
        """
        return getattr(self, name) if name in OPTIONS else dict(self.component_options)[name]

    def _check(self) -> None:
        for declared in OPTIONS.values():
            check_range(declared.name, getattr(self, declared.name), declared.metadata)
        if self.rings == "chordless" and self.max_ring < 3:
            raise MotifairError(
                "rings=chordless needs a cap, since there may be exponentially many; "
                "set max_ring to 3..8, or rings=basis."
            )
        if self.rings == "basis" and self.max_ring in (1, 2):
            raise MotifairError("A ring has at least 3 nodes; set max_ring to 0 or 3..8.")
        if self.alignment_against == "shapley" and self.agents > 12:
            raise MotifairError(
                f"alignment_against=shapley values 2^{self.agents} coalitions; use at most 12 "
                "agents, or alignment_against=all, its approximation."
            )

    def to_json(self) -> dict[str, Any]:
        """Return all options as values that JSON can hold, infinity as `"inf"`.

        `scenario`, `model` and `local_steps` only where they are set, options that came after 0.1
        only where they are not as in profile `paper`, and `bounded` only where it is read: the
        digests of other configurations, with their checkpoints, stay the same.
        """
        values = {**asdict(self), **dict(self.component_options)}
        del values["component_options"]
        if self.scenario == "none":
            del values["scenario"]
        for name in ("model", "local_steps"):
            if not values[name]:
                del values[name]
        later = ("initial_value", "trial_rounds", "bounded", "reward_for", "own_prior", "moments")
        for name in later:
            if self.profile == "paper" and values[name] == OPTIONS[name].default:
                del values[name]
        if not self._reads_bounded():
            values.pop("bounded", None)
        return {k: ("inf" if v == math.inf else v) for k, v in values.items()}

    def _reads_bounded(self) -> bool:
        from motifair.methods import find_method  # methods import this module

        return "bounded" in find_method(self.method).options

    def digest(self) -> str:
        """Return a short hash of this configuration.

        Without `edges`, `task`, `metric`, `smiles`, `targets` and `spaces` where they say what was
        before there were these options: edges ignored, the accuracy of classes, no molecules, one
        space.
        """
        values = {k: v for k, v in self.to_json().items() if v not in _LATER.get(k, ())}
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


_LATER = {
    "edges": ("ignore",),
    "task": ("auto", "classes"),
    "metric": ("auto", "accuracy"),
    "smiles": ("",),
    "targets": ("",),
    "spaces": ("auto", "common"),
}


OPTIONS = {o.name: o for o in fields(Config) if o.name != "component_options"}


def _resolve(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all options: those given, others as profile and scenario have them."""
    given = {n: parse_option(n, OPTIONS[n], v) for n, v in options.items() if n in OPTIONS}
    profile = given.get("profile", "default")
    if profile not in PROFILES:
        raise MotifairError(f"There is no profile '{profile}'. {nearest(profile, PROFILES)}")
    scenario = given.get("scenario", "none")
    if scenario not in SCENARIOS:
        raise MotifairError(f"There is no scenario '{scenario}'. {nearest(scenario, SCENARIOS)}")
    paper = {name: option.default for name, option in OPTIONS.items()}
    return {**paper, "profile": profile, **PROFILES[profile], **SCENARIOS[scenario], **given}


def make_config(settings: Mapping[str, Any]) -> Config:
    """Return the configuration for settings by name, also those written by an earlier version.

    >>> make_config({"beta": "inf", "report": "final"}).beta
    inf
    """
    return Config(**without_removed(settings))
