"""Figure 3(a): accuracy against fairness, as the options of the methods vary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from motifair.experiments.comparison import COMPARED, Comparison
from motifair.studies import drawing
from motifair.studies.rows import split_rows
from motifair.studies.study import CONFIRMATION, DATASETS, Settings, Study, StudyResult
from motifair.studies.sweep import Variant, execute, variants

BETAS = (0.5, 1.0, 1.5, 2.0, 5.0, 10.0, 20.0, 100.0, math.inf)
SWEEPS = {
    "beta": (("motifair", "cgsv", "dw", "eu", "cffl"), BETAS),
    "retention": (("motifair",), (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)),
    "own_weight": (("motifair",), (0.0, 0.1, 0.2, 0.3, 0.4, 0.48, 0.5, 0.6)),
}
POINTS = ("gcfl", "fedsage", "fedavg", "self-train")
SPLITS = {"DD": 10}
MOST_SPLITS = 20


def run(settings: Settings) -> StudyResult:
    """Run every point of the figure on each dataset."""
    planned = [list(points(settings, d)) for d in settings.datasets or DATASETS]
    tables, raw, figures = [], [], {}
    for chosen in planned:
        comparison = execute(settings, chosen)
        rows = point_rows(comparison, chosen)
        tables.append(rows)
        raw.append(split_rows(comparison))
        name = chosen[0].plan.data.name
        figures[name] = draw(rows, f"{name}, {chosen[0].plan.config.splits} splits")
    return StudyResult(
        "Accuracy over fairness",
        {"points": pd.concat(tables, ignore_index=True)},
        figures,
        _notes(planned[0]),
        raw={"splits": pd.concat(raw, ignore_index=True)},
    )


def points(settings: Settings, dataset: str) -> Iterator[Variant]:
    """Plan all points: methods at each value of an option, or once if they do not have it."""
    splits = SPLITS.get(dataset, MOST_SPLITS)
    single = list(POINTS)
    for option, (methods, values) in SWEEPS.items():
        for method in methods:
            swept = variants(settings, dataset, method, option, values, splits)
            yield from swept
            if not swept and method != "motifair":
                single.append(method)
    for method in single:
        plan = settings.plan(dataset, seed=CONFIRMATION, splits=splits, method=method)
        yield Variant(method, "", math.nan, method, plan)


def point_rows(comparison: Comparison, chosen: Sequence[Variant]) -> pd.DataFrame:
    """Return a row for each point: mean and interval of each metric."""
    rows = []
    for v in chosen:
        result = comparison.results[v.label]
        row = {"dataset": result.config.dataset, "method": v.method, "option": v.option}
        cells: dict[str, float] = {"value": v.value}
        for metric in COMPARED:
            low, high = result.ci95[metric]
            cells |= {metric: result.mean[metric], f"{metric}_low": low, f"{metric}_high": high}
        rows.append({**row, **cells})
    return pd.DataFrame(rows)


def draw(rows: pd.DataFrame, title: str) -> Figure:
    """Draw personalised accuracy over fairness: by β, and by retention and own weight."""
    figure, (by_beta, by_kept) = drawing.panels(2, width=10, height=4.8, shared=True)
    single = rows[rows["option"] == ""]
    paths = rows[rows["option"] != ""].groupby(["method", "option"], sort=False)
    for k, ((method, option), path) in enumerate(paths):
        panel = by_beta if option == "beta" else by_kept
        _draw_path(panel, path, f"{method} over {option}", k)
    for panel, words in ((by_beta, "by β"), (by_kept, "by what an agent keeps for itself")):
        _draw_points(panel, single)
        panel.set(xlabel="fairness", ylabel="personalised accuracy")
        panel.set_title(words, fontsize=10)
    figure.suptitle(f"{title}; 95 % intervals over splits in both directions", fontsize=9)
    drawing.legend_outside(figure, by_beta, by_kept)
    return figure


def _draw_path(panel: Axes, path: pd.DataFrame, label: str, k: int) -> None:
    """Draw the points of one method as a line; its ends are labelled with the option's value."""
    colour = drawing.LINES[k % len(drawing.LINES)]
    marker = drawing.MARKERS[k % len(drawing.MARKERS)]
    drawing.cross(panel, path, label=label, colour=colour, marker=marker, joined=True)
    for place, above in ((0, 4), (-1, -10)):
        row = path.iloc[place]
        panel.annotate(
            f"{row['value']:g}",
            (row["fairness"], row["personalised_accuracy"]),
            xytext=(4, above),
            textcoords="offset points",
            fontsize=7,
            color=colour,
        )


def _draw_points(panel: Axes, single: pd.DataFrame) -> None:
    """Draw methods without these options as hollow points."""
    for k, (_, row) in enumerate(single.iterrows()):
        marker = drawing.MARKERS[k % len(drawing.MARKERS)]
        label = f"{row['method']} (one point)"
        drawing.cross(panel, row.to_frame().T, label=label, colour=drawing.BLACK, marker=marker)


def _notes(chosen: Sequence[Variant]) -> list[str]:
    single = ", ".join(v.method for v in chosen if not v.option)
    return [
        "Each point is a run on all splits of its dataset, with Student's 95 % interval over "
        "splits in both directions; the paper draws this figure without printing figures.",
        f"β is read by {', '.join(_readers(chosen))}. {single} have nothing to turn here and are "
        "single points.",
    ]


def _readers(chosen: Sequence[Variant]) -> list[str]:
    return list(dict.fromkeys(v.method for v in chosen if v.option == "beta"))


STUDY = Study("tradeoff", "personalised accuracy over fairness (Figure 3a)", run)
