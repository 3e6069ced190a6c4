"""One table of text for the terminal, HTML, Markdown and LaTeX, and how numbers are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import rich.table

NONE = "-"  # where a number is undefined
HTML = """\
{% macro aligned(k) %}{% if k in numbers %} class="number"{% endif %}{% endmacro %}
<table><thead><tr>
{% for name in table.head %}
<th scope="col"{{ aligned(loop.index0) }}>{{ name }}</th>
{% endfor %}
</tr></thead><tbody>
{% for row in table.rows %}
<tr>
{% if row | length == 1 %}
<th scope="rowgroup" colspan="{{ table.head | length }}">{{ row[0] }}</th>
{% else %}
<th scope="row">{{ row[0] }}</th>
{% for cell in row[1:] %}
<td{{ aligned(loop.index) }}>{{ cell }}</td>
{% endfor %}
{% endif %}
</tr>
{% endfor %}
</tbody></table>
{% for note in table.notes %}
<small>{{ note }}</small>
{% endfor %}
"""


@dataclass(frozen=True)
class Table:
    """Rows of text under `head`; `numbers` are the columns that are aligned to the right.

    A row of one cell is a heading for the rows that follow it. `notes` are sentences below the
    table.

    >>> table = Table(("who", "paid"), [("a", "1.50"), ("b", "-")], numbers=(1,))
    >>> print(table.to_markdown())
    | who | paid |
    | --- | --- |
    | a | 1.50 |
    | b | - |
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    numbers: Iterable[int] = ()
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, frame: pd.DataFrame, title: str = "") -> Table:
        """Make a table of a frame, its index first; columns of text are aligned to the left."""
        text = [frame[name].map(lambda v: isinstance(v, str)).all() for name in frame.columns]
        rows = [[str(v) for v in row] for row in frame.itertuples(name=None)]
        numbers = [k for k, words in enumerate(text, start=1) if not words]
        return cls((str(frame.index.name or ""), *map(str, frame.columns)), rows, title, numbers)

    def to_rich(self, **options: Any) -> rich.table.Table:
        """Return the table for `rich`, without its notes; `options` are those of `rich.table`."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text

        given = {"title": self.title or None, "title_justify": "left", "box": SIMPLE_HEAD}
        table = RichTable(**(given | options))
        numbers = frozenset(self.numbers)
        for k, name in enumerate(self.head):
            justify: Any = "right" if k in numbers else "left"
            table.add_column(Text(name), justify=justify, overflow="fold")
        for k, row in enumerate(self.rows):
            heading = len(row) == 1
            if heading and k:
                table.add_section()
            table.add_row(*(Text(cell, "bold" if heading else "") for cell in row))
        return table

    def to_html(self) -> str:
        """Return a table element and its notes; all text is escaped."""
        from jinja2 import Environment

        template = Environment(autoescape=True, trim_blocks=True).from_string(HTML)
        return template.render(table=self, numbers=frozenset(self.numbers))

    def to_markdown(self) -> str:
        """Return the lines of a Markdown table, and its notes as paragraphs."""
        rows = [self.head, ["---"] * len(self.head), *map(self._filled, self.rows)]
        lines = ["| " + " | ".join(c.replace("|", r"\|") for c in row) + " |" for row in rows]
        return "\n\n".join(["\n".join(lines), *self.notes])

    def to_latex(self) -> str:
        """Return a LaTeX tabular for the package booktabs, and its notes as comments."""
        import pandas as pd

        numbers = frozenset(self.numbers)
        frame = pd.DataFrame(list(map(self._filled, self.rows)), columns=list(self.head))
        alignment = "".join("r" if k in numbers else "l" for k in range(len(self.head)))
        text = str(frame.to_latex(index=False, escape=True, column_format=alignment))
        text = text.replace("±", r"$\pm$").replace("−", "$-$")
        return text + "".join(f"% {note}\n" for note in self.notes)

    def _filled(self, row: Sequence[str]) -> list[str]:
        return [*row, *[""] * (len(self.head) - len(row))]


def number(value: float, digits: int = 3, *, sign: bool = False) -> str:
    """Write a number with so many digits, `-` for NaN, a whole number as it is.

    >>> number(-0.0001), number(0.5, 1, sign=True), number(math.nan), number(7)
    ('0.000', '+0.5', '-', '7')
    """
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return NONE
    return f"{round(value, digits) + 0.0:{'+' if sign else ''}.{digits}f}"  # never -0.000


def percent(value: float) -> str:
    """Write a share in per cent, `-` for NaN.

    >>> percent(0.25)
    '25 %'
    """
    return NONE if math.isnan(value) else f"{100 * value:.0f} %"


def interval(value: float, low: float, high: float, digits: int = 3) -> str:
    """Write a number with its interval, or without where there is none.

    >>> interval(0.5, 0.25, 0.75, 2), interval(0.5, math.nan, math.nan, 1)
    ('0.50 [0.25, 0.75]', '0.5')
    """
    if math.isnan(value) or math.isnan(low):
        return number(value, digits)
    return f"{number(value, digits)} [{number(low, digits)}, {number(high, digits)}]"
