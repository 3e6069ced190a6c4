"""Means with intervals over splits."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
