"""Plots shared by the studies: dots with intervals, curves with intervals, legends outside.

Frames have the columns `mean`, `low` and `high`; an interval that is NaN is not drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from motifair.report import charts, colours

BLUE, ORANGE, GREEN, RED, PINK, SKY, _, BLACK = colours.COLOURS
# Yellow is left out: it is hard to see on white.
LINES = (BLUE, RED, GREEN, ORANGE, PINK, SKY, BLACK)
MARKERS = tuple(colours.MARKERS.values())
GREY = "0.6"
TITLES = {
    "personalised_accuracy": "personalised accuracy",
    "global_accuracy": "global accuracy",
    "fairness": "fairness",
}


def panels(
    columns: int, *, width: float, height: float, shared: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels in one row, without top and right spines."""
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    row: list[Axes] = list(
        figure.subplots(1, columns, squeeze=False, sharex=shared, sharey=shared)[0]
    )
    for axes in row:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92", lw=0.6)
        axes.set_axisbelow(True)
    return figure, row


def reach(frame: pd.DataFrame) -> np.ndarray | None:
    """Return how far intervals reach below and above the mean, as `errorbar` wants them.

    >>> reach(pd.DataFrame({"mean": [0.5], "low": [0.25], "high": [1.0]})).tolist()
    [[0.25], [0.5]]
    """
    mean, low, high = (frame[name].to_numpy(float) for name in ("mean", "low", "high"))
    return charts.reach(mean, np.stack([low, high]))


def dots(
    axes: Axes,
    places: Sequence[float],
    frame: pd.DataFrame,
    *,
    label: str,
    colour: str = BLUE,
    marker: str = "o",
    hollow: bool = False,
) -> None:
    """Draw a dot with a horizontal interval for each row, at the heights `places`."""
    axes.errorbar(
        frame["mean"],
        places,
        xerr=reach(frame),
        fmt=marker,
        ms=4.5,
        lw=0.8 if hollow else 1.2,
        color=colour,
        mfc="white" if hollow else colour,
        label=label,
        zorder=2 if hollow else 3,
    )


def curve(axes: Axes, frame: pd.DataFrame, *, label: str, colour: str = BLUE) -> None:
    """Draw means with intervals over the column `value`, evenly spaced (it may be 0 or inf)."""
    places = np.arange(len(frame))
    axes.errorbar(
        places, frame["mean"], yerr=reach(frame), fmt="o-", ms=4, lw=1.2, color=colour, label=label
    )
    axes.set_xticks(places, [f"{v:g}" for v in frame["value"]])


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the rows of dots, the first one at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def legend_outside(figure: Figure, *axes: Axes) -> None:
    """Put one legend for all panels below them."""
    entries: dict[str, Artist] = {}
    for one in axes:
        handles, labels = one.get_legend_handles_labels()
        entries |= zip(map(str, labels), handles, strict=True)
    columns = min(len(entries), 4)
    figure.legend(
        entries.values(), entries.keys(), loc="outside lower center", frameon=False, ncols=columns
    )


def cross(
    axes: Axes, frame: pd.DataFrame, *, label: str, colour: str, marker: str, joined: bool = False
) -> None:
    """Draw personalised accuracy over fairness with intervals in both directions."""
    x, y = (_measure(frame, m) for m in ("fairness", "personalised_accuracy"))
    axes.errorbar(
        x["mean"],
        y["mean"],
        xerr=reach(x),
        yerr=reach(y),
        fmt=f"{marker}-" if joined else marker,
        ms=4.5,
        lw=1.2,
        elinewidth=0.6,
        color=colour,
        mfc=colour if joined else "white",
        label=label,
    )


def _measure(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return mean, low and high of one metric from a frame that has several."""
    ends = {"mean": frame[metric], "low": frame[f"{metric}_low"], "high": frame[f"{metric}_high"]}
    return pd.DataFrame(ends).astype(float)
