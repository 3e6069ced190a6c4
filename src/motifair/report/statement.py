"""A statement as text for the terminal, as HTML and as PDF."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console

from motifair.errors import MotifairError
from motifair.extras import require
from motifair.motifs.fragments import fragment
from motifair.report.charts import thin
from motifair.report.colours import LIGHT
from motifair.report.gallery import draw, name_of
from motifair.report.templates import asset, render
from motifair.report.verdicts import verdict_on_statement
from motifair.statements.entry import clean_reason, decimal
from motifair.statements.explanations import besides_money
from motifair.statements.payment import Payment
from motifair.statements.statement import Motif, Statement
from motifair.table import Table

SUFFIXES = {".txt": "text", ".json": "json", ".html": "html", ".pdf": "pdf"}
LABELS = {
    "initial": "initial value",
    "diversity": "diversity",
    "adjustment": "adjustment",
    "value": "value",
    "equal": "equal share",
    "compensation": "compensation",
    "redistribution": "penalties of others",
    "penalty": "penalty",
    "fine": "fine",
    "rounding": "rounding",
}
COLUMNS = {
    "initial": "initial",
    "diversity": "diverse",
    "adjustment": "adjusted",
    "compensation": "late",
    "redistribution": "others'",
}  # short, for the terminal: where a name is not here, it is short itself
ISSUED = (
    "Issued by the operator, by the SHA-256 of its public key (operator.pub), and its signature of "
    "the head:"
)
MOST_ROUNDS, MOST_NOTES, MOST_MOTIFS = 20, 12, 24
BAR = 140  # width of the bars in units of their own
CURVE, LEFT = (600.0, 140.0), 90.0  # the curve: width and height, and where it begins
DRAWN = ("payoff", "equal")
MOST_POINTS, MOST_DRAWN = 300, 18


def as_format(statement: Statement, format_: str, width: int = 100) -> str | bytes:
    """Return a statement in one of the formats of `SUFFIXES`; `width` is that of text."""
    if format_ == "json":
        content = {"verdict": verdict_on_statement(statement), **statement.to_json()}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if format_ == "html":
        return as_html(statement)
    if format_ == "pdf":
        return as_pdf(statement)
    return as_text(statement, width)


def as_text(statement: Statement, width: int = 80) -> str:
    """Return a statement for the terminal: totals, a few of many rounds, and how to verify."""
    console = Console(
        file=StringIO(), width=width, markup=False, highlight=False, emoji=False, no_color=True
    )
    console.print(f"Statement for {clean_reason(statement.agent)}")
    console.print(_about(statement) + "\n")
    console.print(verdict_on_statement(statement))
    console.print(_besides(statement) + "\n")
    totals = _totals(statement).to_rich(box=None, show_header=False, padding=(0, 2, 0, 0))
    console.print(totals)
    console.print("\n" + "\n".join(_instead(statement)) + "\n")
    for sentence in statement.sentences:
        console.print(sentence)
    shown = _chosen(statement.rounds)
    rounds = _rounds(statement, shown)
    console.print(f"\n{rounds.title}")
    console.print(rounds.to_rich(title=None, padding=0))
    for line in _notes(shown):
        console.print(line)
    for title, lines in (
        ("Motifs", _motifs(statement)),
        ("Updates that the federation leaned on", _leaned(statement)),
        ("How to verify", _verify(statement)),
    ):
        console.print(f"\n{title}")
        for line in lines:
            # A command or a hash is in one piece, to be copied.
            console.print(line, soft_wrap=line.startswith("  "))
    return _plain(console)


def as_html(statement: Statement) -> str:
    """Return a statement as one HTML document that needs nothing else, for screen and print."""
    return render(
        "statement.html",
        s=statement,
        theme=asset("theme.css"),
        issued=ISSUED,
        about=_about(statement),
        **describe(statement),
        meaning=statement.meaning,
        bars=_bars(statement),
        curve=_curve(statement),
        drawn=[(name_of(m.key), draw(m.key), m.others) for m in _drawn(statement)],
        colours=LIGHT,
        rows=[_row(statement, p) for p in statement.rounds],
        instead=_instead(statement),
        motifs=_motifs(statement),
        fragments=_fragments(statement),
    )


def as_pdf(statement: Statement) -> bytes:
    """Return the same document as tagged PDF (PDF/UA-1), which screen readers can follow."""
    require("pdf", "A PDF")
    try:
        from weasyprint import HTML
    except (ImportError, OSError) as error:  # the package is there, a library of the system is not
        raise MotifairError(
            f"WeasyPrint cannot be loaded ({clean_reason(str(error))}); install Pango, or write "
            "HTML instead."
        ) from None
    document = HTML(string=as_html(statement))
    written: bytes = document.write_pdf(pdf_variant="pdf/ua-1", pdf_tags=True)
    return written


def describe(statement: Statement) -> dict[str, Any]:
    """Return what a page says of a statement besides its numbers: sentences and names of parts."""
    return {
        "verdict": verdict_on_statement(statement),
        "besides": _besides(statement),
        "labels": _labels(statement),
        "sum": _sum(statement),
    }


def _about(s: Statement) -> str:
    """Say what the statement is of: federation, run, period, method, and the day it was made."""
    unpaid = sum(not p.settled for p in s.rounds)  # an audit counts as settled
    numbers = [p.round for p in s.rounds] or [0]
    period = f"rounds {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"round {numbers[0]}"
    late = f", {unpaid} of them not settled" if unpaid else ""
    where = f"federation {s.federation}, " if s.federation else ""
    words = f"{where}run {s.run}, method {s.method}, {period}{late}; amounts in {s.currency}"
    return clean_reason(f"{words}; made on {date.today().isoformat()}")


def _besides(s: Statement) -> str:
    return besides_money(s.received, s.accuracy, s.metric)


def _labels(s: Statement) -> dict[str, str]:
    """Return the name of each part, in words."""
    return {**LABELS, "alignment": " and ".join(s.alignments)}


def _totals(s: Statement) -> Table:
    labels, meaning = _labels(s), s.meaning
    rows = [(labels[name], s.money(s.totals[name]), meaning[name]) for name in s.parts]
    rows.append(("payoff", s.money(s.payoff), f"what it was paid: {_sum(s)}"))
    return Table(("part", s.currency, "what it is"), rows, numbers=(1,))


def _sum(s: Statement) -> str:
    return "the sum of the amounts above" if s.parts else "it earned nothing in any round"


def _instead(s: Statement) -> list[str]:
    """Return what other rules would have paid for the same rounds."""
    lines = [f"Had all who were there been paid the same: {s.money(s.equal)}"]
    shapley = s.shapley
    if shapley is not None:
        lines.append(f"By the Shapley value of the numbers of graphs: {s.money(shapley)}")
    return lines


def _chosen(rounds: Sequence[Payment]) -> list[Payment]:
    """Choose of many rounds the first, the last, the best and the worst paid."""
    if len(rounds) <= MOST_ROUNDS:
        return list(rounds)
    by_payoff = sorted(rounds, key=lambda p: (p.payoff, p.round))
    chosen = {p.number: p for p in (*rounds[:4], *rounds[-4:], *by_payoff[:3], *by_payoff[-3:])}
    return [chosen[t] for t in sorted(chosen)]


def _rounds(s: Statement, shown: Sequence[Payment]) -> Table:
    some = len(shown) < len(s.rounds)
    title = "Rounds: the first, the last, the best and the worst paid" if some else "Rounds"
    names = [*s.parts, "payoff"]
    columns = {**COLUMNS, "alignment": "coverage" if s.alignments == ("coverage",) else "aligned"}
    head = ["round", *(columns.get(name, name) for name in names)]
    rows = []
    for p in shown:
        amounts = {**p.amounts, "payoff": p.payoff}
        mark = " *" if p.note else "  "
        rows.append([f"{_named(p)}{mark}", *(s.money(amounts.get(n, 0)) for n in names)])
    return Table(head, rows, title, range(len(head)))


def _named(p: Payment) -> str:
    return str(p.round) if p.kind == "round" else p.kind


def _notes(shown: Sequence[Payment]) -> Iterator[str]:
    """Explain the stars."""
    noted = [p for p in shown if p.note]
    for p in noted[:MOST_NOTES]:
        yield f"* {'round ' if p.kind == 'round' else ''}{_named(p)}: {p.note}"
    if len(noted) > MOST_NOTES:
        yield f"* and {len(noted) - MOST_NOTES} more; --format html, pdf or json has all of them"


def _motifs(s: Statement) -> list[str]:
    """List what the member brought, by who else has it."""
    if s.motifs is None:
        return ["The motifs are not known here, or the method has none."]
    groups: dict[str, list[Motif]] = {"that nobody else has": [], "that others have, too": []}
    for motif in s.motifs:
        groups["that others have, too" if motif.others else "that nobody else has"].append(motif)
    return [_group(name, motifs) for name, motifs in groups.items()]


def _fragments(s: Statement) -> list[tuple[str, str]]:
    """Return SMILES and drawing of the rarest motifs, if they are of molecules."""
    shown = [m for m in s.motifs or () if m.smiles][:MOST_MOTIFS]
    return [(m.smiles, made.svg) for m in shown if (made := fragment(m.key)) is not None]


def _group(name: str, motifs: Sequence[Motif]) -> str:
    if not motifs:
        return f"None {name}."
    counts = [m.counts for m in motifs if m.counts is not None]
    counted = "all count" if all(counts) else f"{sum(counts)} of them count"
    how = f" ({counted} as diversity)" if counts else ""
    names = ", ".join(m.smiles or name_of(m.key) for m in motifs[:MOST_MOTIFS])
    more = len(motifs) - MOST_MOTIFS
    rest = f", and {more} more" if more > 0 else ""
    return f"{len(motifs)} {name}{how}: {names}{rest}."


def _leaned(s: Statement) -> Iterator[str]:
    if s.leaned_on:
        yield ", ".join(f"round {p.round} ({100 * (p.lean or 0):.1f} %)" for p in s.leaned_on)
    yield s.leaning


def _verify(s: Statement) -> Iterator[str]:
    for command, does in s.verification:
        yield f"  {command}"
        yield does
    yield f"There are {s.entries} entries; the hash of the last one, the head:"
    yield f"  {s.head}"
    if s.signature:
        yield ISSUED
        yield f"  {s.issuer}"
        yield f"  {s.signature}"


def _row(s: Statement, p: Payment) -> dict[str, Any]:
    """Return what the table of rounds has in one row."""
    return {
        "round": _named(p),
        "value": decimal(p.value, 12)[:-8],
        "amounts": [s.money(p.amounts.get(name, 0)) for name in s.parts],
        "payoff": s.money(p.payoff),
        "instead": [s.money(p.equal), *([] if s.shapley is None else [s.money(p.shapley)])],
        "note": p.note,
    }


def _bars(s: Statement) -> dict[str, dict[str, float]]:
    """Return where the bar of each part begins, and how long it is."""
    amounts = [s.totals[name] for name in s.parts]
    low, high = min([0, *amounts]), max([0, *amounts])
    scale = BAR / ((high - low) or 1)
    return {
        name: {"x": (min(units, 0) - low) * scale, "width": abs(units) * scale}
        for name, units in zip(s.parts, amounts, strict=True)
    }


def _curve(s: Statement) -> dict[str, Any] | None:
    """Return payoff and equal share by round as points of two lines, thinned; None for fewer than
    two rounds.
    """
    drawn = [p for p in s.rounds if p.kind == "round"]
    if len(drawn) < 2:
        return None
    rounds = np.array([p.round for p in drawn], dtype=float)
    lines = {name: np.array([float(getattr(p, name)) for p in drawn]) for name in DRAWN}
    low = min(0.0, *(line.min() for line in lines.values()))
    high = max(line.max() for line in lines.values())
    x = LEFT + (CURVE[0] - LEFT) * (rounds - rounds[0]) / (rounds[-1] - rounds[0])
    points = {}
    for name, line in lines.items():
        y = CURVE[1] * (1 - (line - low) / ((high - low) or 1))
        points[name] = " ".join(f"{x[k]:.1f},{y[k]:.1f}" for k in thin(line, MOST_POINTS))
    ends = {"first": drawn[0].round, "last": drawn[-1].round}
    return {**ends, "points": points, "low": s.money(round(low)), "high": s.money(round(high))}


def _drawn(s: Statement) -> list[Motif]:
    """Choose motifs to draw: those that nobody else has first, rings before edges."""
    known = [m for m in s.motifs or () if draw(m.key) is not None]
    return sorted(known, key=lambda m: (m.others, not m.key.startswith("ring"), m.key))[:MOST_DRAWN]


def _plain(console: Console) -> str:
    """Return what was printed, without control characters."""
    written = console.file
    assert isinstance(written, StringIO)
    lines = written.getvalue().split("\n")
    return "\n".join("".join(filter(str.isprintable, x)).rstrip() for x in lines[:-1]) + "\n"
