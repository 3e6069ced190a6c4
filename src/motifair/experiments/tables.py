"""Results, comparisons and sweeps as tables of text."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import fill
from typing import TYPE_CHECKING, Any

import pandas as pd

from motifair.table import NONE, Table, interval, number, percent

if TYPE_CHECKING:
    from motifair.experiments.comparison import Comparison
    from motifair.experiments.result import Result
    from motifair.experiments.sweep import Sweep

TITLES = {
    "personalised_accuracy": "personalised",
    "global_accuracy": "global",
    "fairness": "fairness",
}
AGENT_COLUMNS = {
    "graphs": "graphs", "value now": "value", "aligned": "mean_alignment", "diverse": "diversity",
    "reward": "reward", "paid in all": "payoff", "of it late": "compensation", "alone": "alone",
    "together": "accuracy", "gain": "gain",
}  # fmt: skip
SPLIT_COLUMNS = {
    "accuracy": "personalised_accuracy", "gain": "gain",
    "worst": "worst_gain", "rational": "rationality", "global": "global_accuracy",
    "fairness": "fairness", "retest": "fairness_retest",
}  # fmt: skip
SWEEP_COLUMNS = {k: v for k, v in SPLIT_COLUMNS.items() if k != "retest"}
# Measures after the compared metrics: title of a section, and of a column.
MEASURES = {
    "gain": ("gain over training alone", "gain"),
    "worst_gain": ("the worst agent's gain", "worst"),
    "rationality": ("rationality", "rational"),
}
INCENTIVES = {  # with the option `incentives`
    "accuracy_slope": ("accuracy slope", "accuracy slope"),
    "pay_slope": ("pay slope", "pay slope"),
    "free_rider_gain": ("free-rider gain", "free-rider gain"),
}
GIVING = (
    "Slopes: rise of one agent's accuracy, and of its pay as a share of that for giving all its "
    "graphs, from giving none to giving all, by a straight line over five shares; free-rider gain: "
    "its accuracy for giving none less that alone. One agent a split, on its few test graphs: look "
    "at the intervals."
)
SIGNIFICANT = 0.05
NARROW = 8  # characters of a column's title where the table must fit 80 columns


def agents_table(result: Result, *, brief: bool = False) -> Table:
    """Return a row for each agent of a single split; with `brief` it fits 80 columns."""
    frame = result.to_frame()
    # The best agent receives the whole aggregate.
    whole = float(result.splits[0].history.columns["kept"].max())
    frame["reward"] = frame["mean_kept"] / (whole or float("nan"))
    words = ["agent", *(["role"] if "role" in frame else [])]
    columns = _agent_columns(result)
    if brief:
        del columns["graphs"]

    def cell(column: str, value: float) -> str:
        if column == "reward":
            return percent(value)
        digits = 2 if brief and column not in ("value", "mean_alignment") else 3
        turned = result.metric.sign if column in ("alone", "accuracy") else 1
        return number(turned * value, digits, sign=column == "gain")

    rows = [
        [*(str(row[w]) for w in words), *(cell(c, row[c]) for c in columns.values())]
        for row in frame.to_dict("records")
    ]
    head = [*words, *(fill(title, NARROW) if brief else title for title in columns)]
    title = "Who contributed what, who was paid what (in credits)"
    return Table(head, rows, title, range(len(words), len(head)))


def _agent_columns(result: Result) -> dict[str, str]:
    """Return the columns of agents by title: what is aligned may be coverage, and diversity is
    left out where it has no weight.
    """
    aligned = "coverage" if result.config.alignment_against == "coverage" else "aligned"
    titles = {"aligned": aligned}
    idle = {"diverse"} if result.config.diversity_weight == 0 else set()
    return {titles.get(k, k): v for k, v in AGENT_COLUMNS.items() if k not in idle}


def splits_table(result: Result) -> Table:
    """Return a row for each split."""
    rows = []
    for split in result.splits:
        metrics = {
            name: result.metric.sign * value if name.endswith("_accuracy") else value
            for name, value in split.metrics().items()
        }
        rows.append([str(split.seed), *(number(metrics[c]) for c in SPLIT_COLUMNS.values())])
    head = ["seed", *_judged_by(result, SPLIT_COLUMNS)]
    return Table(head, rows, f"{len(rows)} splits", range(len(head)))


def sweep_table(sweep: Sweep) -> Table:
    """Return a row for each setting: its options and the main metrics."""
    options = list(sweep.settings[0])
    rows = [
        [
            *(str(v) for v in setting.values()),
            *(number(r.judged(c)[0]) for c in SWEEP_COLUMNS.values()),
        ]
        for setting, r in zip(sweep.settings, sweep, strict=True)
    ]
    head = [*options, *_judged_by(sweep[0], SWEEP_COLUMNS)]
    title = f"{sweep[0].config.method} on {sweep[0].config.dataset}"
    return Table(head, rows, title, range(len(options), len(head)))


def _judged_by(result: Result, columns: Iterable[str]) -> list[str]:
    """Return titles with the result's metric in the place of accuracy."""
    return [title.replace("accuracy", result.metric.words) for title in columns]


