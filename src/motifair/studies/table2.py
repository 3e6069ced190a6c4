"""Table 2: all methods on three datasets, significant differences, and agents worse off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from motifair.evaluation.fairness import LOSS
from motifair.evaluation.statistics import holm, paired_difference
from motifair.experiments.comparison import COMPARED, Comparison
from motifair.experiments.result import Result
from motifair.experiments.tables import SIGNIFICANT
from motifair.studies import drawing
from motifair.studies.rows import PRINTED, comparison_rows, measured, split_rows
from motifair.studies.study import CONFIRMATION, DATASETS, Settings, Study, StudyResult

METHODS = (
    "self-train", "fedavg", "fedavg-own", "fedavg-own-stretched", "fedprox", "fedsage", "gcfl",
    "gcfl+", "fedstar", "star-alone", "dw", "eu", "cffl", "cgsv", "motifair",
)  # fmt: skip
BASELINE, OURS = "fedavg", "motifair"
SAME = {"fedprox": "fedavg"}  # with one local step the proximal term has no gradient
NOT_WORSE = -0.02  # an accuracy lower by less than this counts as not lower

NOTES = (
    "Means with Student's 95 % interval over splits; `difference`: paired, to fedavg, with a "
    "bootstrap interval; `p_holm`: Wilcoxon's signed-rank p, corrected by Holm over the methods of "
    "a dataset and metric.",
    "`fairness` correlates accuracy in the federation with that of training alone, which shares no "
    "random bit with it. The row self-train is training alone once more, with a third seed: what "
    "not federating scores.",
    f"`bar`: {OURS} minus each other method and control (FedProx only where it differs from "
    "FedAvg). Fairness holds where the interval lies above 0 and p (Holm, over all rows of the "
    "table) is below 0.05; an accuracy holds where the lower end of the 95 % interval is not below "
    f"{NOT_WORSE}; a method without a server's model has no global accuracy to compare.",
    f"`alone`: share of agents whose accuracy is more than {LOSS} below training alone. `retest`: "
    "correlation of two trainings alone; `bound`: its root, about the most fairness that can be "
    "measured.",
)


def run(settings: Settings) -> StudyResult:
    """Run Table 2 on the confirmation splits."""
    datasets = settings.datasets or DATASETS
    compared = settings.compare(datasets, METHODS, BASELINE, splits, seed=CONFIRMATION)
    return describe("Table 2: all methods, clean data", compared, printed=True)


def splits(dataset: str) -> int:
    """Return the number of splits."""
    return 30 if dataset == "DD" else 100


def describe(title: str, compared: list[Comparison], *, printed: bool) -> StudyResult:
    """Make tables and figures, with the paper's numbers if they are for the same data."""
    methods = pd.concat([comparison_rows(c) for c in compared], ignore_index=True)
    if not printed:
        methods = methods.drop(columns=PRINTED)
    tables = {"methods": methods, "bar": bar_table(compared), "alone": alone_table(compared)}
    figures = {dataset_name(c): draw(c, methods, title) for c in compared}
    return StudyResult(
        title,
        tables,
        figures,
        (*map(_about, compared), *NOTES, _verdict(tables["bar"])),
        raw={"splits": pd.concat([split_rows(c) for c in compared], ignore_index=True)},
    )


def bar_table(compared: list[Comparison]) -> pd.DataFrame:
    """Return the differences of our method to all others, and whether it is fairer and as good."""
    rows = [_bar_row(c, rival) for c in compared for rival in rivals(c)]
    frame = pd.DataFrame(rows)
    frame["p_holm"] = holm(frame.pop("p").tolist())
    frame["fairness_holds"] = (frame["fairness_low"] > 0) & (frame["p_holm"] < SIGNIFICANT)
    for accuracy in ("personalised", "global"):
        low = frame[f"{accuracy}_low"]
        frame[f"{accuracy}_holds"] = (low >= NOT_WORSE).where(low.notna())
    checks = ["fairness_holds", "personalised_holds", "global_holds"]
    frame["holds"] = (frame[checks] != False).all(axis=1)  # noqa: E712 - undefined is no failure
    return frame


