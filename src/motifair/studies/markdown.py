"""A study's tables in Markdown: numbers with their intervals, compared columns side by side.

The CSV files of the same tables have a column for every number.
"""

from __future__ import annotations

import pandas as pd

from motifair.experiments.tables import SIGNIFICANT
from motifair.table import NONE, Table, number

METRIC, PUBLISHED, P = "metric", "published", "p_holm"


def markdown(table: pd.DataFrame, across: str | None = None) -> str:
    """Write a table, numbers with three digits after the point.

    `across` names a column whose values get a column each; without it, that is `metric` where
    there is one. There is then a table for each number that has an interval.

    >>> print(markdown(pd.DataFrame({"who": ["a"], "pay": [0.1234], "low": [0.0], "high": [0.5]})))
    | who | pay |
    | --- | --- |
    | a | 0.123 [0.000, 0.500] |
    """
    across = METRIC if across is None and METRIC in table else across
    if across is None:
        return _lines(_worded(_folded(table)[0]))
    return "\n\n".join(
        f"{_words(name).capitalize()}, by {across}{_signs(table, name)}:\n\n{_lines(part)}"
        for name, part in _side_by_side(table, across).items()
    )


def _signs(table: pd.DataFrame, name: str) -> str:
    """Explain parentheses after a mean, and stars after a difference."""
    printed = _printed(table)
    if name == "mean" and printed:
        return f" (in parentheses: {printed[0]})"
    starred = name == "difference" and P in table
    return f" (* p < {SIGNIFICANT} after Holm's correction)" if starred else ""


def _printed(table: pd.DataFrame) -> list[str]:
    return [name for name in table.columns if name.startswith(PUBLISHED)]


def _folded(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Put numbers and their intervals into one cell; return the names of these numbers, too."""
    names = list(table.columns)
    ends: dict[str, list[str]] = {}
    for k, name in enumerate(names):
        own = [end for end in (f"{name}_low", f"{name}_high") if end in names]
        if own or names[k + 1 : k + 3] == ["low", "high"]:
            ends[name] = own or ["low", "high"]
    made = table.drop(columns=[end for pair in ends.values() for end in pair])
    for name, pair in ends.items():
        rows = table[[name, *pair]].itertuples(index=False, name=None)
        made[name] = [_cell(*row) for row in rows]
    return made, list(ends)


def _cell(value: float, low: float, high: float | None = None) -> str:
    """Return a number with its interval, of which the low end may be all that matters."""
    if value != value or low != low:
        return _text(value)
    return f"{_text(value)} [{_text(low)}, {'…' if high is None else _text(high)}]"


def _side_by_side(table: pd.DataFrame, across: str) -> dict[str, pd.DataFrame]:
    """Return for each number with an interval a table in which `across` has columns.

    What the paper prints stands in parentheses behind the mean; a star marks a difference that is
    significant.
    """
    made, numbers = _folded(table)
    printed = _printed(table)
    if printed:
        values = zip(made["mean"], table[printed[0]], strict=True)
        made["mean"] = [c if p != p else f"{c} ({_text(p)})" for c, p in values]
    if P in table:
        values = zip(made["difference"], table[P], strict=True)
        made["difference"] = [f"{c}*" if p < SIGNIFICANT else c for c, p in values]
    # On how many splits a metric is defined differs from metric to metric.
    keys = [c for c in made if c not in {across, P, "splits", *printed, *numbers}]
    order = list(dict.fromkeys(made[across]))
    tables = {}
    for name in numbers:
        rows = []
        for labels, part in made.groupby(keys, sort=False, dropna=False):
            cells = dict(zip(part[across], part[name], strict=True))
            rows.append(
                {**dict(zip(keys, labels, strict=True)), **{o: cells.get(o, NONE) for o in order}}
            )
        tables[name] = _worded(pd.DataFrame(rows))
    return tables


def _worded(table: pd.DataFrame) -> pd.DataFrame:
    """Write every value as text."""
    columns = {}
    for name in table.columns:
        small = name in ("p", P)
        columns[name] = ["< 0.001" if small and v < 0.001 else _text(v) for v in table[name]]
    return pd.DataFrame(columns, dtype=object)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, float) else str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _lines(table: pd.DataFrame) -> str:
    head = [_words(str(name)) for name in table.columns]
    return Table(head, list(table.itertuples(index=False, name=None))).to_markdown()
