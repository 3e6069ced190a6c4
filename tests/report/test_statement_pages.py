"""A statement in the terminal, as HTML and as PDF."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from motifair.errors import MotifairError
from motifair.report.statement import as_html, as_pdf, as_text
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms, Line
from motifair.statements.statement import Motif, Statement, make_statement

HOSTILE = "<script>alert(1)</script>\x1b[31m[bold]"


def statement_of(
    rounds: int = 6, name: str = "bank-a", reason: str = "no answer", **config: object
) -> Statement:
    """`name` is absent in every third round, and `bank-d` is fined."""
    books = Accounts("run-1")
    names = sorted([name, "bank-b", "bank-c", "bank-d"])
    keys = dict.fromkeys(names, "a key")
    terms = AgreedTerms(keys, 10_000, 2, "EUR", 2_000, 10**9, rounds, 2, "motifair", config=config)
    entries = [books.agree(terms)]
    books.add(entries[0])
    for t in range(1, rounds + 1):
        lines = []
        for k, n in enumerate(names):
            there = n != name or t % 3 > 0
            value = (-1 if n == "bank-d" else 3 + k + t % 5) * 10**11
            phi = 10**11 * (k + 1) if there else None
            status = "present" if there else "absent"
            why = "" if there else reason
            lines.append(Line(n, status, why, value, phi, 10**11, 0, 5, 0, "", ""))  # type: ignore[arg-type]
        entries.append(books.settle(lines))
        books.add(entries[-1])
    motifs = {name: ("bond 0 0", "ring 1 1 1"), "bank-b": ("bond 0 0",)}
    graphs = dict.fromkeys(names, 9)
    return make_statement(entries, name, motifs=motifs, graphs=graphs, ledger="x.sqlite")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_text_has_every_amount_and_how_to_verify(width: int) -> None:
    s = statement_of(diversity_weight=1.0)
    text = as_text(s, width)
    for amount in (*(s.totals[name] for name in s.parts), s.payoff, s.equal, s.shapley):
        assert s.money(amount) in text
    assert s.head in text
    assert "motifair ledger verify --ledger x.sqlite --heads HEADS --operator-key KEY" in text
    assert "* round 3: absent (no answer)" in text
    told = "1 that nobody else has (0 of them count as diversity): triangle 1–1–1."
    assert told in " ".join(text.split())
    wide = [x for x in text.splitlines() if len(x) > width and not x.startswith("  ")]
    assert wide == []


def test_thousands_are_separated_for_people_alone() -> None:
    s = statement_of(300, initial_value="equal")
    assert s.payoff > 100_000
    assert s.money(s.payoff).replace(",", "") == s.exact(s.payoff) == s.to_json()["payoff"]
    assert (s.money(123_456_789), s.money(-5), s.money(-100_000)) == (
        "1,234,567.89",
        "-0.05",
        "-1,000.00",
    )
    assert f"You were paid {s.money(s.payoff)} EUR" in as_html(s)


def test_what_is_shown_is_called_what_the_terms_pay() -> None:
    voted = {"alignment_against": "peers-by-value", "diversity_weight": 8.0}
    for config, words, others in (
        ({}, {"coverage"}, {"alignment", "aligned", "diversity", "diverse"}),
        (voted, {"alignment", "aligned", "diversity", "diverse"}, {"coverage"}),
    ):
        text = as_text(statement_of(**config), 120)
        said = set(re.findall(r"[a-z]+", text))
        assert words <= said
        assert not others & said
    assert "coverage</th>" in as_html(statement_of())
    assert "1 that nobody else has: triangle 1–1–1." in as_text(statement_of(), 120)


def test_a_member_worth_nothing_reads_so_everywhere() -> None:
    s = statement_of()
    nothing = {"value": 0, "amounts": {}, "payoff": 0, "lean": 0.0, "status": "present"}
    s = replace(s, rounds=tuple(replace(p, **nothing) for p in s.rounds))
    for page in (as_text(s, 300), as_html(s)):
        assert "You were paid nothing" in page
        assert "it earned nothing in any round" in page
        assert "In no round: its graphs brought the others nothing" in page
        assert "the amounts above" not in page
        assert "holds no alignment" not in page


def test_of_many_rounds_the_text_has_some_and_html_all() -> None:
    s = statement_of(300, initial_value="equal")
    text = as_text(s, 80)
    assert len(text.splitlines()) < 100
    assert "the first, the last, the best and the worst paid" in text
    html = as_html(s)
    assert html.count('class="note"') == 300
    assert s.money(s.payoff) in html


def test_hostile_words_do_nothing() -> None:
    s = statement_of(name=HOSTILE, reason="<img src=x onerror=alert(2)>")
    s = replace(s, motifs=(Motif("<b>bond</b>", 0, True),))
    html = as_html(s)
    for part in ("<script", "<img", "<b>bond"):
        assert part not in html
    assert "&lt;script&gt;" in html
    text = as_text(s, 200)
    assert "\x1b" not in text
    assert "[bold]" in text


def test_html_needs_nothing_else_and_serves_print_and_dark_screens() -> None:
    html = as_html(statement_of())
    assert not re.search(r"(src|href)=|@import|url\(|<script", html)
    for words in ("@media print", "prefers-color-scheme: dark", '<html lang="en">', "<title>"):
        assert words in html
    assert html.count("<tr") == html.count("</tr>")


def test_html_columns_add_up_as_they_are_printed() -> None:
    s = statement_of()
    table = as_html(s).split('<table class="rounds">')[1]
    rows = [re.findall(r"<td[^>]*>(?:<b>)?([^<]*)", row) for row in table.split("<tr")[2:]]
    *rounds, total = [[int(x.replace(".", "")) for x in row[2:-1]] for row in rows]
    assert [sum(column) for column in zip(*rounds, strict=True)] == total
    parts = len(s.parts)
    assert all(sum(row[:parts]) == row[parts] for row in (*rounds, total))


def test_a_pdf_is_tagged_and_has_the_total(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        import weasyprint  # noqa: F401
    except (ImportError, OSError) as missing:  # the library Pango is no package of Python
        pytest.skip(f"needs weasyprint and Pango: {missing}")
    s = statement_of()
    content = as_pdf(s)
    assert content.startswith(b"%PDF")
    errors = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert not errors
    pictures = re.findall(r"<svg[^>]*>(<title>[^<]+</title>)?", as_html(s))
    assert pictures
    assert all(pictures)  # a title becomes the picture's description in the PDF
    if shutil.which("pdftotext") is None:
        pytest.skip("needs pdftotext to read it")
    (tmp_path / "s.pdf").write_bytes(content)
    about = subprocess.run(
        ["pdfinfo", str(tmp_path / "s.pdf")], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"Tagged: +yes", about)
    command = ["pdftotext", "-layout", str(tmp_path / "s.pdf"), "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"Paid in all: {s.money(s.payoff)} EUR" in text
    assert s.head in text


def test_who_issued_it_is_said_where_the_ledger_is_signed() -> None:
    plain = statement_of()
    assert "Issued by" not in as_html(plain) + as_text(plain)
    signed = replace(plain, issuer="ab" * 32, signature="cd" * 64)
    for page in (as_html(signed), as_text(signed)):
        assert "Issued by the operator" in page
        assert "ab" * 32 in page
        assert "cd" * 64 in page


def test_without_weasyprint_a_sentence_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("motifair.extras.find_spec", lambda name: None)
    with pytest.raises(MotifairError, match=r"pip install 'motifair\[pdf\]'"):
        as_pdf(statement_of())


def test_without_pango_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motifair.extras.find_spec", lambda name: "found")
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    with pytest.raises(MotifairError, match="install Pango, or write HTML"):
        as_pdf(statement_of())


def test_a_statement_without_rounds_or_motifs_is_a_page_as_well() -> None:
    s = replace(statement_of(), rounds=(), motifs=None)
    assert "0.00" in as_text(s, 80)
    assert "This ledger holds no alignment" in as_html(s)


def test_a_page_draws_the_pay_of_every_round_and_the_motifs_with_names() -> None:
    s = statement_of()
    page = as_html(s)
    (payoff,) = re.findall(r'<polyline class="payoff" points="([^"]*)"', page)
    (equal,) = re.findall(r'<polyline class="equal" points="([^"]*)"', page)
    heights = [float(point.split(",")[1]) for point in payoff.split()]
    assert len(heights) == len(equal.split()) == len(s.rounds)
    order = sorted(range(len(s.rounds)), key=lambda k: s.rounds[k].payoff)
    drawn = sorted(range(len(s.rounds)), key=lambda k: -heights[k])
    assert [s.rounds[k].payoff for k in order] == [s.rounds[k].payoff for k in drawn]
    names = re.findall(r"<span>([^<]*)</span> <span class=\"faint\">([^<]*)</span></li>", page)
    assert names == [("triangle 1–1–1", "only it"), ("edge 0–0", "1 other")]
    assert len(re.findall('<circle class="node"', page)) == 5
    one = replace(s, rounds=s.rounds[:1])
    assert "<polyline" not in as_html(one)
