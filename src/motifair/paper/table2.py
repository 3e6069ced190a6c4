"""Table 2: all methods on three datasets, what they may be said to differ in, and who loses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from motifair.evaluation.statistics import holm, mean_interval, paired_difference
from motifair.experiments.compare import COMPARED, Comparison
from motifair.experiments.result import Result
from motifair.experiments.tables import SIGNIFICANT
from motifair.paper import drawing
from motifair.paper.rows import AGAIN, PRINTED, comparison_rows, measured, split_rows
from motifair.paper.study import CONFIRMATION, DATASETS, Finding, Settings, Study, runs_folder

METHODS = (
    "self-train", "fedavg", "fedavg-own", "fedprox", "fedsage", "gcfl", "gcfl+", "fedstar", "dw",
    "eu", "cffl", "cgsv", "motifair",
)  # fmt: skip
SPLITS = {"DD": 30}
MOST_SPLITS = 100
BASELINE, OURS = "fedavg", "motifair"
RIVALS = ("fedavg", "fedprox", "fedsage", "cgsv", "dw", "eu", "cffl")
NOT_WORSE = -0.02  # an accuracy lower by less than this counts as not lower
LOSS = 0.05  # an agent whose accuracy falls by more has lost by federating
ROUNDING = 1e-9  # 0.70 − 0.75 is a little less than −0.05 in floating point

NOTES = (
    "Means with Student's 95 % interval over splits; `difference`: paired, to fedavg, with a "
    "bootstrap interval; `p_holm`: Wilcoxon's signed-rank p, corrected by Holm over the methods of "
    "a dataset and metric.",
    "`fairness` correlates accuracy in the federation with that of training alone, "
    "`fairness_again` with that of training alone again, under another training seed. Methods "
    "share their training seed with the first, so what two trainings have in common because of the "
    "seed alone counts in `fairness` and not in `fairness_again`.",
    f"`bar`: {OURS} minus each other method. Fairness holds where the interval lies above 0 and p "
    "(Holm, over all rows of the table) is below 0.05; an accuracy holds where the lower end of "
    f"the 95 % interval is not below {NOT_WORSE}.",
    f"`alone`: share of agents whose accuracy is more than {LOSS} below training alone. The row "
    "self-train is training alone again: what chance does. `retest`: correlation of the two "
    "trainings alone; `bound`: its root, about the most fairness that can be measured.",
)


def run(settings: Settings) -> Finding:
    """Run Table 2 on splits that nothing was chosen on."""
    compared = compare_methods(settings, SPLITS, MOST_SPLITS, seed=CONFIRMATION)
    return describe("Table 2: all methods, clean data", compared, printed=True)


def compare_methods(
    settings: Settings, splits: Mapping[str, int], otherwise: int, *, seed: int, **options: Any
) -> list[Comparison]:
    """Run all methods on each dataset; all of it is checked before anything starts."""
    planned = [
        {
            method: settings.plan(
                dataset, seed=seed, splits=splits.get(dataset, otherwise), method=method, **options
            )
            for method in METHODS
        }
        for dataset in settings.datasets or DATASETS
    ]
    return [settings.execute(runs_folder(p[BASELINE]), p, BASELINE) for p in planned]


def describe(title: str, compared: list[Comparison], *, printed: bool) -> Finding:
    """Put together tables and figures; printed figures only where they speak of the same data."""
    methods = pd.concat([comparison_rows(c) for c in compared], ignore_index=True)
    if not printed:
        methods = methods.drop(columns=PRINTED)
    tables = {"methods": methods, "bar": bar_table(compared), "alone": alone_table(compared)}
    figures = {_name(c): draw(c, methods, title) for c in compared}
    return Finding(
        title,
        tables,
        figures,
        (*map(_about, compared), *NOTES, _verdict(tables["bar"])),
        raw={"splits": pd.concat([_raw(c) for c in compared], ignore_index=True)},
    )


def _raw(comparison: Comparison) -> pd.DataFrame:
    lost = np.concatenate([worse_off(r) for r in comparison.results.values()])
    return split_rows(comparison).assign(worse_off=lost)


def bar_table(compared: list[Comparison]) -> pd.DataFrame:
    """Return what our method is above, or not below, each rival in, and whether that is sure."""
    rows = [_bar_row(c, rival) for c in compared for rival in RIVALS]
    frame = pd.DataFrame(rows)
    frame["p_holm"] = holm(frame.pop("p").tolist())
    frame["fairness_holds"] = (frame["fairness_low"] > 0) & (frame["p_holm"] < SIGNIFICANT)
    for accuracy in ("personalised", "global"):
        frame[f"{accuracy}_holds"] = frame[f"{accuracy}_low"] >= NOT_WORSE
    checks = ["fairness_holds", "personalised_holds", "global_holds"]
    frame["holds"] = frame[checks].all(axis=1)
    return frame


def _bar_row(comparison: Comparison, rival: str) -> dict[str, Any]:
    results = comparison.results
    row: dict[str, Any] = {"dataset": comparison.first.config.dataset, "against": rival}
    for metric in (*COMPARED, AGAIN):
        pair = paired_difference(measured(results[OURS], metric), measured(results[rival], metric))
        name = metric.removesuffix("_accuracy")
        row |= {name: pair.mean, f"{name}_low": pair.low}
        if metric in ("fairness", AGAIN):
            row[f"{name}_high"] = pair.high
        if metric == "fairness":
            row["p"] = pair.p
    return row


def alone_table(compared: list[Comparison]) -> pd.DataFrame:
    """Return for each method how many agents it leaves worse off than training alone."""
    rows = []
    for comparison in compared:
        first = comparison.first
        for method, result in comparison.results.items():
            mean, low, high = np.clip(mean_interval(worse_off(result)), 0, 1)
            rows.append(
                {
                    "dataset": first.config.dataset,
                    "method": method,
                    "worse_off": mean,
                    "low": low,
                    "high": high,
                    "retest": first.mean["fairness_retest"],
                    "bound": first.fairness_bound,
                }
            )
    return pd.DataFrame(rows)


def worse_off(result: Result) -> list[float]:
    """Return on each split the share of agents that lost by federating."""
    return [float(np.mean(s.accuracy - s.alone < -LOSS - ROUNDING)) for s in result.splits]


def draw(comparison: Comparison, methods: pd.DataFrame, title: str) -> Figure:
    """Draw each metric's mean and interval by method, beside what the paper prints."""
    names = list(comparison.results)
    rows = methods[methods["dataset"] == comparison.first.config.dataset]
    figure, axes = drawing.panels(len(COMPARED), width=10, height=1.4 + 0.3 * len(names))
    for panel, metric in zip(axes, COMPARED, strict=True):
        draw_metric(panel, rows[rows["metric"] == metric])
    places = [k + 0.25 for k in range(len(names))]
    again = rows[rows["metric"] == AGAIN]
    drawing.dots(
        axes[-1], places, again, label=drawing.TITLES[AGAIN], colour=drawing.ORANGE, marker="D"
    )
    _draw_retest(axes[-1], comparison.first)
    for panel in axes:
        drawing.name_rows(panel, names if panel is axes[0] else [""] * len(names))
    figure.suptitle(f"{title}: {_about(comparison)}", fontsize=9)
    drawing.legend_outside(figure, *axes)
    return figure


