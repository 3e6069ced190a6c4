"""The one reader of the ledger: all pages, answers and streams show what it read last.

It polls every half second, reads only new entries, and wakes waiting streams. Every minute or so it
reads everything again, to detect changes in old entries.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from motifair.consortium.dashboard.run_index import RunIndex
from motifair.consortium.dashboard.status import pause_of, state_of, status_of
from motifair.consortium.dashboard.views import (
    Agent,
    AgentStatus,
    Detail,
    OpenExchange,
    RunState,
    Summary,
    verdict_for_operator,
)
from motifair.consortium.live import LIVE, ExchangeStatus, read_exchange_status
from motifair.consortium.rounds import RESULT
from motifair.consortium.source import read_accuracy
from motifair.consortium.store.ledger import Ledger, open_ledger
from motifair.errors import MotifairError
from motifair.statements.entry import Entry, decimal
from motifair.statements.verification import Head, Mismatch

logger = logging.getLogger(__name__)

PAUSE = 0.5  # seconds between two polls
AGAIN = 60.0  # seconds between two readings of everything, at least
SHARE = 50  # and at least so many times as long as such a reading takes
PACE = 20  # rounds by which the time left is estimated


class NoLedger:
    """A ledger without runs, for a dashboard of simulations alone."""

    def runs(self) -> Sequence[str]:
        """Return no runs."""
        return ()

    def heads(self) -> Mapping[str, Head]:
        """Return no heads."""
        return {}

    def entries(self, run: str, after: int = -1) -> Iterator[Entry]:
        """Yield no entries."""
        return iter(())

    def strays(self, run: str) -> Sequence[tuple[int, str]]:
        """Return no lines."""
        return ()

    def close(self) -> None:
        """Do nothing."""


Open = Callable[[], Ledger | NoLedger]


@dataclass(frozen=True)
class View:
    """A run as of one poll; `version` changes whenever anything else does. `pause` is that of
    `detail` for members, without names.
    """

    version: int
    detail: Detail
    finding: Mismatch | None
    pause: str
    index: RunIndex
    entries: int


Notify = Callable[[Mapping[str, View], Mapping[str, View]], None]


class Watcher:
    """Reads a ledger, and `live.json` of its runs where their folder is known; without a ledger
    there are no runs.

    `views` is replaced, never changed, so other threads can keep reading it. `problem` is a
    sentence while the ledger cannot be read. `notify` is called with the views before and after
    each poll.
    """

    def __init__(
        self, ledger: str | Path | None, runs: Path | None = None, notify: Notify | None = None
    ) -> None:
        self.runs, self._notify = runs, notify
        self._open: Open = NoLedger if ledger is None else partial(open_ledger, ledger, write=False)
        self.ledger = self._open()
        self.has_ledger = ledger is not None
        self.views: dict[str, View] = {}
        self.version, self.problem, self.stopping = 0, "", False
        self._indexes: dict[str, RunIndex] = {}
        self._whole_at, self._whole_took = -AGAIN, 0.0
        self._checked_at = datetime.now(UTC)
        self._paces: dict[str, deque[tuple[int, float]]] = {}
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def watch(self) -> None:
        """Poll until cancelled; wake waiting streams when something changed."""
        self._loop = asyncio.get_running_loop()
        while True:
            before = self.version
            await asyncio.to_thread(self.look)
            if self.version != before:
                self._wake()
            await asyncio.sleep(PAUSE)

    async def changed(self, version: int, timeout: float) -> bool:
        """Wait until there is a newer version than `version`; return whether there is."""
        if self.version == version and not self.stopping:
            try:
                await asyncio.wait_for(self._changed.wait(), timeout)
            except TimeoutError:
                return False
        return self.version != version

    def stop(self) -> None:
        """End all streams; may be called from any thread, or by a signal."""
        self.stopping = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """Close the ledger."""
        self.ledger.close()

    def look(self) -> None:
        """Read what is new."""
        try:
            if time.monotonic() - self._whole_at >= max(AGAIN, SHARE * self._whole_took):
                self._read_all()
            else:
                self._read_new()
            problem = ""
        except MotifairError as error:
            problem = str(error)
        except Exception as error:  # the watcher must not end
            problem = f"The ledger cannot be read ({error!r})."
        if problem != self.problem:
            logger.warning("%s", problem or "The ledger can be read again.")
            self.problem, self.version = problem, self.version + 1
        if not problem:
            self._show()

    def entries(self, run: str) -> list[Entry]:
        """Read all entries of a run, for statements."""
        return list(self.ledger.entries(run))

    def entry(self, run: str, number: int) -> Entry | None:
        """Read one entry of a run."""
        return next(self.ledger.entries(run, number - 1), None)

    def folder(self, run: str) -> Path | None:
        """Return the folder of a run; its name is looked up, never joined to a path."""
        if self.runs is None or run not in self.views:
            return None
        return self._folders().get(run)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _read_all(self) -> None:
        """Read every run from its first entry; heads seen before must still be there."""
        began = time.monotonic()
        fresh = self._open()  # a read-only file may have been opened before it was first written
        self.ledger.close()
        self.ledger = fresh
        indexes: dict[str, RunIndex] = {}
        for run in sorted({*self.ledger.runs(), *self._indexes}):
            known = self._indexes.get(run)
            indexes[run] = self._read(RunIndex(run, known_heads(known)))
            for number, agent in self.ledger.strays(run):
                finding = Mismatch(number, None, agent, "the entry of this line is missing")
                check = indexes[run].verification
                check.finding = check.finding or finding
                break
        self._indexes, self._checked_at = indexes, datetime.now(UTC)
        self._whole_at = time.monotonic()
        self._whole_took = self._whole_at - began

    def _read_new(self) -> None:
        heads = self.ledger.heads()
        for run in {*heads, *self._indexes}:
            index, head = self._indexes.get(run) or RunIndex(run), heads.get(run, (-1, ""))
            if run not in self._indexes or head[0] > index.read[0]:
                self._indexes[run] = self._read(index)
            elif head != index.read and index.rows:  # truncated or rewritten: read it again
                self._indexes[run] = self._read(RunIndex(run, known_heads(index)))

    def _read(self, index: RunIndex) -> RunIndex:
        with _reading(index):
            for entry in self.ledger.entries(index.run, index.read[0]):
                index.add(entry)
        return index

    def _show(self) -> None:
        """Replace the views of runs that changed."""
        now, folders = time.time(), self._folders()
        views = {}
        for run, index in sorted(self._indexes.items()):
            folder = folders.get(run)
            moment = None if folder is None else read_exchange_status(folder / LIVE)
            state, accuracy = state_of(index, moment, now), _accuracy(folder)
            left = self._left(index, state)
            view = _view(index, moment, state, now, accuracy, self._checked_at, left)
            old = self.views.get(run)
            if old is None or replace(view, version=old.version) != old:
                self.version += 1
                old = replace(view, version=self.version)
            views[run] = old
        before, self.views = self.views, views
        if self._notify is not None:
            self._notify(before, views)

    def _left(self, index: RunIndex, state: RunState) -> int | None:
        """Estimate the seconds until the last round, by the rounds that were seen to be settled."""
        books = index.verification.books
        pace = self._paces.setdefault(index.run, deque(maxlen=PACE + 1))
        if not pace or pace[-1][0] != books.round:
            pace.append((books.round, time.monotonic()))
        (first, began), (last, ended) = pace[0], pace[-1]
        if state != "running" or last <= first or books.terms is None:
            return None
        return round((ended - began) / (last - first) * (books.terms.rounds - last))

    def _folders(self) -> dict[str, Path]:
        """Return the folders of runs by name, of an operator's folder or of its runs/."""
        if self.runs is None:
            return {}
        inner = self.runs / "runs"
        place = inner if inner.is_dir() else self.runs
        try:
            return {path.name: path for path in place.iterdir() if path.is_dir()}
        except OSError:
            return {}


