"""What federating brings members: accuracy against FedAvg and training alone, and what a member
gains by giving more of its graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from motifair.evaluation.incentives import SHARES
from motifair.evaluation.statistics import mean_interval
from motifair.experiments.comparison import Comparison
from motifair.experiments.split_result import SplitResult
from motifair.studies import drawing
from motifair.studies.intervals import with_interval
from motifair.studies.processes import ahead
from motifair.studies.study import Settings, Study, StudyResult, runs_folder

# Fixed in docs/results/seeds.toml before anything was run on them.
ACCURACY, GIVING = 560_000, 570_000
LARGE, OTHERS = ("Mutagenicity",), ("PROTEINS", "AIDS", "IMDB-MULTI", "IMDB-BINARY", "BZR")
BASELINE, OURS = "fedavg", "motifair"
ALIKE, SIZES, GIVES = "alike", "sizes", "giving"
PARTS: Mapping[str, Mapping[str, Any]] = {
    ALIKE: {"seed": ACCURACY},
    SIZES: {"seed": ACCURACY, "scenario": "sizes", "agents": 6},
    # Of three times as many test graphs as usual: one member's few decide what is measured.
    GIVES: {"seed": GIVING, "agents": 6, "test_fraction": 0.3, "incentives": True},
}
GIVING_ROUNDS, GIVING_SPLITS = 100, 6
LARGE_SPLITS, MOST_SPLITS = 3, 10
DIFFERENCES = {  # columns of the table of accuracies, and how they are drawn
    "members_minus_fedavg": (drawing.BLUE, "o", "members − FedAvg's"),
    "members_minus_alone": (drawing.GREEN, "s", "members − training alone"),
    "server_minus_fedavg": (drawing.ORANGE, "^", "server's model − FedAvg's"),
}
NOTES = (
    "`accuracy`: mean over splits with Student's 95 % interval. Members are ten with equal shares "
    f"(`{ALIKE}`), or six of unequal sizes (`{SIZES}`). `members_minus_alone` is against the mean "
    "of two trainings alone; `members_minus_better` against FedAvg or training alone, whichever is "
    "better on average. `by_test_graphs`: members weighted by their test graphs, minus FedAvg's. "
    "`rationality`: the share of members not worse off than alone.",
    "`giving`: one of six members of each split gives none, a quarter, half, three quarters or all "
    f"of its graphs, for at most {GIVING_ROUNDS} rounds, and tests on three tenths of what it has. "
    "`accuracy_slope` is the rise of its accuracy from nothing to all by a straight "
    "line, `pay_slope` that of its pay in units of what it is paid for giving all, "
    "`free_rider_gain` its accuracy for giving nothing, minus that of training alone.",
)


def run(settings: Settings) -> StudyResult:
    """Run datasets shared out alike and by unequal sizes, and with a member that gives less."""
    pieces = [
        (dataset, part)
        for part in PARTS
        for dataset in settings.datasets or (OTHERS if part == GIVES else (*LARGE, *OTHERS))
    ]
    ahead(settings, train, pieces)
    made = {piece: compared(settings, *piece) for piece in pieces}
    accuracy = pd.concat([accuracies(*p, c) for p, c in made.items() if p[1] != GIVES])
    given = pd.concat([gifts(p[0], c) for p, c in made.items() if p[1] == GIVES])
    tables = {"accuracy": accuracy_table(accuracy), "giving": giving_table(given)}
    return StudyResult(
        "What federating brings members",
        tables,
        {"accuracy": draw_accuracy(tables["accuracy"]), "giving": draw_giving(given)},
        NOTES,
        raw={"splits": accuracy, "given": given},
    )


def train(settings: Settings, piece: tuple[str, str]) -> None:
    """Train what a part of the study needs, for its folder."""
    compared(settings, *piece)


def compared(settings: Settings, dataset: str, part: str) -> Comparison:
    """Return the runs of a part on a dataset; finished ones are read."""
    options = dict(PARTS[part])
    if part == GIVES:
        options["rounds"] = min(settings.rounds, GIVING_ROUNDS)
    methods = (OURS,) if part == GIVES else (BASELINE, OURS)
    splits = GIVING_SPLITS if part == GIVES else MOST_SPLITS
    splits = min(splits, LARGE_SPLITS) if dataset in LARGE else splits
    plans = {m: settings.plan(dataset, splits=splits, method=m, **options) for m in methods}
    return settings.execute(f"{runs_folder(plans[OURS])}-members", plans, methods[0])


def accuracies(dataset: str, part: str, comparison: Comparison) -> pd.DataFrame:
    """Return a row for each split: what members and servers reach, and members alone."""
    pairs = zip(*(comparison.results[m].splits for m in (BASELINE, OURS)), strict=True)
    rows = [{"seed": ours.seed, **_reached(theirs, ours)} for theirs, ours in pairs]
    return pd.DataFrame({"dataset": dataset, "members": part, **pd.DataFrame(rows)})


def _reached(theirs: SplitResult, ours: SplitResult) -> dict[str, float]:
    graphs = np.array(ours.test_graphs)
    row = {"alone": float((ours.alone + ours.alone_again).mean()) / 2}
    for method, split in ((BASELINE, theirs), (OURS, ours)):
        measured = split.metrics()
        row |= {
            method: measured["personalised_accuracy"],
            f"{method}_by_test_graphs": float(np.average(split.accuracy, weights=graphs)),
            f"{method}_server": measured["global_accuracy"],
            f"{method}_rationality": measured["rationality"],
        }
    return row


def accuracy_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the differences that goals are about, for each dataset and way to share it out."""
    table = []
    for (members, dataset), part in rows.groupby(["members", "dataset"], sort=False):
        ours, better = part[OURS], max((BASELINE, "alone"), key=lambda name: part[name].mean())
        table.append(
            {
                "members": members,
                "dataset": dataset,
                "splits": len(part),
                **with_interval("members_minus_fedavg", ours - part[BASELINE]),
                **with_interval("members_minus_alone", ours - part["alone"]),
                "better": better,
                **with_interval("members_minus_better", ours - part[better]),
                **with_interval(
                    "by_test_graphs",
                    part[f"{OURS}_by_test_graphs"] - part[f"{BASELINE}_by_test_graphs"],
                ),
                **with_interval(
                    "server_minus_fedavg", part[f"{OURS}_server"] - part[f"{BASELINE}_server"]
                ),
                "rationality": part[f"{OURS}_rationality"].mean(),
                "fedavg_rationality": part[f"{BASELINE}_rationality"].mean(),
            }
        )
    return pd.DataFrame(table)


