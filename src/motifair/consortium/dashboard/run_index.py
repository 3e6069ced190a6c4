"""One run of the ledger, read entry by entry and verified, in the little memory of its summary."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from motifair.consortium.dashboard.views import Row
from motifair.statements.entry import GENESIS, Entry, Line, decimal
from motifair.statements.explanations import alignment_kind
from motifair.statements.verification import Head, Mismatch, Verification


@dataclass
class Series:
    """An agent's value and cumulative payoff by round."""

    rounds: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    paid: array[float] = field(default_factory=lambda: array("d"))


class RunIndex:
    """What the dashboard keeps of a run: curves, a row for each entry, the lines of the last round.

    Entries after the first that does not verify have a row and count nowhere else. `missed` is how
    many rounds in a row an agent has been absent, `seen_in` the round in which it was last present,
    `aligned` what the alignments under the present terms are.
    """

    def __init__(self, run: str, heads: Iterable[Head] = ()) -> None:
        self.run = run
        self.verification = Verification(run, heads)
        self.rows: list[Row] = []
        self.series: dict[str, Series] = {}
        self.last: dict[str, Line] = {}
        self.missed: dict[str, int] = {}
        self.seen_in: dict[str, int] = {}
        self.aligned = "alignment"
        self.settled = 0  # units that settled rounds paid
        self.read: tuple[int, str] = (-1, GENESIS)  # the last entry that was read, verified or not

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        try:
            fits = self.verification.take(entry)
            if fits and entry.kind == "terms":
                self.aligned = alignment_kind(self.verification.books.agreed)
        except Exception as error:  # the database can hold anything in its cells
            self._stop(entry.number, error)
            fits = False
        if fits and entry.kind == "round":
            self._count(entry)
        self.rows.append(self._row(entry, fits))
        self.read = (entry.number, str(entry.recorded))

    def broken(self, error: Exception) -> None:
        """Record that the next entry cannot be read."""
        self._stop(self.read[0] + 1, error)

    def _stop(self, number: int, error: Exception) -> None:
        what = f"cannot be read ({type(error).__name__})"
        self.verification.finding = Mismatch(number, None, "", what)

    def _count(self, entry: Entry) -> None:
        books = self.verification.books
        self.settled += sum(line.payoff for line in entry.lines)
        self.last = {line.agent: line for line in entry.lines}
        for line in entry.lines:
            absent = line.status == "absent"
            self.missed[line.agent] = self.missed.get(line.agent, 0) + 1 if absent else 0
            if line.status == "present":
                self.seen_in[line.agent] = entry.round
            paid = books.balance(line.agent)
            drawn = self.series.setdefault(line.agent, Series())
            drawn.values.append(line.value / 1e12)
            drawn.paid.append(paid / 10**books.agreed.digits)
            drawn.rounds.append(entry.round)  # last: readers in other threads go by its length

    def _row(self, entry: Entry, fits: bool) -> Row:
        terms = self.verification.books.terms
        return Row(
            number=_whole(entry.number),
            kind=str(entry.kind),
            round=_whole(entry.round),
            settled=entry.settled,
            present=sum(line.status == "present" for line in entry.lines),
            members=len(entry.lines),
            budget=decimal(_whole(entry.budget), terms.digits if terms else 0),
            hash=str(entry.recorded or ""),
            fits=fits,
        )


def _whole(cell: Any) -> int:
    return cell if isinstance(cell, int) else 0
