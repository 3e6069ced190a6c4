"""Are those paid who contribute? Valuations and payoffs against the truth by retraining.

Truth, observations and the methods that are compared have different seeds: they share the graphs
and nothing else. All train with one step a round on all graphs of an agent. Valuations that are not
paid by are computed on the first splits alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from motifair.studies.processes import ahead
from motifair.studies.study import Settings, Study, StudyResult
from motifair.studies.values.cell import (
    ALWAYS,
    COMPLETE,
    CONFIRMATION,
    DEFAULT,
    ROUNDS,
    TRAINED,
    Cell,
    Rows,
    about_split,
    pay_of,
)
from motifair.studies.values.figures import SHOWN, by_scenario, nearness, pay_against_truth
from motifair.studies.values.known import Known
from motifair.studies.values.measures import OTHER_TEST, OTHER_TRUTHS, RELIABILITY
from motifair.studies.values.tables import inverted_table, ranks, roles_table, summary

DATASETS = (
    "PROTEINS", "IMDB-BINARY", "DD", "Mutagenicity", "IMDB-MULTI", "AIDS", "BZR", "planted",
)  # fmt: skip
SCENARIOS = (
    "iid", "sizes", "dirichlet", "rewired", "label-noise", "inverted", "duplicates", "twins",
    "exclusive-structure", "exclusive-class", "free-riders",
)  # fmt: skip
MOST_SPLITS = 10
SPLITS = {"DD": 2}
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
    DEFAULT: {"method": "motifair"},
    f"{DEFAULT}, batches": {"method": "motifair", "batch_size": 128},  # as users train
    "motifair 0.1": {"method": "motifair", "profile": "paper", **EARLIER},
    "paper": {"method": "motifair", "profile": "paper"},
}
ON_ALL = (RELIABILITY, OTHER_TEST, "size", *map(pay_of, ALWAYS))


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
    if known is None:
        return result
    # The utilities stay where they were read.
    raw = {name: table for name, table in result.raw.items() if name != "utilities"}
    return replace(result, notes=(*NOTES, KNOWN_NOTE), raw=raw)


def compute(settings: Settings, piece: tuple[str, str, int]) -> None:
    """Train what one split of a scenario needs, for its file."""
    dataset, scenario, number = piece
    known = _known(settings)
    Cell(settings, known, dataset, scenario, number + 1, _methods(known)).split(number)


def _known(settings: Settings) -> Known | None:
    """Return the truth of an earlier run, without what it paid, if there is one."""
    return Known(settings.truth, stale=tuple(map(pay_of, ALWAYS))) if settings.truth else None


def _methods(known: Known | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the methods that are paid by: with known truth the default alone."""
    return {DEFAULT: METHODS[DEFAULT]} if known else METHODS


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


def scenario_rows(
    settings: Settings, known: Known | None, dataset: str, scenario: str, splits: int
) -> list[Rows]:
    """Return the rows of all splits of a scenario."""
    cell = Cell(settings, known, dataset, scenario, splits, _methods(known))
    return [cell.rows(k) for k in range(splits)]


STUDY = Study(
    "values", "valuations and payoffs against Shapley values by retraining", run, in_pieces=True,
    takes_truth=True,
)  # fmt: skip
