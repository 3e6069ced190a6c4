"""What a comparison says, as rows: means, paired differences, and what the paper prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from motifair.evaluation.fairness import fairness
from motifair.evaluation.statistics import holm, mean_interval, paired_difference
from motifair.experiments.compare import COMPARED, Comparison
from motifair.experiments.published import METRICS, NAMES, published_table
from motifair.experiments.result import Result

AGAIN = "fairness_again"
MEASURED = (*COMPARED, AGAIN)
PRINTED = ["published", "published_std"]


def measured(result: Result, metric: str) -> list[float]:
    """Return a metric on each split.

    `fairness_again` is ρ(ξ again, ψ). A method shares its training seed with ξ but not with
    ξ again, so this is free of what two trainings have in common because of their seed alone.
    """
    if metric != AGAIN:
        return [s.metrics()[metric] for s in result.splits]
    if result.config.method == "self-train":  # would be compared with itself
        return [math.nan] * len(result.splits)
    return [fairness(s.retest, s.accuracy) for s in result.splits]


def comparison_rows(comparison: Comparison) -> pd.DataFrame:
    """Return a row for each metric and method, and on how many splits the metric is defined.

    Mean, low and high over splits; the paired difference to the baseline with its bootstrap
    interval; Wilcoxon's p after Holm's correction over methods; the printed mean and deviation.
    """
    again = {m: measured(r, AGAIN) for m, r in comparison.results.items()}
    parts = [comparison.to_frame().drop(columns="rank"), _contrast(again, comparison.baseline)]
    frame = pd.concat(parts, ignore_index=True)
    dataset = comparison.first.config.dataset
    frame.insert(0, "dataset", dataset)
    pairs = list(zip(frame["method"], frame["metric"], strict=True))
    defined = [pd.Series(measured(comparison.results[m], k)).count() for m, k in pairs]
    frame.insert(3, "splits", defined)
    frame["published_std"] = [printed_deviation(dataset, m, k) for m, k in pairs]
    return frame


def split_rows(comparison: Comparison) -> pd.DataFrame:
    """Return a row for each method and split: its seed, and what was measured."""
    rows = []
    for method, result in comparison.results.items():
        columns = {metric: measured(result, metric) for metric in MEASURED}
        about = {"dataset": result.config.dataset, "method": method}
        seeds = [s.seed for s in result.splits]
        rows.append(pd.DataFrame({**about, "seed": seeds, **columns}))
    return pd.concat(rows, ignore_index=True)


def _contrast(values: Mapping[str, Sequence[float]], baseline: str) -> pd.DataFrame:
    """Return the rows of `fairness_again`, in the columns of `Comparison.to_frame`."""
    pairs = {m: paired_difference(v, values[baseline]) for m, v in values.items()}
    corrected = holm([math.nan if m == baseline else p.p for m, p in pairs.items()])
    rows = []
    for (method, pair), p in zip(pairs.items(), corrected, strict=True):
        mean, low, high = np.clip(mean_interval(values[method]), -1, 1)
        rows.append(
            {
                "metric": AGAIN,
                "method": method,
                "mean": mean,
                "low": low,
                "high": high,
                "difference": pair.mean,
                "difference_low": pair.low,
                "difference_high": pair.high,
                "p_holm": p,
                "published": math.nan,
            }
        )
    return pd.DataFrame(rows)


def printed_deviation(dataset: str, method: str, metric: str) -> float:
    """Return the deviation that the paper prints behind ±, NaN where there is none.

    >>> printed_deviation("PROTEINS", "fedavg", "fairness")
    0.153
    """
    table = published_table()
    rows = table[
        (table["dataset"] == dataset)
        & (table["method"] == NAMES.get(method, "none"))
        & (table["metric"] == METRICS.get(metric, "none"))
    ]
    return float(rows["std"].iloc[0]) if len(rows) else math.nan
