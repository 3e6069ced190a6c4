"""The one table type: the same text in every format, and nothing of it taken for markup."""

from __future__ import annotations

from io import StringIO

import pandas as pd
from rich.console import Console

from motifair.table import Table, number

TABLE = Table(
    ("who", "paid"),
    [("section_1",), ("<a> & [bold]b[/bold] | c", "1.50"), ("d", "0.1 ± 0.2")],
    title="Payoffs",
    numbers=(1,),
    notes=("Paid < 2 in all.",),
)


def printed(table: Table) -> list[str]:
    console = Console(file=StringIO(), width=60)
    console.print(table.to_rich())
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines() if line.strip()]


def test_a_terminal_shows_brackets_and_aligns_numbers() -> None:
    title, head, _, section, first, second = printed(TABLE)
    assert title == "Payoffs"
    assert section.strip() == "section_1"
    assert "<a> & [bold]b[/bold] | c" in first
    assert len(head) == len(first) == len(second)  # the last column ends at the right


def test_html_is_escaped_and_has_headers() -> None:
    html = TABLE.to_html()
    assert '<th scope="row">&lt;a&gt; &amp; [bold]b[/bold] | c</th>' in html
    assert '<th scope="rowgroup" colspan="2">section_1</th>' in html
    assert '<th scope="col" class="number">paid</th>' in html
    assert '<td class="number">1.50</td>' in html
    assert "<small>Paid &lt; 2 in all.</small>" in html


def test_markdown_has_as_many_cells_in_each_line() -> None:
    lines, note = TABLE.to_markdown().split("\n\n")
    assert note == "Paid < 2 in all."
    assert lines.splitlines()[2:4] == ["| section_1 |  |", r"| <a> & [bold]b[/bold] \| c | 1.50 |"]


def test_latex_is_escaped() -> None:
    text = TABLE.to_latex()
    assert text.startswith(r"\begin{tabular}{lr}")
    assert r"section\_1 &  \\" in text
    assert r"<a> \& [bold]b[/bold] | c & 1.50 \\" in text
    assert r"d & 0.1 $\pm$ 0.2 \\" in text
    assert text.endswith("% Paid < 2 in all.\n")


def test_a_frame_gives_its_index_and_numbers_to_the_right() -> None:
    frame = pd.DataFrame({"name": ["x", "y"], "count": [1, 22]}, index=pd.Index([5, 6], name="no"))
    table = Table.of(frame, "Counted")
    assert (table.head, list(table.numbers)) == (("no", "name", "count"), [2])
    assert list(table.rows) == [["5", "x", "1"], ["6", "y", "22"]]


def test_no_number_is_minus_zero() -> None:
    assert number(-0.0004) == "0.000"
    assert number(-0.0004, sign=True) == "+0.000"
    assert number(-0.0006) == "-0.001"
