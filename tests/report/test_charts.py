"""Charts: what is thinned, and that both renderers draw the same numbers."""

from __future__ import annotations

import base64
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import QuadMesh
from report_samples import made_up_source

from motifair.report.charts import (
    Bars,
    Chart,
    Curve,
    Dots,
    HeatMap,
    Reference,
    Style,
    in_columns,
    short,
    thin,
)
from motifair.report.figures import run_figures, tradeoff
from motifair.report.interactive import plotly_figure
from motifair.report.labels import GAP, end_labels, spread
from motifair.report.static import matplotlib_figure

NUMBERS = st.floats(-1e6, 1e6) | st.just(float("nan"))


@given(st.lists(NUMBERS, max_size=400).map(np.array), st.integers(4, 60))
def test_thinning_keeps_the_first_the_last_and_the_extremes(y: np.ndarray, most: int) -> None:
    y = y.astype(float)
    kept = thin(y, most)
    known = np.flatnonzero(~np.isnan(y))
    assert len(kept) <= most
    assert (np.diff(kept) > 0).all()
    assert set(kept) <= set(known)
    if len(known):
        assert (kept[0], kept[-1]) == (known[0], known[-1])
        assert y[kept].min() == y[known].min()
        assert y[kept].max() == y[known].max()


@given(st.integers(1, 300), st.integers(1, 40))
def test_rounds_are_taken_together_without_losing_any(rounds: int, most: int) -> None:
    table = np.arange(rounds, dtype=float)[:, None]
    x, z = in_columns(np.arange(1, rounds + 1), table, most)
    assert len(x) == len(z) <= most
    width = -(-rounds // most) if rounds > most else 1
    assert z[0, 0] == table[:width].mean()
    assert z[-1, 0] == table[(len(x) - 1) * width :].mean()


def some_chart() -> Chart:
    x = np.arange(3)
    return Chart(
        "all", "All kinds", "Look.", "round", "height",
        (
            Curve("a curve", x, np.array([1.0, 3.0, 2.0]), Style("red", "dash"), "a"),
            Dots("dots", np.array([0.5]), np.array([2.0]), Style(marker="x"),
                 x_span=np.array([[0.25], [1.5]])),
            Bars("bars", np.array([0.5, -0.5]), Style("green"), ("a", "b")),
            HeatMap("map", x, np.array([[1.0, -2.0, np.nan], [0.0, 1.0, 2.0]]), -2, 2, True),
        ),
        (Reference("here", 1.0), Reference("there", 0.5, "down"), Reference("", kind="diagonal")),
        rows=("a", "b"),
    )  # fmt: skip


def test_both_renderers_draw_the_same_series() -> None:
    chart = some_chart()
    curve, dots, bars, heat = plotly_figure(chart).data
    (axes, _) = matplotlib_figure(chart).axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    np.testing.assert_allclose(curve.y, lines["a curve"].get_ydata())
    np.testing.assert_allclose(curve.x, lines["a curve"].get_xdata())
    (container,) = [c for c in axes.containers if c.get_label() == "dots"]
    np.testing.assert_allclose(container[0].get_xdata(), dots.x)
    (ends,) = container[2][0].get_segments()
    np.testing.assert_allclose(ends[:, 0], [0.25, 1.5])
    np.testing.assert_allclose([dots.error_x.arrayminus[0], dots.error_x.array[0]], [0.25, 1.0])
    np.testing.assert_allclose([bar.get_width() for bar in axes.patches], bars.x)
    (mesh,) = [c for c in axes.collections if isinstance(c, QuadMesh)]
    np.testing.assert_allclose(np.ma.filled(mesh.get_array(), np.nan), heat.z)
    assert np.sum(np.array(heat.text) == "−") == 1
    assert [t.get_text() for t in axes.texts].count("−") == 1
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b"]
    assert (curve.line.dash, lines["a curve"].get_linestyle()) == ("dash", "--")


@pytest.mark.parametrize("agents", [2, 12, 13])
def test_every_figure_of_a_run_is_drawn_by_both_with_the_same_legend(agents: int) -> None:
    figures = [f for f in run_figures(made_up_source(agents)) if isinstance(f, Chart)]
    assert len(figures) == 10
    for chart in figures:
        drawn = matplotlib_figure(chart)
        assert len(plotly_figure(chart).data) == len(chart.series)
        shown = [t.get_text() for legend in drawn.legends for t in legend.get_texts()]
        if (ends := end_labels(chart)) is not None:
            at_ends = {label.curve.name for label in ends.labels}
            shown += [t.get_text() for t in drawn.axes[0].texts if t.get_text() in at_ends]
        assert sorted(shown) == sorted(series.name for series, _ in chart.legend())


@given(st.lists(st.floats(0, 1), min_size=1, max_size=14))
def test_names_at_ends_are_apart_in_order_and_move_no_further_than_needed(
    wanted: list[float],
) -> None:
    places = np.array(spread(wanted))
    order = np.argsort(wanted, kind="stable")
    assert np.all(np.diff(places[order]) >= GAP - 1e-9)
    assert -1e-9 <= places.min() <= places.max() <= 1 + 1e-9
    apart = np.all(np.diff(np.sort(wanted)) >= GAP)
    if apart:
        np.testing.assert_allclose(places, wanted, atol=1e-9)
    # Moving all names together, as far as the figure reaches, brings them no nearer.
    for step in (-0.01, 0.01):
        moved = places + step
        if moved.min() >= 0 and moved.max() <= 1:
            assert np.sum((moved - wanted) ** 2) >= np.sum((places - wanted) ** 2) - 1e-9


def test_names_stand_at_the_ends_of_curves_within_the_range_that_is_drawn() -> None:
    charts = [f for f in run_figures(made_up_source(12)) if isinstance(f, Chart)]
    ends = {chart.key: end_labels(chart) for chart in charts}
    with_names = {"accuracy", "loss", "value", "payoff", "compensation"}
    assert {key for key, found in ends.items() if found is not None} == with_names
    (value,) = (chart for chart in charts if chart.key == "value")
    found = ends["value"]
    assert found is not None
    figure = plotly_figure(value)
    assert tuple(figure.layout.yaxis.range) == found.y_range
    for label, trace in zip(found.labels, figure.data, strict=True):
        low, high = found.y_range
        assert low + label.end[1] * (high - low) == pytest.approx(label.curve.y[-1])
        assert trace.meta == {
            "agent": label.curve.agent,
            "end": label.end,
            "place": label.place,
        }


def test_a_chart_of_one_round_has_a_legend_and_no_names_at_ends() -> None:
    charts = [f for f in run_figures(made_up_source(3, 1)) if isinstance(f, Chart)]
    (value,) = (chart for chart in charts if chart.key == "value")
    assert end_labels(value) is None
    assert matplotlib_figure(value).legends


def test_a_crowd_is_thin_and_its_ends_and_median_are_named() -> None:
    values = next(f for f in run_figures(made_up_source(50, 300)) if f.title.startswith("Value"))
    assert isinstance(values, Chart)
    curves = [s for s in values.series if isinstance(s, Curve)]
    assert len(curves) == 51
    assert len([c for c in curves if c.legend]) == 7
    assert max(len(c.x) for c in curves[:-1]) <= 120
    assert "50 agents" in values.how
    last = {c.agent: c.y[-1] for c in curves if c.agent}
    assert "agent-49" in {c.agent for c in curves if c.legend}, "who harms is paid worst"
    assert min(last, key=last.__getitem__) == "agent-49"


def test_agents_that_are_named_never_differ_by_colour_alone() -> None:
    (values,) = (f for f in run_figures(made_up_source(12)) if f.title.startswith("Value"))
    assert isinstance(values, Chart)
    styles = [s.style for s in values.series if isinstance(s, Curve)]
    assert len({(s.colour, s.dash) for s in styles}) == 12
    for one, other in pairwise(styles):
        assert one.dash != other.dash


def test_numbers_are_packed_and_a_name_is_never_markup() -> None:
    chart = run_figures(made_up_source(["<b>a</b>", "$x^2", "c"]))[0]
    assert isinstance(chart, Chart)
    plain = plotly_figure(chart).to_plotly_json()["data"][0]
    assert np.frombuffer(base64.b64decode(plain["y"]["bdata"]), "f4").size == 3
    assert plain["name"] == "&lt;b&gt;a&lt;/b&gt;"
    assert plain["meta"]["agent"] == "<b>a</b>"
    matplotlib_figure(chart).savefig("/dev/null", format="svg")  # no mathematics in a name


def test_intervals_that_are_not_known_are_not_drawn() -> None:
    result = made_up_source(5).result
    assert result is not None
    chart = tradeoff({"one": result, "another": result})
    one, _ = plotly_figure(chart).data
    assert one.error_x.array is not None, "Fisher's, over agents"
    assert one.error_y.array is None, "one split has none"


def test_long_names_keep_both_ends() -> None:
    assert len(short("x" * 500)) == 28
    assert short("bank-" + "x" * 50 + "-north").endswith("-north")


def test_plotly_takes_every_layout() -> None:
    for chart in run_figures(made_up_source(30)):
        if isinstance(chart, Chart):
            go.Figure(plotly_figure(chart).to_dict())  # checks every name and value
