"""Means with intervals over splits, and paired comparisons of methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit


def mean_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Return mean, low and high of Student's interval over the defined values.

    With fewer than two of them the interval is NaN.

    >>> tuple(round(x, 3) for x in mean_interval([1.0, 2.0, 3.0, math.nan]))
    (2.0, -0.484, 4.484)
    """
    defined = np.array([v for v in values if v == v], dtype=float)
    if len(defined) == 0:
        return math.nan, math.nan, math.nan
    mean = float(defined.mean())
    if len(defined) == 1:
        return mean, math.nan, math.nan
    error = float(defined.std(ddof=1)) / math.sqrt(len(defined))
    half = float(stdtrit(len(defined) - 1, (1 + level) / 2)) * error
    return mean, mean - half, mean + half


@dataclass(frozen=True)
class Paired:
    """A paired difference over splits: mean, bootstrap interval, Wilcoxon's p, number of pairs."""

    mean: float
    low: float
    high: float
    p: float
    pairs: int


def paired_difference(
    values: Sequence[float], baseline: Sequence[float], *, draws: int = 10_000, seed: int = 0
) -> Paired:
    """Compare two methods on the same splits; splits where either is undefined are left out.

    The interval is the percentile bootstrap's over splits; p is Wilcoxon's signed-rank test's
    (1 where nothing differs).

    >>> found = paired_difference([0.8, 0.7, 0.9], [0.7, 0.6, 0.8])
    >>> round(found.mean, 3), found.pairs
    (0.1, 3)
    """
    from scipy.stats import wilcoxon

    difference = np.asarray(values, dtype=float) - np.asarray(baseline, dtype=float)
    difference = difference[~np.isnan(difference)]
    n = len(difference)
    if n == 0:
        return Paired(math.nan, math.nan, math.nan, math.nan, 0)
    rng = np.random.default_rng(seed)
    means = difference[rng.integers(n, size=(draws, n))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975]) if n > 1 else (math.nan, math.nan)
    p = float(wilcoxon(difference).pvalue) if n > 1 and (difference != 0).any() else 1.0
    return Paired(float(difference.mean()), float(low), float(high), p, n)


def holm(p: Sequence[float]) -> list[float]:
    """Correct p-values for being many, by Holm's step-down method; NaN stays NaN.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=float)
    corrected = np.full(len(values), np.nan)
    tested = np.flatnonzero(~np.isnan(values))
    largest = 0.0
    for place, k in enumerate(tested[np.argsort(values[tested], kind="stable")]):
        largest = max(largest, min(1.0, float(values[k]) * (len(tested) - place)))
        corrected[k] = largest
    return [float(v) for v in corrected]


def mean_ranks(table: Sequence[Sequence[float]]) -> list[float]:
    """Return each method's mean rank over splits (1 is the highest value, ties share).

    `table` has a row for each method and a column for each split; a method that is undefined in a
    split is not ranked there.

    >>> mean_ranks([[0.9, 0.8], [0.7, 0.8], [0.1, 0.2]])
    [1.25, 1.75, 3.0]
    """
    from scipy.stats import rankdata

    values = np.asarray(table, dtype=float)
    ranks = rankdata(-values, axis=0, nan_policy="omit")
    counted = (~np.isnan(ranks)).sum(axis=1)
    total = np.nansum(ranks, axis=1)
    return [float(t / c) if c else math.nan for t, c in zip(total, counted, strict=True)]