def gifts(dataset: str, comparison: Comparison) -> pd.DataFrame:
    """Return a row for each split and share of a member's graphs that it gives."""
    rows = []
    for split in comparison.results[OURS].splits:
        giving = split.giving
        assert giving is not None
        alone = float(split.alone[giving.agent] + split.alone_again[giving.agent]) / 2
        slopes = {"accuracy_slope": giving.accuracy_slope, "pay_slope": giving.pay_slope}
        each = {"share": SHARES, "accuracy": giving.accuracy, "pay": giving.pay}
        about = {"dataset": dataset, "seed": split.seed, "alone": alone}
        rows.append(pd.DataFrame({**about, **each, **slopes}))
    return pd.concat(rows, ignore_index=True)


def giving_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return slopes and the gain of a free rider, of all splits and of each dataset's."""
    nothing = rows[rows["share"] == 0]
    parts = {"all": nothing, **dict(iter(nothing.groupby("dataset", sort=False)))}
    table = []
    for dataset, part in parts.items():
        row: dict[str, Any] = {"dataset": dataset, "splits": len(part)}
        for slope in ("pay_slope", "accuracy_slope"):
            row |= with_interval(slope, part[slope])
        row |= with_interval("free_rider_gain", part["accuracy"] - part["alone"])
        table.append(row)
    return pd.DataFrame(table)


def draw_accuracy(table: pd.DataFrame) -> Figure:
    """Draw differences of accuracies with their intervals, a panel for each way to share out."""
    figure, axes = drawing.panels(2, width=10, height=3.6, shared=True)
    words = {ALIKE: "ten members with equal shares", SIZES: "six members of unequal sizes"}
    for panel, (members, title) in zip(axes, words.items(), strict=True):
        part = table[table["members"] == members]
        for k, (name, (colour, marker, label)) in enumerate(DIFFERENCES.items()):
            ends = {"mean": part[name], "low": part[f"{name}_low"], "high": part[f"{name}_high"]}
            places = [row + 0.22 * (k - 1) for row in range(len(part))]
            frame = pd.DataFrame(ends)
            drawing.dots(panel, places, frame, label=label, colour=colour, marker=marker)
        panel.axvline(0, color=drawing.GREY, lw=1)
        drawing.name_rows(panel, part["dataset"].tolist())
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("difference of accuracies")
    drawing.legend_outside(figure, *axes)
    return figure


def draw_giving(rows: pd.DataFrame) -> Figure:
    """Draw pay, and accuracy over training alone, by the share of its graphs a member gives."""
    figure, (pay, accuracy) = drawing.panels(2, width=10, height=3.6)
    gained = rows.assign(gain=rows["accuracy"] - rows["alone"])
    _draw_gifts(pay, gained, "pay")
    _draw_gifts(accuracy, gained, "gain")
    pay.set_ylabel("pay, of that for giving all")
    accuracy.set_ylabel("accuracy over training alone")
    accuracy.axhline(0, color=drawing.GREY, lw=1)
    drawing.legend_outside(figure, pay, accuracy)
    return figure


def _draw_gifts(axes: Axes, rows: pd.DataFrame, column: str) -> None:
    """Draw the means of each dataset as a thin line, those of all with their intervals."""
    for k, (dataset, part) in enumerate(rows.groupby("dataset", sort=False)):
        mean = part.groupby("share")[column].mean()
        colour = drawing.LINES[k % len(drawing.LINES)]
        axes.plot(mean.index, mean, color=colour, lw=0.9, alpha=0.8, label=str(dataset))
    ends = [mean_interval(part.tolist()) for _, part in rows.groupby("share")[column]]
    frame = pd.DataFrame(ends, columns=["mean", "low", "high"])
    reach, black = drawing.reach(frame), drawing.BLACK
    axes.errorbar(SHARES, frame["mean"], yerr=reach, fmt="o-", ms=4, color=black, label="all")
    axes.set_xlabel("share of its graphs that a member gives")


STUDY = Study(
    "members", "accuracy and pay of members, and what giving more brings", run, in_pieces=True
)