def rivals(comparison: Comparison) -> list[str]:
    """Return all other methods, without those whose training is identical to another's."""
    results = comparison.results
    same = {
        name
        for name, other in SAME.items()
        if {name, other} <= results.keys()
        and all(measured(results[name], m) == measured(results[other], m) for m in COMPARED)
    }
    return [name for name in results if name != OURS and name not in same]


def _bar_row(comparison: Comparison, rival: str) -> dict[str, Any]:
    results = comparison.results
    row: dict[str, Any] = {"dataset": comparison.first.config.dataset, "against": rival}
    for metric in COMPARED:
        pair = paired_difference(measured(results[OURS], metric), measured(results[rival], metric))
        name = metric.removesuffix("_accuracy")
        row |= {name: pair.mean, f"{name}_low": pair.low}
        if metric == "fairness":
            row |= {"fairness_high": pair.high, "p": pair.p}
    return row


def alone_table(compared: list[Comparison]) -> pd.DataFrame:
    """Return the share of agents that each method leaves worse off than training alone."""
    rows = []
    for comparison in compared:
        first = comparison.first
        for method, result in comparison.results.items():
            low, high = result.ci95["worse_off"]
            rows.append(
                {
                    "dataset": first.config.dataset,
                    "method": method,
                    "worse_off": result.mean["worse_off"],
                    "low": low,
                    "high": high,
                    "retest": first.mean["fairness_retest"],
                    "bound": first.fairness_bound,
                }
            )
    return pd.DataFrame(rows)


def draw(comparison: Comparison, methods: pd.DataFrame, title: str) -> Figure:
    """Draw all metrics of one dataset, with the fairness of training alone twice."""
    rows = methods[methods["dataset"] == comparison.first.config.dataset]
    height = 1.4 + 0.3 * len(comparison.results)
    figure = draw_methods(rows, f"{title}: {_about(comparison)}", height)
    _draw_retest(figure.axes[-1], comparison.first)
    drawing.legend_outside(figure, *figure.axes)
    return figure


def draw_methods(rows: pd.DataFrame, title: str, height: float) -> Figure:
    """Draw the mean and interval of each metric by method, with the paper's numbers."""
    figure, axes = drawing.panels(len(COMPARED), width=10, height=height)
    for panel, metric in zip(axes, COMPARED, strict=True):
        part = rows[rows["metric"] == metric]
        draw_metric(panel, part)
        names = part["method"].tolist()
        drawing.name_rows(panel, names if panel is axes[0] else [""] * len(names))
    figure.suptitle(title, fontsize=9)
    return figure


def draw_metric(panel: Any, rows: pd.DataFrame) -> None:
    """Draw one metric of all methods, and the paper's numbers if there are any."""
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
    """Draw the fairness of training alone twice, with its interval, and the bound on fairness."""
    retest = result.mean["fairness_retest"]
    panel.axvspan(*result.ci95["fairness_retest"], color="0.9", lw=0, zorder=0)
    panel.axvline(retest, color=drawing.GREY, ls="--", lw=1, label="retest and its interval")
    panel.axvline(result.fairness_bound, color=drawing.GREY, ls=":", lw=1.2, label="bound")


def dataset_name(comparison: Comparison) -> str:
    """Return the name of a comparison's dataset, of a folder the last part."""
    return Path(comparison.first.config.dataset).stem


def _about(comparison: Comparison) -> str:
    first = comparison.first
    c = first.config
    return (
        f"{dataset_name(comparison)}, splits {c.seed} to {c.seed + c.splits - 1}, "
        f"{c.rounds} rounds, {c.agents} agents; retest {first.mean['fairness_retest']:.3f}, bound "
        f"{first.fairness_bound:.3f}."
    )


def _verdict(bar: pd.DataFrame) -> str:
    held = {c: int((bar[c] == True).sum()) for c in bar if str(c).endswith("holds")}  # noqa: E712
    return (
        f"Of {len(bar)} pairs of dataset and rival, {OURS} is fairer in {held['fairness_holds']}; "
        f"its personalised accuracy is not lower in {held['personalised_holds']}, its global "
        f"accuracy in {held['global_holds']} of {bar['global'].count()}; all hold in "
        f"{held['holds']}."
    )


STUDY = Study("table2", "all methods on clean data (Table 2)", run)
