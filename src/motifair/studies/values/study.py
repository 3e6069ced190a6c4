"""Are those paid who contribute? Valuations and payoffs against the truth by retraining.

Truth, observations and the methods that are compared have different seeds: they share the graphs
and nothing else. All train with one step a round on all graphs of an agent. Valuations that are not
paid by are computed on the first splits alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from motifair.config import Config
from motifair.experiments.plan import split_data
from motifair.federation.belief import GraphSummary
from motifair.federation.loop import Stopped
from motifair.federation.members import prepare
from motifair.files import write_atomic
from motifair.learning.process import training_process
from motifair.studies.processes import ahead
from motifair.studies.study import Settings, Study, StudyResult
from motifair.studies.values.figures import SHOWN, by_scenario, nearness, pay_against_truth
from motifair.studies.values.known import Known
from motifair.studies.values.measures import OTHER_TEST, OTHER_TRUTHS, RELIABILITY, measured
from motifair.studies.values.tables import (
    inverted_pay,
    inverted_table,
    ranks,
    roles_table,
    summary,
)
from motifair.studies.values.training import (
    OBSERVED,
    observe,
    paid_by,
    told,
    train_truth,
    utility_of_nobody,
)
from motifair.studies.values.truth import Array
from motifair.studies.values.valuations import VALUATIONS, Facts

# Fixed in docs/results/seeds.toml before any valuation was tried on them.
CONFIRMATION = 500_000
DATASETS = (
    "PROTEINS", "IMDB-BINARY", "DD", "Mutagenicity", "IMDB-MULTI", "AIDS", "BZR", "planted",
)  # fmt: skip
SCENARIOS = (
    "iid", "sizes", "dirichlet", "rewired", "label-noise", "inverted", "duplicates", "twins",
    "exclusive-structure", "exclusive-class", "free-riders",
)  # fmt: skip
MOST_SPLITS = 10
SPLITS = {"DD": 2}
COMPLETE = 3  # splits of a scenario with all valuations and payoffs; others have `ALWAYS`
TRAINED = {"agents": 6, "learning_rate": 0.002, "batch_size": 100_000}
ROUNDS = 100
KEYS = ["dataset", "valuation", "scenario"]
AGENT = ["role", "agent", "graphs", "share", "truth"]
# Payoffs of whole methods, beside valuations of a run of federated averaging.
EARLIER: Mapping[str, Any] = {
    "rings": "chordless", "max_ring": 4, "chance": True, "vocabulary_fraction": 1.0,
    "alignment_against": "peers-by-value", "alignment_rate": 0.1, "corroboration": 2,
    "evidence": "judged", "value_guard": True, "diversity_weight": 8.0, "aggregation": "trusted",
    "aggregate_length": "typical", "own_weight": 0.48, "prototype_distance": "unit",
    "prototype_reduce": "mean",
}  # fmt: skip
METHODS: Mapping[str, Mapping[str, Any]] = {
    "motifair": {"method": "motifair"},
    "motifair, batches": {"method": "motifair", "batch_size": 128},  # as users train
    "motifair 0.1": {"method": "motifair", "profile": "paper", **EARLIER},
    "paper": {"method": "motifair", "profile": "paper"},
}
DEFAULT = "motifair"
ALWAYS = (DEFAULT, "motifair, batches")
ON_ALL = (RELIABILITY, OTHER_TEST, "size", *(f"pay of {name}" for name in ALWAYS))


def run(settings: Settings) -> StudyResult:
    """Compare valuations and payoffs with Shapley values by retraining, in every scenario."""
    cells = [
        (dataset, scenario)
        for dataset in settings.datasets or DATASETS
        for scenario in SCENARIOS
        # With two classes nobody else would have anything to learn.
        if scenario != "exclusive-class" or _classes(settings, dataset) > 2
    ]
    splits = {d: min(SPLITS.get(d, MOST_SPLITS), settings.splits or MOST_SPLITS) for d, _ in cells}
    # All scenarios have a split before any has them all.
    pieces = [(*cell, k) for k in range(max(splits.values())) for cell in cells]
    pieces = [piece for piece in pieces if piece[2] < splits[piece[0]]]
    known = _known(settings)
    if known:  # missing truth is found before anything is trained
        for dataset, scenario, k in pieces:
            known.find(about_split(dataset, scenario, k), min(ROUNDS, settings.rounds))
    ahead(settings, compute, pieces)
    rows = [row for cell in cells for row in scenario_rows(settings, known, *cell, splits[cell[0]])]
    result = describe(*(pd.concat(part, ignore_index=True) for part in zip(*rows, strict=True)))
    return replace(result, notes=(*NOTES, KNOWN_NOTE)) if known else result


def compute(settings: Settings, piece: tuple[str, str, int]) -> None:
    """Train what one split of a scenario needs, for its file."""
    dataset, scenario, number = piece
    known = _known(settings)
    Cell(settings, known, dataset, scenario, number + 1, _methods(known)).split(number)


def _known(settings: Settings) -> Known | None:
    """Return the truth of an earlier run, without what it paid, if there is one."""
    return Known(settings.truth, stale=tuple(map(_pay, ALWAYS))) if settings.truth else None


def _methods(known: Known | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the methods that are paid by: with known truth the default alone."""
    return {DEFAULT: METHODS[DEFAULT]} if known else METHODS


