"""Results as small HTML tables for notebooks: escaped, without scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from motifair.experiments.tables import cells, note

if TYPE_CHECKING:
    from motifair.experiments.compare import Comparison
    from motifair.experiments.result import Result

MOST_ROWS = 30
AGENT_COLUMNS = {
    "graphs": "graphs", "value": "value", "aligned": "mean_alignment", "diverse": "diversity",
    "payoff": "payoff", "late": "compensation", "alone": "alone", "federated": "accuracy",
    "gain": "gain",
}  # fmt: skip
SPLIT_COLUMNS = {
    "accuracy": "personalised_accuracy", "alone": "alone_accuracy", "gain": "gain",
    "worst": "worst_gain", "global": "global_accuracy", "fairness": "fairness",
    "retest": "fairness_retest",
}  # fmt: skip


def result_html(result: Result) -> str:
    """Return the summary, and a row for each agent (one split) or each split (several)."""
    title, *lines = repr(result).splitlines()
    said = "".join(f"{escape(line.strip())}<br>" for line in lines)
    names, rows = _agent_rows(result) if len(result.splits) == 1 else _split_rows(result)
    return f"<div><strong>{escape(title)}</strong><br>{said}{_table(names, rows)}</div>"


def comparison_html(comparison: Comparison) -> str:
    """Return a row for each method, and how to read it."""
    names, rows = cells(comparison)
    return f"<div>{_table(names, rows)}<small>{escape(note(comparison))}</small></div>"


def _agent_rows(result: Result) -> tuple[list[str], list[list[str]]]:
    frame = result.to_frame()
    words = ["agent", *(["role"] if "role" in frame else [])]
    rows = [
        [*(str(row[w]) for w in words), *(_number(row[c]) for c in AGENT_COLUMNS.values())]
        for row in frame.to_dict("records")
    ]
    return [*words, *AGENT_COLUMNS], rows


def _split_rows(result: Result) -> tuple[list[str], list[list[str]]]:
    rows = []
    for split in result.splits:
        found = split.metrics()
        rows.append([str(split.seed), *(_number(found[c]) for c in SPLIT_COLUMNS.values())])
    return ["seed", *SPLIT_COLUMNS], rows


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:MOST_ROWS]
    )
    left = len(rows) - MOST_ROWS
    more = f"<small>and {left} more: to_frame() has all</small>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
