"""One scenario of one dataset: what is trained on its splits, and their rows in tables."""

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
from motifair.studies.study import Settings
from motifair.studies.values.known import Known
from motifair.studies.values.measures import measured
from motifair.studies.values.tables import inverted_pay
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
COMPLETE = 3  # splits of a scenario with all valuations and payoffs; others have `ALWAYS`
TRAINED = {"agents": 6, "learning_rate": 0.002, "batch_size": 100_000}
ROUNDS = 100
DEFAULT = "motifair"
ALWAYS = (DEFAULT, f"{DEFAULT}, batches")  # methods that are paid by on all splits


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
        complete = number < COMPLETE or self.known
        methods = {n: c for n, c in self.methods.items() if complete or n in ALWAYS}
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
                if complete:
                    arrays |= observe(self.base, split, members, seed)
            else:
                arrays["nobody"] = utility_of_nobody(split, members, seed)
                self._known_utility(number, arrays)  # refused before anything is trained
            for name, config in methods.items():
                paid = paid_by(config, split, seed, self.base.device)
                arrays[pay_of(name)] = paid.sum(axis=0)
                arrays.setdefault("paid", paid)  # of the first method in each round
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, lambda temporary: _save(temporary, {**arrays, "digest": digest}))
        return split.roles, arrays

    def rows(self, number: int) -> Rows:
        """Return the rows of a split."""
        roles, arrays = self.split(number)
        about, graphs = self.about(number), arrays["graphs"]
        values = {name: arrays[name] for name in map(pay_of, self.methods) if name in arrays}
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


def about_split(dataset: str, scenario: str, number: int) -> dict[str, Any]:
    """Return by what a split is known in tables."""
    return {"dataset": dataset, "scenario": scenario, "split": number}


def _digest(configs: Sequence[Config]) -> Array:
    """Return hashes of what is trained, whatever the number of splits that were asked for."""
    return np.array([replace(c, splits=1).digest() for c in configs])


def _columns(utility: Array) -> dict[str, Array]:
    first, second = utility
    return {"coalition": np.arange(len(first)), "utility": first, "utility_again": second}


def _facts(arrays: Mapping[str, Array], seed: int) -> Facts:
    prints = np.split(arrays["fingerprints"], np.cumsum(arrays["graphs"]).astype(int)[:-1])
    summaries = [GraphSummary(f, w) for f, w in zip(prints, arrays["wiring"], strict=True)]
    nothing = np.zeros(0)
    observed = {name: arrays.get(name, nothing) for name in OBSERVED}
    return Facts(arrays["graphs"], **observed, summaries=tuple(summaries), seed=seed)


def pay_of(method: str) -> str:
    """Return the name in tables of what a method pays."""
    return f"pay of {method}"


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
