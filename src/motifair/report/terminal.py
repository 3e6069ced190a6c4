"""A result as tables in the terminal."""

from __future__ import annotations

import math

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from motifair.experiments.compare import Comparison
from motifair.experiments.result import Result
from motifair.experiments.tables import metric_cells, note


def show_result(result: Result, console: Console) -> None:
    """Print who contributed and was paid (one split) or every split (several), then the summary."""
    if len(result.splits) == 1:
        console.print(agents_table(result))
    else:
        console.print(splits_table(result))
    console.print(repr(result), highlight=False, markup=False)


def agents_table(result: Result) -> Table:
    """Return one row for each agent of a single split."""
    frame = result.to_frame()
    size = result.splits[0].history.columns["kept"].max()  # the best agent receives everything
    title = "Who contributed what, who was paid what"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    names = ["agent", "value", "aligned", "diverse", "reward", "payoff", "late", "alone", "fed.",
             "gain"]  # fmt: skip
    if "role" in frame:
        names.insert(1, "role")
    for name in names:
        left = name in ("agent", "role")
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    for _, row in frame.iterrows():
        share = row["mean_kept"] / size if size else math.nan
        cells = [
            str(row["agent"]),
            _number(row["value"]),
            _number(row["mean_alignment"], 2),
            _number(row["diversity"], 2),
            _percent(share),
            _number(row["payoff"], 2),
            _number(row["compensation"], 2),
            _number(row["alone"], 2),
            _number(row["accuracy"], 2),
            f"{row['gain']:+.2f}",
        ]
        if "role" in frame:
            cells.insert(1, str(row["role"]))
        table.add_row(*cells)
    return table


def splits_table(result: Result) -> Table:
    """Return one row for each split."""
    rows = [s.metrics() for s in result.splits]
    table = Table(title=f"{len(rows)} splits", title_justify="left", box=SIMPLE_HEAD)
    columns = {
        "accuracy": "personalised_accuracy",
        "alone": "alone_accuracy",
        "gain": "gain",
        "worst": "worst_gain",
        "global": "global_accuracy",
        "fairness": "fairness",
        "retest": "fairness_retest",
    }
    for name in ("seed", *columns):
        table.add_column(name, justify="right")
    for split, row in zip(result.splits, rows, strict=True):
        table.add_row(str(split.seed), *[_number(row[c]) for c in columns.values()])
    return table


def show_comparison(comparison: Comparison, console: Console) -> None:
    """Print a section for each metric, a row for each method that has it, and how to read it.

    The files hold the wide table; this one fits a terminal of 80 columns.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("", "mean", f"− {comparison.baseline}", "rank", "paper"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for metric, rows in comparison.to_frame().groupby("metric", sort=False):
        table.add_row(f"[bold]{str(metric).replace('_', ' ')}[/bold]")
        for _, row in rows[rows["mean"].notna()].iterrows():
            cells = metric_cells(row, comparison.baseline)
            table.add_row(f"  {row['method']}", cells[0], cells[1], f"{row['rank']:.1f}", cells[2])
        table.add_section()
    table.add_row("[bold]gain over training alone[/bold]", "mean", "worst agent")
    for method, result in comparison.results.items():
        gains = [f"{result.mean[g]:+.3f}" for g in ("gain", "worst_gain")]
        table.add_row(f"  {method}", *gains)
    console.print(table)
    console.print(note(comparison), highlight=False)


def frame_table(frame: pd.DataFrame, title: str) -> Table:
    """Return any small frame as a table, its index first."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column(str(frame.index.name or ""))
    for name in frame.columns:
        words = frame[name].map(lambda v: isinstance(v, str)).all()
        table.add_column(str(name), justify="left" if words else "right")
    for index, row in frame.iterrows():
        table.add_row(str(index), *[str(v) for v in row])
    return table


def _number(value: float, digits: int = 3) -> str:
    return "-" if math.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"  # never -0.000


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.0f} %"
