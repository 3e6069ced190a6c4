"""Charts as matplotlib draws them: SVG, PNG and PDF fit for a paper."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from motifair.errors import MotifairError
from motifair.files import write_atomic
from motifair.report.charts import Bars, Chart, Curve, Dots, HeatMap, Reference, reach, short
from motifair.report.colours import DASHES, LIGHT, MARKERS
from motifair.report.gallery import Card, Drawing
from motifair.report.labels import Ends, end_labels

FORMATS = ("svg", "png", "pdf")
SETTINGS: dict[Any, Any] = {"svg.fonttype": "none", "pdf.fonttype": 42}  # text stays text
WITHOUT_DATE: dict[str, dict[str, Any]] = {
    "svg": {"Date": None}, "png": {}, "pdf": {"CreationDate": None}
}  # fmt: skip
WIDTH, HEIGHT, ROW_INCHES = 6.4, 3.8, 0.2
CARDS_IN_A_ROW = 6


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure in every format."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MotifairError(
            f"The folder {folder} cannot be made ({error.strerror}); name another for --figures."
        ) from error
    paths = []
    with rc_context(SETTINGS):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # computed once, it is the same for every format
        for kind in FORMATS:
            paths.append(folder / f"{name}.{kind}")
            write_atomic(paths[-1], picture(figure, kind, dpi=200))
    return paths


def picture(figure: Figure, kind: str, dpi: float | str = "figure") -> bytes:
    """Return a figure as SVG, PNG or PDF; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "motifair"}):
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=WITHOUT_DATE[kind])
    return buffer.getvalue()


def matplotlib_figure(chart: Chart) -> Figure:
    """Return a chart as a matplotlib figure, with names at the ends of curves, or else a legend."""
    height = max(HEIGHT, 1.2 + ROW_INCHES * len(chart.rows))
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    draw(figure.subplots(), chart)
    ends = end_labels(chart)
    if ends is not None:
        _label(figure.axes[0], ends)
    elif chart.legend():
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", frameon=False, fontsize=8, ncols=3
        )
    return figure


