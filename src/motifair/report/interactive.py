"""Charts as Plotly draws them: figures for a page, with colours that the page's style decides.

A colour is written `var(--chart-blue)`; the page puts in what its style says, light, dark or print.
"""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import plotly.graph_objects as go

from motifair.report.charts import Bars, Chart, Curve, Dots, HeatMap, Reference, Style, reach, short
from motifair.report.labels import EndLabel, end_labels

ROW_PIXELS, FEWEST_ROWS, CHARACTER_PIXELS = 22, 5, 7.4
MANY_ROWS = 20  # beyond which they are set closer
HEIGHT, LEFT, TOP = 390, 64, 34  # pixels; on top there is room for the buttons
LEADER_PIXELS, LETTER_PIXELS = 26, 6.2  # from the end of a curve to its name; a letter of it
SEQUENTIAL = "Cividis"
DIVERGING = "RdBu"


def plotly_figure(chart: Chart) -> go.Figure:
    """Return a chart as a Plotly figure; `meta` of a trace names its agents, and says where the
    name of a curve may stand: whether there is room for it only the page knows.
    """
    ends = end_labels(chart)
    labels = {} if ends is None else {id(label.curve): label for label in ends.labels}
    figure = go.Figure(layout=_layout(chart))
    if ends is not None:
        longest = max(len(short(label.curve.name)) for label in ends.labels)
        figure.update_layout(
            xaxis_range=ends.x_range,
            yaxis_range=ends.y_range,
            meta={"room": LEADER_PIXELS + LETTER_PIXELS * longest},
        )
    for series in chart.series:
        if isinstance(series, Curve):
            figure.add_trace(_curve(series, labels.get(id(series))))
        elif isinstance(series, Dots):
            figure.add_trace(_dots(series, chart))
        elif isinstance(series, Bars):
            figure.add_trace(_bars(series, chart))
        else:
            figure.add_trace(_heat_map(series))
    for line in chart.references:
        _reference(figure, line, chart)
    return figure


def text(words: str) -> str:
    """Make words safe for Plotly, which reads some HTML in every text.

    >>> text("<b>bank & sons</b>")
    '&lt;b&gt;bank &amp; sons&lt;/b&gt;'
    """
    return html.escape(words, quote=False)


def _layout(chart: Chart) -> dict[str, Any]:
    # Legends are the page's and margins are given: to find them Plotly would draw all of it twice.
    axis = {"gridcolor": "var(--rule)", "linecolor": "var(--faint)", "zeroline": False}
    horizontal = {**axis, "title": {"text": text(chart.x_title), "standoff": 8}}
    vertical = {**axis, "title": {"text": text(chart.y_title), "standoff": 8}}
    if chart.x_range is not None:
        horizontal["range"] = list(chart.x_range)
    height: float = HEIGHT
    left: float = LEFT
    if chart.rows:
        # Names of agents are text, not Plotly's categories: those would merge what reads the same.
        vertical |= {
            "tickvals": list(range(len(chart.rows))),
            "ticktext": [text(short(r)) for r in chart.rows],
            "range": [len(chart.rows) - 0.4, -0.6],
            "ticklabelstandoff": 4,
        }
        many = len(chart.rows) > MANY_ROWS
        vertical["tickfont"] = {"size": 10 if many else 12}
        height = 100 + ROW_PIXELS * max(len(chart.rows), FEWEST_ROWS) * (0.6 if many else 1)
        left = 14 + CHARACTER_PIXELS * max(len(short(r)) for r in chart.rows)
    return {
        "template": {},
        "height": height,
        "margin": {"l": left, "r": 16, "t": TOP, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--ink)", "size": 13, "family": "system-ui, sans-serif"},
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": "var(--sheet)",
            "font": {"color": "var(--ink)"},
            "namelength": -1,
        },
        "showlegend": False,
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": "var(--faint)",
            "activecolor": "var(--ink)",
        },
        "xaxis": horizontal,
        "yaxis": vertical,
        "bargap": 0.35,
    }


