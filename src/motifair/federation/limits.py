"""What one member can do to the others by what it claims: sizes held to the median.

A median of two, or of many of whom half conspire, is what the others want: no rule that compares
members with each other helps there.
"""

from __future__ import annotations

from collections.abc import Sequence


def believed_sizes(claimed: Sequence[int], ratio: float) -> list[int]:
    """Return numbers of graphs of at most `ratio` times their (lower) median.

    >>> believed_sizes([80, 100, 120, 10**9], ratio=2.0)
    [80, 100, 120, 200]
    """
    most = int(ratio * sorted(claimed)[(len(claimed) - 1) // 2])
    return [min(number, most) for number in claimed]
