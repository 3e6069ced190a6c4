"""One picture of a run: values, payoffs, and accuracy alone against accuracy together."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from motifair.experiments.result import Result
from motifair.files import write_atomic
from motifair.report.cast import Cast
from motifair.report.charts import Chart
from motifair.report.figures import alone_and_together, payoffs, values
from motifair.report.source import SIMULATED, Source
from motifair.report.static import draw, picture
from motifair.report.timeline import timeline


def save_overview(result: Result, path: str | Path) -> None:
    """Draw the first split of a result and write it as PNG."""
    write_atomic(Path(path), picture(overview(result), "png"))


def overview(result: Result, number: int = 0) -> Figure:
    """Draw a split: value over rounds, payoff summed up, accuracy together over alone."""
    split, config = result.splits[number], result.config
    source = Source(SIMULATED, SIMULATED, config, (), result=result, split=number)
    cast = Cast.of(timeline(source))
    figure = Figure(figsize=(13, 4), layout="constrained", dpi=110)
    for axes, make in zip(
        figure.subplots(1, 3), (values, payoffs, alone_and_together), strict=True
    ):
        chart = make(source, cast)
        assert isinstance(chart, Chart)  # a simulation has all three
        draw(axes, chart)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    figure.suptitle(
        f"{config.method} on {config.dataset}, seed {split.seed}: "
        f"fairness {split.metrics()['fairness']:.2f}"
    )
    return figure
