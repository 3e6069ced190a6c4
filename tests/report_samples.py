"""Runs for reports, made up in a moment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motifair.config import make_config
from motifair.experiments.result import Result
from motifair.experiments.simulated_ledger import entries_of
from motifair.experiments.split_result import SplitResult
from motifair.federation.history import COLUMNS, History
from motifair.report.run_section import RunSection
from motifair.report.source import SIMULATED, Source


def made_up_split(names: Sequence[str], rounds: int, seed: int = 0) -> SplitResult:
    """Walks at random, with one agent that harms and accuracies measured every tenth round."""
    rng = np.random.default_rng(seed)
    history = History(names, rounds)
    shape = (rounds, len(names))
    for column in COLUMNS:
        history.columns[column] = rng.normal(0, 0.02, shape).cumsum(axis=0)
    value = np.abs(history.columns["value"]) + 0.1
    value[:, -1] *= -0.1
    history.columns["value"] = value / value.sum(axis=1, keepdims=True)
    history.columns["payoff"] = history.columns["value"]
    history.columns["compensation"] = np.abs(history.columns["compensation"]) * 0.01
    history.columns["kept"] = rng.integers(0, 1000, shape).astype(float)
    history.columns["one_class"] = np.zeros(shape)
    evaluated = np.arange(1, rounds + 1) % 10 == 0
    evaluated[-1] = True
    for column in ("accuracy", "contribution"):
        table = history.columns[column]
        table[:] = np.clip(0.6 + table, 0, 1) if column == "accuracy" else table
        table[~evaluated] = np.nan
    history.global_accuracy = np.where(evaluated, 0.7, np.nan)
    alone = rng.uniform(0.4, 0.9, len(names))
    again = np.clip(alone + rng.normal(0, 0.05, len(names)), 0, 1)
    return SplitResult(
        seed=seed,
        names=tuple(names),
        roles=(),
        graphs=tuple(range(10, 10 + len(names))),
        test_graphs=(20,) * len(names),
        alone=alone,
        alone_again=again,
        alone_one_class=np.zeros(len(names)),
        history=history,
    )


def made_up_source(
    agents: int | Sequence[str] = 5, rounds: int = 30, *, splits: int = 1, **options: Any
) -> Source:
    """A simulated run of agents with or without names of their own."""
    names = [f"agent-{k:02}" for k in range(agents)] if isinstance(agents, int) else list(agents)
    config = make_config({"agents": len(names), "rounds": rounds, "splits": splits, **options})
    found = tuple(made_up_split(names, rounds, seed=k) for k in range(splits))
    environment = {"versions": {"motifair": "0.1.0"}, "layout": {"device": "cpu"}}
    shared = ("ring 3 4 3 4", "bond 0 1")
    return Source(
        name=f"{config.method} on {config.dataset}, seed 0",
        run=SIMULATED,
        config=config,
        entries=entries_of(config, found[0], SIMULATED),
        graphs=dict(zip(names, found[0].graphs, strict=True)),
        motifs={n: (*shared, f"ring {k} {k} {k}") for k, n in enumerate(names)},
        accuracy={n: float(a) for n, a in zip(names, found[0].accuracy, strict=True)},
        result=Result(config, found, 12.5, environment),
    )


def made_up_chapter(source: Source | None = None, label: str = "made-up") -> RunSection:
    return RunSection(label, Path("nowhere"), source or made_up_source())
