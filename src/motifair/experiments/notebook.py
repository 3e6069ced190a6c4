"""Render results as small HTML tables for notebooks: escaped, without scripts."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from motifair.experiments.tables import (
    agents_table,
    comparison_table,
    splits_table,
    sweep_table,
)

if TYPE_CHECKING:
    from motifair.experiments.comparison import Comparison
    from motifair.experiments.result import Result
    from motifair.experiments.sweep import Sweep

MOST_ROWS = 30


def result_html(result: Result) -> str:
    """Return the summary, with a row for each agent (one split) or each split (several)."""
    title, *lines = repr(result).splitlines()
    summary = "".join(f"{escape(line.strip())}<br>" for line in lines)
    table = agents_table(result) if len(result.splits) == 1 else splits_table(result)
    more = len(table.rows) - MOST_ROWS
    if more > 0:
        notes = [f"and {more} more: to_frame() has all"]
        table = replace(table, rows=table.rows[:MOST_ROWS], notes=notes)
    return f"<div><strong>{escape(title)}</strong><br>{summary}{table.to_html()}</div>"


def comparison_html(comparison: Comparison) -> str:
    """Return a row for each method, with a note on how to read it."""
    return f"<div>{comparison_table(comparison).to_html()}</div>"


def sweep_html(sweep: Sweep) -> str:
    """Return a row for each setting: its options and the main metrics."""
    table = sweep_table(sweep)
    return f"<div><strong>{escape(table.title)}</strong>{table.to_html()}</div>"
