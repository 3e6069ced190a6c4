"""Means with confidence intervals over splits, and paired comparisons of methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit


def mean_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Return the mean of the values that are not NaN, and the ends of its Student interval.

    With fewer than two values the interval is NaN.

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
    """Compare two methods on the same splits; splits where either is NaN are left out.

    Args:
        values: A measure of the one method, for each split.
        baseline: The same measure of the other method.
        draws: Number of bootstrap samples.
        seed: Seed of the bootstrap.

    Returns:
        The mean difference, its percentile bootstrap interval over splits, the p-value of
        Wilcoxon's signed-rank test (1 if there is no difference), and the number of splits.

    >>> difference = paired_difference([0.8, 0.7, 0.9], [0.7, 0.6, 0.8])
    >>> round(difference.mean, 3), difference.pairs
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
    """Correct p-values for multiple comparisons by Holm's step-down method; NaN stays NaN.

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
    """Return the mean rank of each method over splits (1 is the highest value, ties are averaged).

    `table` has a row for each method and a column for each split; NaN is not ranked.

    >>> mean_ranks([[0.9, 0.8], [0.7, 0.8], [0.1, 0.2]])
    [1.25, 1.75, 3.0]
    """
    from scipy.stats import rankdata

    values = np.asarray(table, dtype=float)
    ranks = rankdata(-values, axis=0, nan_policy="omit")
    counted = (~np.isnan(ranks)).sum(axis=1)
    total = np.nansum(ranks, axis=1)
    return [float(t / c) if c else math.nan for t, c in zip(total, counted, strict=True)]
