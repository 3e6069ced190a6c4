"""The operator's side of a run: submit segments until it is finished."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from motifair.consortium.checkpoint import load_checkpoint
from motifair.consortium.driver import DRIVER
from motifair.consortium.live import LIVE, PULSE, ExchangeStatus, read_exchange_status
from motifair.consortium.operator_folder import OPERATOR, SERVER, OperatorFolder
from motifair.consortium.rounds import RESULT
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.terms import NAME
from motifair.errors import MotifairError
from motifair.files import read_json
from motifair.statements.entry import Entry

SEGMENT_ROUNDS = 50
PATIENCE = 300.0  # seconds without a new round, crashes included, before giving up
PAUSE = 1.0
REPORT = 10.0  # seconds between two sentences on what a run waits for
SKEW = 60.0  # seconds by which two clocks may differ
LEAST_SPACE = 2**20  # bytes needed to save a round
MOST_RETURNS = 3  # of a site in one round: one that keeps failing must not block the others


@dataclass(frozen=True)
class RunStatus:
    """Progress of a run: its last entry, and whether it is finished."""

    entry: Entry | None
    finished: bool

    @property
    def round(self) -> int:
        """Number of rounds done; -1 before all members have joined."""
        return -1 if self.entry is None else self.entry.round


def status(operator: OperatorFolder, run: str) -> RunStatus:
    """Return the progress of a run, from its files."""
    checkpoint = load_checkpoint(operator.run(run))
    finished = (operator.run(run) / RESULT).exists()
    return RunStatus(None if checkpoint is None else checkpoint.entry, finished)


def progress(operator: OperatorFolder, run: str, tell: Callable[[str], None]) -> Callable[[], None]:
    """Return a callback that reports each new round of a run, or every 10 s what it waits for."""
    reported, last = -1, time.monotonic()

    def watch() -> None:
        nonlocal reported, last
        now = status(operator, run).round
        if now > reported:
            reported, last = now, time.monotonic()
            tell(f"round {now} of {operator.terms.config.rounds}")
        elif time.monotonic() - last >= REPORT:
            last = time.monotonic()
            tell(waits_for(operator, run))

    return watch


def waits_for(operator: OperatorFolder, run: str) -> str:
    """Say which members a run waits for."""
    from motifair.consortium.transports.nvflare.processes import running

    exchange = _open_exchange(operator, run)
    needed = f"{operator.terms.quorum} of {len(operator.terms.members)} members"
    if exchange is None and running(operator.kit(SERVER)) is None:
        return "the server is not running on this machine: motifair federation server start"
    if exchange is None:
        return f"waiting for the server to begin a segment, which needs {needed} connected"
    missing = ", ".join(n for n in exchange.asked if n not in exchange.answered) or "nobody"
    return f"round {exchange.round} waits for {missing}; it needs {needed}"


def problems(operator: OperatorFolder, run: str) -> list[str]:
    """Return what an operator should look at, as sentences: of the server here, and of a run that
    was begun.
    """
    from motifair.consortium.transports.nvflare.processes import check_kit, running, trouble

    kit, found = operator.kit(SERVER), []
    if running(kit) is None:
        found.append("the server is not running on this machine")
    try:
        check_kit(kit)
    except MotifairError as error:
        found.append(str(error))
    if said := trouble(kit):
        found.append(said)
    live, now = read_exchange_status(operator.run(run) / LIVE), time.time()
    if live is None or status(operator, run).finished:
        return found
    if live.written_at > now + SKEW:
        found.append("the server's last sign of life is in the future: check the machine's clock")
    elif now - live.written_at > 3 * PULSE:
        found.append(f"the server does not work on run {run}: motifair federation run continues it")
    elif live.open and now > live.deadline_at:
        found.append(waits_for(operator, run))
    return found


def _open_exchange(operator: OperatorFolder, run: str) -> ExchangeStatus | None:
    """Return the exchange in which a server that is alive waits for members, if there is one."""
    now = read_exchange_status(operator.run(run) / LIVE)
    alive = now is not None and now.open and time.time() - now.written_at < 3 * PULSE
    return now if alive else None


def run_federation(
    operator: OperatorFolder,
    run: str,
    *,
    rounds: int = SEGMENT_ROUNDS,
    patience: float = PATIENCE,
    watch: Callable[[], None] = lambda: None,
) -> RunStatus:
    """Submit segments until the run is finished, through crashes of server, sites and ledger.

    The server must have access to the operator's folder. `watch` is called about once a second.
    Raise MotifairError after `patience` seconds without a new round in which the server did not
    wait for members, or on a lasting problem.
    """
    from motifair.consortium.transports.nvflare.processes import check_kit
    from motifair.consortium.transports.nvflare.segments import run_segment

    check_kit(operator.kit(SERVER))
    if not NAME.fullmatch(run):
        raise MotifairError(
            f"A run cannot be called '{run}'; use lower-case letters, digits, hyphens."
        )
    with open_ledger(operator.ledger, write=True):
        pass  # fail now if the name is wrong; later on, an unavailable ledger is waited for
    number, trouble = int(time.time()), ""
    returns: Counter[str] = Counter()  # segments aborted for the return of a site
    detector = StallDetector(operator, run, max(patience, 3 * operator.terms.deadline))
    while not detector.check(trouble).finished:
        if detector.moved:
            returns.clear()
            detector.moved, trouble = False, ""
        number += 1

        def done(number: int = number, trouble: str = trouble) -> bool:
            watch()
            detector.check(trouble)
            return _segment_note(operator, run).get("segment") == number

        try:
            result = run_segment(
                operator.kit(OPERATOR),
                members=operator.terms.members,
                driver=DRIVER,
                segment={"run": run, "rounds": rounds, "number": number},
                min_sites=operator.terms.quorum,
                timeout=_longest(operator, rounds),
                done=done,
                awaited=[m for m in operator.terms.members if returns[m] < MOST_RETURNS],
            )
        except MotifairError as error:
            _check_space(operator)
            detector.check(str(error))
            trouble = str(error)
            watch()
            time.sleep(PAUSE)  # the server is down; `server start` restarts it
            continue
        returns[result.back] += 1
        note = _segment_note(operator, run)
        if note.get("segment") == number and note["problem"]:
            if not note["passing"]:
                raise MotifairError(note["problem"])
            trouble = note["problem"]
        _check_space(operator)
        if trouble or result.how in ("refused", "aborted", "lost"):
            time.sleep(PAUSE)
    return detector.last


class StallDetector:
    """Raises when a run makes no progress for `patience` seconds."""

    def __init__(self, operator: OperatorFolder, run: str, patience: float) -> None:
        self.operator, self.run, self.patience = operator, run, patience
        self.last, self.since, self.moved = status(operator, run), time.monotonic(), False

    def check(self, trouble: str) -> RunStatus:
        """Return the current status; raise MotifairError, with the last trouble, on a stall."""
        now = status(self.operator, self.run)
        if now.round > self.last.round:
            self.since, self.moved = time.monotonic(), True
        if _open_exchange(self.operator, self.run) is not None:
            self.since = time.monotonic()  # a round waits for its quorum as long as it takes
        self.last = now
        if time.monotonic() - self.since > self.patience and not now.finished:
            raise MotifairError(
                f"Run {self.run} has made no progress since round {max(now.round, 0)} for "
                f"{self.patience:g} seconds; check that the server and enough agents are running, "
                "then run this again. "
                f"{trouble}"
            )
        return now


def _check_space(operator: OperatorFolder) -> None:
    """Refuse to continue if a round could not be saved."""
    for place in (operator.folder, operator.folder / "runs"):  # runs may be on another disk
        if place.exists() and shutil.disk_usage(place).free < LEAST_SPACE:
            raise MotifairError(
                f"The disk of {place} is full; free some space, then run this again."
            )


def _longest(operator: OperatorFolder, rounds: int) -> float:
    """Return the largest duration of a segment: every round waits until its deadline."""
    return 300 + 2 * rounds * operator.terms.deadline


def _segment_note(operator: OperatorFolder, run: str) -> dict[str, Any]:
    """Return what the driver wrote about the last segment; {} if nothing."""
    try:
        note = read_json(operator.run(run) / "segment.json")
    except (OSError, ValueError):  # none yet, or damaged: the next segment writes another
        return {}
    return note if isinstance(note, dict) else {}
