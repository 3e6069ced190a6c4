"""Means with intervals as columns of a table, and verdicts based on an interval."""

from __future__ import annotations

import math
from collections.abc import Iterable

from motifair.evaluation.statistics import mean_interval

SHARE, CORRELATION = (0.0, 1.0), (-1.0, 1.0)
HOLDS, FAILS, UNCLEAR = "holds", "does not", "cannot be told"


def with_interval(
    name: str, values: Iterable[float], within: tuple[float, float] = (-math.inf, math.inf)
) -> dict[str, float]:
    """Return the mean and its 95 % interval over splits as columns `name`, `name_low`, `name_high`.

    The interval is clipped to `within`, the range of the measure.

    >>> columns = with_interval("share", [0.25, 0.5, 0.75], SHARE)
    >>> {k: round(v, 3) for k, v in columns.items()}
    {'share': 0.5, 'share_low': 0.0, 'share_high': 1.0}
    """
    mean, low, high = mean_interval([float(v) for v in values])
    least, most = within
    # NaN (no interval) stays NaN: comparisons with it are false.
    low, high = least if low < least else low, most if high > most else high
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def verdict(low: float, high: float, *, above: float | None = None, below: float = 0.0) -> str:
    """Decide from its interval whether a number is above (or, without `above`, below) a limit.

    >>> verdict(0.1, 0.3, above=0.0), verdict(0.1, 0.3, below=0.2), verdict(0.1, 0.3, below=0.0)
    ('holds', 'cannot be told', 'does not')
    """
    if above is not None:
        return HOLDS if low > above else FAILS if high < above else UNCLEAR
    return HOLDS if high < below else FAILS if low > below else UNCLEAR