def comparison_table(comparison: Comparison) -> Table:
    """Return a row for each method: mean, difference and published figure of each metric."""
    frame = comparison.to_frame()
    head = ["method"]
    for title in TITLES.values():
        head += [title, f"− {comparison.baseline}", "paper"]
    measures = shown_measures(comparison)
    head += [title for _, title in measures.values()]
    rows = []
    for method, result in comparison.results.items():
        row = [method]
        for metric in TITLES:
            compared = frame[(frame.method == method) & (frame.metric == metric)].iloc[0]
            row += metric_cells(compared, comparison)
        rows.append([*row, *(measure_cell(result, measure) for measure in measures)])
    return Table(head, rows, numbers=range(1, len(head)), notes=notes(comparison))


def metrics_table(comparison: Comparison) -> Table:
    """Return the comparison with a section for each metric, which fits 80 columns."""
    head = ["", "mean", f"− {comparison.baseline}", "rank", "paper"]
    rows: list[list[str]] = []
    frame = comparison.to_frame()
    for metric, part in frame[frame["mean"].notna()].groupby("metric", sort=False):
        rows += [_judged_by(comparison.first, [str(metric).replace("_", " ")])]
        for _, row in part.iterrows():
            mean, difference, paper = metric_cells(row, comparison)
            rows.append([f"  {row['method']}", mean, difference, f"{row['rank']:.1f}", paper])
    for measure, (title, _) in shown_measures(comparison).items():
        rows.append([title])
        for method, result in comparison.results.items():
            rows.append([f"  {method}", measure_cell(result, measure)])
    return Table(head, rows, numbers=range(1, len(head)), notes=notes(comparison))


def differences_table(comparison: Comparison) -> Table:
    """Return a section for each metric with the paired difference of each method to the baseline,
    its interval, and how likely it is by chance.
    """
    frame, baseline = comparison.to_frame(), comparison.baseline
    rows: list[list[str]] = []
    for metric, part in frame[frame["method"] != baseline].groupby("metric", sort=False):
        known = part[part["difference"].notna()]
        rows += [[str(metric).replace("_", " ")]] if len(known) else []
        for _, row in known.iterrows():
            ends = interval(row["difference"], row["difference_low"], row["difference_high"])
            told = "yes" if row["p_holm"] < SIGNIFICANT else "no"
            rows.append([f"  {row['method']}", ends, number(row["p_holm"]), told])
    head = ["run", f"minus {baseline}, split by split", "p", "can be told apart"]
    splits = len(comparison.first.splits)
    note = (
        f"Mean over {splits} splits with a 95 % bootstrap interval; p is Wilcoxon's signed-rank "
        f"test after Holm's correction over {len(comparison.results) - 1} runs, below "
        f"{SIGNIFICANT} called told apart. With fewer than six splits hardly anything is."
    )
    return Table(head, rows, f"Differences to {baseline}", (1, 2), [note])


def shown_measures(comparison: Comparison) -> dict[str, tuple[str, str]]:
    """Return the measures that were measured, with their titles."""
    measured = any(r.config.incentives for r in comparison.results.values())
    return {**MEASURES, **INCENTIVES} if measured else MEASURES


def measure_cell(result: Result, measure: str) -> str:
    """Return mean ± half interval of a measure; all but the rationality have a sign."""
    low, high = result.ci95[measure]
    half = "" if pd.isna(low) else f" ± {(high - low) / 2:.3f}"
    return number(result.mean[measure], sign=measure != "rationality") + half


def metric_cells(row: pd.Series[Any], comparison: Comparison) -> list[str]:
    """Return mean ± half interval, difference to the baseline, and the published figure."""
    half = (row["high"] - row["low"]) / 2
    sign = comparison.first.metric.sign if row["metric"].endswith("_accuracy") else 1
    mean = number(sign * row["mean"]) + ("" if pd.isna(half) else f" ± {half:.3f}")
    star = "*" if row["p_holm"] < SIGNIFICANT else ""
    own = row["method"] == comparison.baseline or pd.isna(row["difference"])
    difference = NONE if own else f"{row['difference']:+.3f}{star}"
    return [mean, difference, number(row["published"])]


def notes(comparison: Comparison) -> list[str]:
    """Return how to read the figures, and why the fairness of some methods means little."""
    methods: dict[str, list[str]] = {}
    for method, caveats in comparison.caveats.items():
        for sentence in caveats:
            methods.setdefault(sentence, []).append(method)
    every = len(comparison.results)
    cautions = [
        f"Caution, fairness of {'all' if len(names) == every else ', '.join(names)}: {sentence}"
        for sentence, names in methods.items()
    ]
    giving = [GIVING] if comparison.first.config.incentives else []
    return [note(comparison), *giving, *cautions]


def note(comparison: Comparison) -> str:
    """Return how to read the figures of a comparison, and the bound of its fairness."""
    first = comparison.first
    config, metric = first.config, first.metric
    judged = "" if metric.words == "accuracy" else f"Judged by {metric.words}"
    if judged:
        turned = "; differences, gains and slopes are turned, more is better"
        judged += f"{turned if metric.is_error else ''}. "
    return (
        f"{judged}{config.dataset}, splits {config.seed} to {config.seed + len(first.splits) - 1}, "
        f"{config.rounds} rounds, {config.agents} agents. Mean ± half of the 95 % interval over "
        f"splits; paired difference to {comparison.baseline}, * where Wilcoxon's p < 0.05 after "
        f"Holm's correction. Fairness: retest {first.mean['fairness_retest']:.3f}, bound "
        f"{first.fairness_bound:.3f}; gain over training alone: mean and worst agent. Rationality: "
        "share of agents not worse off than alone (training alone again: "
        f"{first.mean['rationality_retest']:.3f})."
    )
