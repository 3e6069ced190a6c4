"""Does an agent get what it brings? Correlation with training alone, and how far to trust it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

SMALLEST_VARIANCE = 1e-12


def fairness(alone: ArrayLike, federated: ArrayLike) -> float:
    """Return ρ(ξ, ψ): Pearson's correlation, over agents, of accuracy alone and in the federation.

    NaN where either does not vary: undefined is not zero.

    >>> fairness([0.6, 0.7, 0.8], [0.7, 0.75, 0.8])
    1.0
    >>> fairness([0.6, 0.7, 0.8], [0.7, 0.7, 0.7])
    nan
    """
    x, y = np.asarray(alone, dtype=float), np.asarray(federated, dtype=float)
    x, y = x - x.mean(), y - y.mean()
    if (x @ x) / len(x) < SMALLEST_VARIANCE or (y @ y) / len(y) < SMALLEST_VARIANCE:
        return math.nan
    return float(np.clip(x @ y / math.sqrt((x @ x) * (y @ y)), -1, 1))


def fairness_bound(retest: float) -> float:
    """Return √max(ρ, 0): about the most that can be measured with reliability ρ.

    >>> fairness_bound(0.81)
    0.9
    """
    return math.sqrt(max(retest, 0.0)) if retest == retest else math.nan


def correlation_interval(r: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of a correlation over n agents by Fisher's transformation.

    >>> tuple(round(x, 2) for x in correlation_interval(0.6, 10))
    (-0.05, 0.89)
    """
    if n < 4 or r != r:
        return math.nan, math.nan
    z = math.atanh(min(max(r, -0.999999), 0.999999))
    half = float(ndtri((1 + level) / 2)) / math.sqrt(n - 3)
    return math.tanh(z - half), math.tanh(z + half)