def known_heads(index: RunIndex | None) -> list[Head]:
    """Return what must still be in a ledger: the last entry that was verified."""
    if index is None:
        return []
    books = index.verification.books
    last = [Head(books.entries - 1, books.head)][: books.entries]
    return [*index.verification.kept.values()] or last


@contextmanager
def _reading(index: RunIndex) -> Iterator[None]:
    """Let an unreadable ledger raise, but mark a run with a damaged row as broken."""
    try:
        yield
    except MotifairError:
        raise
    except Exception as error:
        logger.exception("run %s cannot be read", index.run)
        index.broken(error)


def _accuracy(folder: Path | None) -> Mapping[str, float]:
    """Return the accuracies that members reported at the end; none if they cannot be read."""
    with suppress(MotifairError):
        return {} if folder is None else read_accuracy(folder / RESULT)
    return {}


def _view(
    index: RunIndex,
    moment: ExchangeStatus | None,
    state: RunState,
    now: float,
    accuracy: Mapping[str, float],
    checked_at: datetime,
    left: int | None,
) -> View:
    verdict, terms = index.verification.verdict, index.verification.books.terms
    members = sorted(terms.members) if terms else []
    agents = [
        _agent(name, index, moment, status_of(name, index, moment, state, now), accuracy)
        for name in members
    ]
    counts: Counter[AgentStatus] = Counter(row.status for row in agents)
    summary = _summary(index, state, checked_at, left)
    detail = Detail(
        summary=summary,
        verdict=verdict_for_operator(summary, agents),
        counts=dict(counts),
        exchange=_exchange(moment) if moment and moment.open and state == "running" else None,
        pause=pause_of(index, moment, state, now, names=True),
        aligned=index.aligned,
        agents=agents,
    )
    public = pause_of(index, moment, state, now, names=False)
    return View(0, detail, verdict.finding, public, index, len(index.rows))