def draw(axes: Axes, chart: Chart) -> None:
    """Draw a chart into a panel, without its legend."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.92", lw=0.6)
    axes.set_axisbelow(True)
    for series in chart.series:
        if isinstance(series, Curve):
            _curve(axes, series)
        elif isinstance(series, Dots):
            _dots(axes, series)
        elif isinstance(series, Bars):
            _bars(axes, series)
        else:
            _heat_map(axes, series)
    for line in chart.references:
        _reference(axes, line)
    axes.set_xlabel(text(chart.x_title))
    axes.set_ylabel(text(chart.y_title))
    axes.set_title(text(chart.title), fontsize=11, pad=12)
    if chart.rows:
        size = 9 if len(chart.rows) <= 20 else 7
        axes.set_yticks(range(len(chart.rows)), [text(short(r)) for r in chart.rows], fontsize=size)
        axes.set_ylim(len(chart.rows) - 0.4, -0.6)
    if chart.x_range is not None:
        axes.set_xlim(chart.x_range)


def _label(axes: Axes, ends: Ends) -> None:
    axes.set(xlim=ends.x_range, ylim=ends.y_range)
    for label in ends.labels:
        axes.annotate(
            text(short(label.curve.name)),
            label.end,
            (1.04, label.place),
            "axes fraction",
            "axes fraction",
            {
                "arrowstyle": "-",
                "color": LIGHT[label.curve.style.colour],
                "shrinkA": 0,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
            annotation_clip=False,
            va="center",
            fontsize=7,
        )


def text(words: str) -> str:
    """Make words safe for matplotlib, to which a dollar means mathematics."""
    return words.replace("$", r"\$")


def _curve(axes: Axes, series: Curve) -> None:
    style = series.style
    axes.plot(
        series.x,
        series.y,
        color=LIGHT[style.colour],
        ls=DASHES[style.dash],
        lw=0.8 * style.width,
        alpha=style.opacity,
        marker=MARKERS[style.marker] if len(series.x) == 1 else None,
        ms=5,
        label=text(short(series.name)) if series.legend else None,
    )


def _dots(axes: Axes, series: Dots) -> None:
    colour = LIGHT[series.style.colour]
    axes.errorbar(
        series.x,
        series.y,
        xerr=reach(series.x, series.x_span),
        yerr=reach(series.y, series.y_span),
        fmt=MARKERS[series.style.marker],
        ms=5.5,
        color=colour,
        mfc="white" if series.style.hollow else colour,
        alpha=series.style.opacity,
        elinewidth=1,
        capsize=2.5,
        label=text(short(series.name)),
        zorder=3,
    )


def _bars(axes: Axes, series: Bars) -> None:
    colour = LIGHT[series.style.colour]
    axes.barh(range(len(series.x)), series.x, height=0.65, color=colour, label=text(series.name))


def _heat_map(axes: Axes, series: HeatMap) -> None:
    axes.grid(visible=False)
    mesh = axes.pcolormesh(
        edges(series.x),
        np.arange(len(series.z) + 1) - 0.5,
        np.ma.masked_invalid(series.z),
        cmap="RdBu" if series.diverging else "cividis",
        vmin=series.low,
        vmax=series.high,
        rasterized=True,  # thousands of vector cells make a PDF slow to open
    )
    axes.figure.colorbar(mesh, ax=axes, label=text(series.name))
    for (row, column), sign in np.ndenumerate(series.signs):
        if sign:
            axes.text(float(series.x[column]), row, str(sign), ha="center", va="center", fontsize=6)


def edges(x: np.ndarray) -> np.ndarray:
    """Return where the cells around some places begin and end.

    >>> edges(np.array([1, 11, 21])).tolist()
    [-4.0, 6.0, 16.0, 26.0]
    """
    middle = (x[1:] + x[:-1]) / 2
    first, last = (x[0] - middle[0], x[-1] - middle[-1]) if len(x) > 1 else (-0.5, 0.5)
    return np.concatenate([[x[0] + first], middle, [x[-1] + last]])


def _reference(axes: Axes, line: Reference) -> None:
    look: dict[str, Any] = {"color": "0.55", "lw": 0.8, "ls": ":", "zorder": 1}
    if line.kind == "diagonal":
        axes.axline((0.5, 0.5), slope=1, **look)
    elif line.kind == "across":
        axes.axhline(line.at, **look)
    else:
        axes.axvline(line.at, **look)
    across = line.kind == "across"
    if line.name and line.kind != "diagonal":
        axes.annotate(
            text(line.name),
            (1, line.at) if across else (line.at, 1),
            xycoords=("axes fraction", "data") if across else ("data", "axes fraction"),
            ha="right" if across else "center",
            va="bottom",
            fontsize=7,
            color="0.4",
        )


def gallery_figure(cards: Sequence[Card]) -> Figure:
    """Draw motifs in rows, each with the agents that have it."""
    rows = -(-len(cards) // CARDS_IN_A_ROW)
    figure = Figure(figsize=(WIDTH, 1.45 * rows), layout="constrained")
    panels = figure.subplots(rows, CARDS_IN_A_ROW, squeeze=False).ravel()
    for axes in panels:
        axes.set_axis_off()
    for axes, card in zip(panels, cards, strict=False):
        if card.drawing is not None:
            _motif(axes, card.drawing)
        axes.set_title(text(short(card.owners)), fontsize=6, pad=2)
    return figure


def _motif(axes: Axes, drawing: Drawing) -> None:
    axes.set(xlim=(0, drawing.size), ylim=(drawing.size, 0), aspect="equal")
    for edge in drawing.edges:
        axes.plot([edge.x1, edge.x2], [edge.y1, edge.y2], color="0.4", lw=1.2, zorder=1)
        if edge.label:
            axes.text(edge.x, edge.y, edge.label, fontsize=5, ha="center", va="center")
    for node in drawing.nodes:
        axes.plot(
            node.x, node.y, "o", ms=0.75 * drawing.radius, mfc="white", mec=LIGHT[node.colour],
            mew=1.6, zorder=2,
        )  # fmt: skip
        if node.label:
            axes.text(node.x, node.y, node.label, fontsize=5.5, ha="center", va="center")
