"""A result as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from motifair.experiments.comparison import Comparison
from motifair.experiments.result import Result
from motifair.experiments.tables import agents_table, metrics_table, splits_table
from motifair.report.verdicts import verdict_on_comparison, verdict_on_run


def show_result(result: Result, console: Console) -> None:
    """Print the verdict, who contributed and was paid (one split) or every split (several), and the
    summary.
    """
    _print_verdict(verdict_on_run(result), console)
    if len(result.splits) == 1:
        console.print(agents_table(result, brief=True).to_rich(box=None, padding=(0, 1, 0, 0)))
    else:
        console.print(splits_table(result).to_rich())
    console.print(repr(result), highlight=False, markup=False)


def show_comparison(comparison: Comparison, console: Console) -> None:
    """Print a section for each metric, a row for each method that has it, and how to read it.

    The files hold the wide table; this one fits a terminal of 80 columns.
    """
    _print_verdict(verdict_on_comparison(comparison), console)
    table = metrics_table(comparison)
    console.print(table.to_rich(padding=(0, 1, 0, 0)))
    for note in table.notes:
        console.print(note, highlight=False, markup=False)


def _print_verdict(sentences: Sequence[str], console: Console) -> None:
    console.print(" ".join(sentences) + "\n", highlight=False, markup=False)
