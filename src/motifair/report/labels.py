"""Names at the right ends of curves, moved apart where they would overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from motifair.report.charts import Chart, Curve

GAP = 0.06  # of a figure's height, between two names: a line of small type on paper
MARGIN = 0.05  # of what is drawn, above and below it


@dataclass(frozen=True)
class EndLabel:
    """The name of a curve at its end.

    `curve` ends at `end`, in shares of the figure's width and height; the name stands to the right
    of the figure at the height `place`.
    """

    curve: Curve
    end: tuple[float, float]
    place: float


@dataclass(frozen=True)
class Ends:
    """The names of all curves of a chart that have one, and the ranges that their places are of."""

    labels: tuple[EndLabel, ...]
    x_range: tuple[float, float]
    y_range: tuple[float, float]


def end_labels(chart: Chart) -> Ends | None:
    """Return the names at the ends of a chart's curves; None for a chart without a legend of curves
    over more than one place.
    """
    curves = [s for s in chart.series if isinstance(s, Curve) and len(s.x)]
    named = [c for c in curves if c.legend]
    if not chart.legend() or len(named) < len(chart.legend()):
        return None
    x = np.concatenate([c.x for c in curves])
    lines = [line.at for line in chart.references if line.kind == "across"]
    x_range, y_range = (x.min(), x.max()), _padded(np.concatenate([*(c.y for c in curves), lines]))
    if x_range[0] == x_range[1]:
        return None
    ends = [(_share(c.x[-1], x_range), _share(c.y[-1], y_range)) for c in named]
    places = spread([up for _, up in ends])
    labels = (EndLabel(*label) for label in zip(named, ends, places, strict=True))
    return Ends(tuple(labels), (float(x_range[0]), float(x_range[1])), y_range)


def spread(wanted: Sequence[float], gap: float = GAP) -> list[float]:
    """Return places in [0, 1] at least `gap` apart, in the order of those wanted and as near to
    them as possible (least squares).

    >>> [round(place, 2) for place in spread([0.5, 0.5, 0.9, 1.0], gap=0.1)]
    [0.45, 0.55, 0.9, 1.0]
    """
    steps = min(gap, 1 / max(len(wanted) - 1, 1)) * np.arange(len(wanted))
    order = np.argsort(wanted, kind="stable")
    # Without their steps, places that are far enough apart are places that do not fall.
    fitted = isotonic_regression(np.asarray(wanted)[order] - steps).x
    places = np.empty(len(wanted))
    places[order] = np.clip(fitted, 0, 1 - steps[-1]) + steps
    return [float(place) for place in places]


def _padded(y: np.ndarray) -> tuple[float, float]:
    low, high = float(y.min()), float(y.max())
    beyond = MARGIN * (high - low) or 0.5
    return low - beyond, high + beyond


def _share(at: float, within: tuple[float, float]) -> float:
    return float((at - within[0]) / (within[1] - within[0]))