def _summary(index: RunIndex, state: RunState, checked_at: datetime, left: int | None) -> Summary:
    books, verdict = index.verification.books, index.verification.verdict
    terms = books.terms
    digits = terms.digits if terms else 0
    return Summary(
        run=index.run,
        method=terms.method if terms else "",
        state=state,
        round=books.round,
        rounds=terms.rounds if terms else 0,
        members=len(terms.members) if terms else 0,
        present=sum(line.status == "present" for line in index.last.values()),
        currency=terms.currency if terms else "",
        budget=decimal(terms.budget if terms else 0, digits),
        paid=decimal(index.settled, digits),
        entries=len(index.rows),
        head=books.head,
        fits=verdict.fits,
        finding="" if verdict.finding is None else str(verdict.finding),
        checked_at=checked_at.replace(microsecond=0),
        left=left,
    )


def _agent(
    name: str,
    index: RunIndex,
    moment: ExchangeStatus | None,
    status: AgentStatus,
    accuracy: Mapping[str, float],
) -> Agent:
    line, books = index.last.get(name), index.verification.books
    digits = books.agreed.digits
    most = max((other.kept for other in index.last.values()), default=0)
    aligned = line.alignment if line else None
    seen = moment.seen.get(name) if moment else None
    return Agent(
        agent=name,
        status=status,
        seen_at=None if seen is None else _time(seen),
        seen_in=index.seen_in.get(name),
        outcome=line.status if line else "",
        reason=line.reason if line else "",
        value=line.value / 1e12 if line else None,
        alignment=None if aligned is None else aligned / 1e12,
        received=line.kept / most if line and most else None,
        accuracy=accuracy.get(name),
        payoff=decimal(line.payoff if line else 0, digits),
        paid=decimal(books.balance(name), digits),
    )


def _exchange(moment: ExchangeStatus) -> OpenExchange:
    return OpenExchange(
        round=moment.round,
        asked=len(moment.asked),
        answered=len(moment.answered.keys() & set(moment.asked)),
        asked_at=_time(moment.asked_at),
        deadline_at=_time(moment.deadline_at),
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(round(seconds), UTC)