def draw_metric(panel: Any, rows: pd.DataFrame) -> None:
    """Draw one metric of all methods, and the printed figures where there are some."""
    places = list(range(len(rows)))
    drawing.dots(panel, places, rows, label="mean and 95 % interval over splits")
    if "published" in rows and rows["published"].notna().any():
        printed = pd.DataFrame(
            {
                "mean": rows["published"],
                "low": rows["published"] - rows["published_std"],
                "high": rows["published"] + rows["published_std"],
            }
        )
        above = [p - 0.25 for p in places]
        label = "published, ± its deviation"
        drawing.dots(panel, above, printed, label=label, colour=drawing.BLACK, hollow=True)
    panel.set_xlabel(drawing.TITLES[rows["metric"].iloc[0]])


def _draw_retest(panel: Any, result: Result) -> None:
    """Draw what training alone scores when it is repeated, and about the most there is to score."""
    retest = result.mean["fairness_retest"]
    panel.axvspan(*result.ci95["fairness_retest"], color="0.9", lw=0, zorder=0)
    panel.axvline(retest, color=drawing.GREY, ls="--", lw=1, label="retest and its interval")
    panel.axvline(result.fairness_bound, color=drawing.GREY, ls=":", lw=1.2, label="bound")


def _name(comparison: Comparison) -> str:
    return Path(comparison.first.config.dataset).stem


def _about(comparison: Comparison) -> str:
    first = comparison.first
    c = first.config
    return (
        f"{_name(comparison)}, splits {c.seed} to {c.seed + c.splits - 1}, {c.rounds} rounds, "
        f"{c.agents} agents; retest {first.mean['fairness_retest']:.3f}, bound "
        f"{first.fairness_bound:.3f}."
    )


def _verdict(bar: pd.DataFrame) -> str:
    held = {c: int(bar[c].sum()) for c in bar if str(c).endswith("holds")}
    return (
        f"Of {len(bar)} pairs of dataset and rival, {OURS} is fairer in {held['fairness_holds']}; "
        f"its personalised accuracy is not lower in {held['personalised_holds']}, its global "
        f"accuracy in {held['global_holds']}; all three hold in {held['holds']}."
    )


STUDY = Study("table2", "all methods on clean data (Table 2)", run)
