"""Rows of a comparison: means, paired differences, and what the paper prints."""

from __future__ import annotations

import pandas as pd

from motifair.experiments.comparison import COMPARED, Comparison
from motifair.experiments.published import published
from motifair.experiments.result import Result

MEASURED = (*COMPARED, "worse_off")
PRINTED = ["published", "published_std"]


def measured(result: Result, metric: str) -> list[float]:
    """Return a metric on each split."""
    return [s.metrics()[metric] for s in result.splits]


def comparison_rows(comparison: Comparison) -> pd.DataFrame:
    """Return a row for each metric and method, and on how many splits the metric is defined.

    Mean, low and high over splits; the paired difference to the baseline with its bootstrap
    interval; Wilcoxon's p after Holm's correction over methods; the printed mean and deviation.
    """
    frame = comparison.to_frame().drop(columns="rank")
    dataset = comparison.first.config.dataset
    frame.insert(0, "dataset", dataset)
    pairs = list(zip(frame["method"], frame["metric"], strict=True))
    defined = [pd.Series(measured(comparison.results[m], k)).count() for m, k in pairs]
    frame.insert(3, "splits", defined)
    frame["published_std"] = [published(dataset, m, k, "std") for m, k in pairs]
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