def about_split(dataset: str, scenario: str, number: int) -> dict[str, Any]:
    """Return by what a split is known in tables."""
    return {"dataset": dataset, "scenario": scenario, "split": number}


def _classes(settings: Settings, dataset: str) -> int:
    plan = settings.plan(dataset, seed=CONFIRMATION, splits=1, method="fedavg", **TRAINED)
    return plan.data.graphs.classes


def describe(table: pd.DataFrame, paid: pd.DataFrame, utilities: pd.DataFrame) -> StudyResult:
    """Return the result of the study from its rows."""
    each = table.drop_duplicates(["dataset", "scenario", "split", "valuation"])
    columns = [
        "dataset", "scenario", "split", "valuation", "rank", *OTHER_TRUTHS, "l1", "spread",
        "largest_most",
    ]  # fmt: skip
    complete, on_all = each[each["split"] < COMPLETE], each[each["valuation"].isin(ON_ALL)]
    rows, scenarios = summary(complete), ranks(on_all, ["valuation", "scenario"])
    return StudyResult(
        title="Who contributes is who is paid: valuations against the truth by retraining",
        tables={
            "summary": rows,
            "scenarios": ranks(complete, ["valuation", "scenario"]),
            "all-splits": summary(on_all),
            "all-scenarios": scenarios,
            "all-datasets": ranks(on_all, KEYS),
            "roles": roles_table(table[table["valuation"] == SHOWN[0]]),
            "inverted": inverted_table(paid),
        },
        figures={
            "nearness": nearness(rows),
            "by-scenario": by_scenario(scenarios),
            "pay": pay_against_truth(table),
        },
        notes=NOTES,
        raw={
            "splits": each[columns],
            "agents": table[table["valuation"].isin(SHOWN)][[*columns[:4], *AGENT]],
            "utilities": utilities,
        },
        across={"scenarios": "scenario", "all-scenarios": "scenario", "all-datasets": "scenario"},
    )


NOTES = (
    "Truth is the Shapley value of −(mean cross-entropy) of federated averaging retrained in every "
    "coalition, on clean test graphs of nobody; mean of two trainings, whose rank correlation is "
    "the reliability. With other test graphs in the second training (each on half of them) they "
    "agree less: what no valuation can know is which graphs are drawn for the test. Rank "
    "correlations are means over splits, with their 95 % intervals.",
    "Valuations look at one run of federated averaging with other random numbers, and at a fifth "
    "of the training graphs that agents hold back; payoffs are those of whole methods.",
    f"`summary` and `scenarios` have the first {COMPLETE} splits of each dataset and scenario, on "
    "which every valuation was computed, the tables of all splits those that are computed on all. "
    "`roles` is what the members of a role are paid of the whole, and are worth. `inverted`: in "
    "how many splits the members with inverted labels have been paid least after 20 rounds, and "
    "are paid nothing, or fined, in round 40 and in the last.",
)
KNOWN_NOTE = (
    f"Pay of {DEFAULT} was measured in this run. The truth, the other valuations and the other "
    "payoffs were read from an earlier run (`--truth`), and not trained again."
)


class Rows(NamedTuple):
    """What tables have of a split: a row for each valuation and agent; what agents with inverted
    labels are paid, beside the others; and the utilities of all coalitions.
    """

    valuations: pd.DataFrame
    inverted: pd.DataFrame
    utilities: pd.DataFrame


