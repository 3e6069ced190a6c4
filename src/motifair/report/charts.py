"""A figure as data: its series, and how to read it.

It is independent of plotting libraries; `interactive` and `static` render it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

LONGEST_CURVE = 500  # points; more cannot be seen, and make a file heavy
MOST_POINTS = 6_000  # of all curves of a chart together
LONGEST_NAME = 28
MOST_SIGNS = 800  # cells of a map in which a minus is still readable


@dataclass(frozen=True)
class Style:
    """How a series looks: names of `colours`, so that each renderer has its own shades."""

    colour: str = "blue"
    dash: str = "solid"
    marker: str = "circle"
    width: float = 1.6
    opacity: float = 1.0
    hollow: bool = False


@dataclass(frozen=True)
class Curve:
    """A line through points; `agent` says whose it is, `legend` whether it is named there."""

    name: str
    x: np.ndarray
    y: np.ndarray
    style: Style
    agent: str = ""
    legend: bool = True


@dataclass(frozen=True)
class Dots:
    """Single points, with intervals where `x_span` or `y_span` (low and high, `(2, n)`) are known.

    `names` say what each point is, `agents` whose it is.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    style: Style
    names: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    x_span: np.ndarray | None = None
    y_span: np.ndarray | None = None


@dataclass(frozen=True)
class Bars:
    """A bar to the right (or left, below zero) in each of the chart's rows."""

    name: str
    x: np.ndarray
    style: Style
    agents: tuple[str, ...] = ()


@dataclass(frozen=True)
class HeatMap:
    """A cell for each of the chart's rows and each of `x`: `z` is `(rows, columns)`.

    Colours go from `low` to `high`; a `diverging` map has its neutral colour at zero, and marks
    negative cells with a minus where there is room.
    """

    name: str
    x: np.ndarray
    z: np.ndarray
    low: float
    high: float
    diverging: bool = False
    agents: tuple[str, ...] = ()

    @property
    def signs(self) -> np.ndarray:
        """What is written into the cells: a minus where there is room for it, or nothing."""
        wanted = self.diverging and self.z.size <= MOST_SIGNS
        return np.where((self.z < 0) & wanted, "−", "")


Series = Curve | Dots | Bars | HeatMap


@dataclass(frozen=True)
class Reference:
    """A thin line to compare with: across at a height, down at a place, or where x equals y.

    Where the axis says enough its name is ''.
    """

    name: str
    at: float = 0.0
    kind: Literal["across", "down", "diagonal"] = "across"


@dataclass(frozen=True)
class Chart:
    """One figure. `key` names its file, `how` says how to read it.

    `rows` name places on the vertical axis from the top down, where that axis has no numbers.
    """

    key: str
    title: str
    how: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    references: tuple[Reference, ...] = ()
    rows: tuple[str, ...] = ()
    x_range: tuple[float, float] | None = None

    def legend(self) -> list[tuple[Curve | Dots | Bars, str]]:
        """Return the series that a legend names, each with its agent; '' where it has not one."""
        named: list[tuple[Curve | Dots | Bars, str]] = []
        for series in self.series:
            if isinstance(series, Curve) and series.legend:
                named.append((series, series.agent))
            elif isinstance(series, Dots | Bars):
                named.append((series, series.agents[0] if len(series.agents) == 1 else ""))
        return named if len(named) > 1 else []


@dataclass(frozen=True)
class Missing:
    """A figure that this run cannot have, and what would give it."""

    title: str
    why: str


def thin(y: np.ndarray, most: int = LONGEST_CURVE) -> np.ndarray:
    """Return the indices of the points to draw: the first, the last, and the extremes of each part.

    Points that are NaN are never among them.

    >>> thin(np.array([0.0, 1.0, np.nan, 3.0])).tolist()
    [0, 1, 3]
    >>> thin(np.array([0, 0, 9, 0, 0, 0, -9, 0, 0, 0.0]), most=6).tolist()
    [0, 2, 5, 6, 9]
    """
    known = np.flatnonzero(~np.isnan(y))
    if len(known) <= most:
        return known
    kept = [known[0], known[-1]]
    for stretch in np.array_split(known, (most - 2) // 2):
        kept += [stretch[y[stretch].argmin()], stretch[y[stretch].argmax()]]
    return np.unique(kept)


def curve(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    style: Style,
    *,
    agent: str = "",
    legend: bool = True,
    curves: int = 1,
) -> Curve:
    """Make a curve of no more points than can be seen in a chart of so many curves."""
    kept = thin(y, min(LONGEST_CURVE, max(MOST_POINTS // curves, 50)))
    return Curve(name, x[kept], y[kept], style, agent, legend)


def reach(middle: np.ndarray, span: np.ndarray | None) -> np.ndarray | None:
    """Return how far intervals reach below and above; None where no interval is known.

    >>> reach(np.array([0.5]), np.array([[0.25], [1.0]])).tolist()
    [[0.25], [0.5]]
    """
    if span is None or np.isnan(span).all():
        return None
    # Fisher's interval of a correlation of 1 ends just below it, which is no reach at all.
    both: np.ndarray = np.maximum(np.nan_to_num([middle - span[0], span[1] - middle]), 0)
    return both


def in_columns(x: np.ndarray, table: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Average over rounds until there are at most so many columns: their centre, and their mean.

    `table` is `(rounds, agents)`; what is NaN is left out of a mean.

    >>> x, z = in_columns(np.arange(1, 5), np.array([[1.0], [3.0], [np.nan], [5.0]]), most=2)
    >>> x.tolist(), z.tolist()
    ([1.5, 3.5], [[2.0], [5.0]])
    """
    if len(x) <= most:
        return x, table
    column = np.arange(len(x)) // -(-len(x) // most)
    means = pd.DataFrame(np.column_stack([x, table])).groupby(column).mean().to_numpy()
    return means[:, 0], means[:, 1:]


def short(name: str) -> str:
    """Shorten a name in its middle: names that differ do so at their ends.

    >>> short("agent-07"), short("a" * 40 + "-north")
    ('agent-07', 'aaaaaaaaaaaaa…aaaaaaaa-north')
    """
    if len(name) <= LONGEST_NAME:
        return name
    half = (LONGEST_NAME - 1) // 2
    return f"{name[:half]}…{name[-(LONGEST_NAME - 1 - half) :]}"