def _curve(series: Curve, label: EndLabel | None) -> go.Scatter:
    meta: dict[str, Any] = {"agent": series.agent} if series.agent else {}
    if label is not None:
        meta |= {"end": label.end, "place": label.place}
    return go.Scatter(
        name=text(short(series.name)),
        x=series.x.astype(np.int32),
        y=series.y.astype(np.float32),
        mode="lines" if len(series.x) > 1 else "markers",
        line=_line(series.style),
        marker={"color": _colour(series.style), "symbol": series.style.marker, "size": 8},
        opacity=series.style.opacity,
        meta=meta or None,
        hovertemplate=f"{text(series.name)}<br>round %{{x}}: %{{y:.4g}}<extra></extra>",
    )


def _dots(series: Dots, chart: Chart) -> go.Scatter:
    names = series.names or (series.name,) * len(series.x)
    return go.Scatter(
        name=text(short(series.name)),
        x=series.x.astype(np.float32),
        y=series.y.astype(np.float32),
        mode="markers",
        marker={
            "symbol": series.style.marker + ("-open" if series.style.hollow else ""),
            "size": 10,
            "color": _colour(series.style),
            "line": {"width": 1.5, "color": _colour(series.style)},
        },
        opacity=series.style.opacity,
        error_x=_error(series.x, series.x_span),
        error_y=_error(series.y, series.y_span),
        text=[text(n) for n in names],
        meta={"agents": list(series.agents)} if series.agents else None,
        hovertemplate=f"%{{text}}<br>{_hover(chart)}<extra>{text(series.name)}</extra>",
    )


def _hover(chart: Chart) -> str:
    across = f"{text(chart.x_title)} %{{x:.4g}}"
    return across if chart.rows else f"{across}<br>{text(chart.y_title)} %{{y:.4g}}"


def _bars(series: Bars, chart: Chart) -> go.Bar:
    return go.Bar(
        name=text(series.name),
        orientation="h",
        x=series.x.astype(np.float32),
        y=np.arange(len(series.x), dtype=np.int32),
        marker={"color": _colour(series.style)},
        text=[text(r) for r in chart.rows],
        textposition="none",
        meta={"agents": list(series.agents)},
        hovertemplate=f"%{{text}}<br>{_hover(chart)}<extra>{text(series.name)}</extra>",
    )


def _heat_map(series: HeatMap) -> go.Heatmap:
    signs = series.signs
    bar = {"text": text(series.name), "side": "right"}
    return go.Heatmap(
        name=text(series.name),
        x=series.x.astype(np.float32),
        y=np.arange(len(series.z), dtype=np.int32),
        z=series.z.astype(np.float32),
        zmin=series.low,
        zmax=series.high,
        colorscale=DIVERGING if series.diverging else SEQUENTIAL,
        colorbar={"title": bar, "thickness": 14, "x": 1.01, "xpad": 4},
        text=signs.tolist() if signs.any() else None,
        texttemplate="%{text}" if signs.any() else None,
        hoverongaps=False,
        meta={"rows": list(series.agents)},
        hovertemplate=f"%{{y}}<br>round %{{x}}: %{{z:.4g}}<extra>{text(series.name)}</extra>",
    )


def _reference(figure: go.Figure, line: Reference, chart: Chart) -> None:
    look = {"line": {"color": "var(--faint)", "width": 1, "dash": "dot"}, "layer": "below"}
    words = {
        "text": text(line.name),
        "showarrow": False,
        "font": {"size": 11, "color": "var(--faint)"},
        "yanchor": "bottom",
    }
    if line.kind == "diagonal":
        figure.add_shape(type="line", x0=0, y0=0, x1=1, y1=1, **look)
    elif line.kind == "across":
        figure.add_hline(line.at, **look)
        figure.add_annotation(x=1, xref="paper", xanchor="right", y=line.at, **words)
    else:
        figure.add_vline(line.at, **look)
        # A name at the right end would be cut off if it stood in the middle above its line.
        late = chart.x_range is not None and line.at > 0.8 * chart.x_range[1]
        side = "right" if late else "center"
        figure.add_annotation(x=line.at, xanchor=side, y=1, yref="paper", **words)


def _error(middle: np.ndarray, span: np.ndarray | None) -> dict[str, Any] | None:
    both = reach(middle, span)
    if both is None:
        return None
    below, above = both.astype(np.float32)
    ends = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    return {**ends, "thickness": 1.4, "width": 4}


def _line(style: Style) -> dict[str, Any]:
    return {"color": _colour(style), "dash": style.dash, "width": style.width}


def _colour(style: Style) -> str:
    return f"var(--chart-{style.colour})"