class Cell:
    """One scenario of one dataset: its plans, and the files of its splits.

    Where the truth is known nothing but methods is trained.
    """

    def __init__(
        self,
        settings: Settings,
        known: Known | None,
        dataset: str,
        scenario: str,
        splits: int,
        methods: Mapping[str, Mapping[str, Any]],
    ) -> None:
        options = {"eval_every": ROUNDS, "rounds": min(ROUNDS, settings.rounds), **TRAINED}
        plan = partial(
            replace(settings, splits=splits).plan,
            dataset, seed=CONFIRMATION, splits=splits, scenario=scenario, **options,
        )  # fmt: skip
        self.settings, self.known, self.base = settings, known, plan(method="fedavg")
        self.about = partial(about_split, dataset, scenario)
        self.methods = {name: plan(**how).config for name, how in methods.items()}
        name = f"{'paid' if known else 'values'}-{dataset}-{scenario}-{self.base.config.rounds}"
        self.folder = settings.out / "runs" / name

    def split(self, number: int) -> tuple[tuple[str, ...], dict[str, Array]]:
        """Return roles and everything that is trained on one split, stored in its file."""
        complete = number < COMPLETE and self.known is None
        whole = complete or self.known is not None
        methods = {n: c for n, c in self.methods.items() if whole or n in ALWAYS}
        path = self.folder / f"split-{number:03d}.npz"
        split, seed = split_data(self.base, number), self.base.config.seed + number
        digest = _digest([self.base.config, *methods.values()])
        if path.exists():
            with np.load(path) as stored:
                arrays = dict(stored)
            if arrays.pop("digest").tolist() == digest.tolist():
                return split.roles, arrays
        if self.settings.stop():
            raise Stopped
        members = prepare(self.base.config, split, seed=seed)
        with training_process():
            arrays = told(split, members)
            if self.known is None:
                arrays |= train_truth(self.base, split, members, seed)
            else:
                arrays["nobody"] = utility_of_nobody(split, members, seed)
                self._known_utility(number, arrays)  # refused before anything is trained
            if complete:
                arrays |= observe(self.base, split, members, seed)
            for name, config in methods.items():
                paid = paid_by(config, split, seed, self.base.device)
                arrays[_pay(name)] = paid.sum(axis=0)
                arrays.setdefault("paid", paid)  # of the first method in each round
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, lambda temporary: _save(temporary, {**arrays, "digest": digest}))
        return split.roles, arrays

    def rows(self, number: int) -> Rows:
        """Return the rows of a split."""
        roles, arrays = self.split(number)
        about, graphs = self.about(number), arrays["graphs"]
        values = {name: arrays[name] for name in map(_pay, self.methods) if name in arrays}
        if self.known is None:
            facts, utility = _facts(arrays, number), arrays["utility"]
            chosen = VALUATIONS if number < COMPLETE else {"size": VALUATIONS["size"]}
            values = {name: value(facts) for name, value in chosen.items()} | values
            rows = measured(about, roles, graphs, utility, values, arrays["halves"])
        else:
            utility = self._known_utility(number, arrays)
            now = measured(about, roles, graphs, utility, values)
            rows = pd.concat([self.known.others(about, values), now], ignore_index=True)
        inverted = pd.DataFrame({**about, **inverted_pay(roles, arrays["paid"])}, index=[0])
        game = _columns(utility) | {"rounds": self.base.config.rounds}
        return Rows(rows, inverted, pd.DataFrame({**about, **game}))

    def _known_utility(self, number: int, arrays: Mapping[str, Array]) -> Array:
        assert self.known
        about, agents = self.about(number), len(arrays["graphs"])
        return self.known.utility(about, self.base.config.rounds, agents, float(arrays["nobody"]))


def _digest(configs: Sequence[Config]) -> Array:
    """Return hashes of what is trained, whatever the number of splits that were asked for."""
    return np.array([replace(c, splits=1).digest() for c in configs])


def scenario_rows(
    settings: Settings, known: Known | None, dataset: str, scenario: str, splits: int
) -> list[Rows]:
    """Return the rows of all splits of a scenario."""
    cell = Cell(settings, known, dataset, scenario, splits, _methods(known))
    return [cell.rows(k) for k in range(splits)]


def _columns(utility: Array) -> dict[str, Array]:
    first, second = utility
    return {"coalition": np.arange(len(first)), "utility": first, "utility_again": second}


def _facts(arrays: Mapping[str, Array], seed: int) -> Facts:
    prints = np.split(arrays["fingerprints"], np.cumsum(arrays["graphs"]).astype(int)[:-1])
    summaries = [GraphSummary(f, w) for f, w in zip(prints, arrays["wiring"], strict=True)]
    nothing = np.zeros(0)
    observed = {name: arrays.get(name, nothing) for name in OBSERVED}
    return Facts(arrays["graphs"], **observed, summaries=tuple(summaries), seed=seed)


def _pay(method: str) -> str:
    return f"pay of {method}"


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


STUDY = Study(
    "values", "valuations and payoffs against Shapley values by retraining", run, in_pieces=True,
    takes_truth=True,
)  # fmt: skip
