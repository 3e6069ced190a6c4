"""The operator's part of a run: segment after segment, until it is finished."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from motifair.consortium.checkpoint import load_checkpoint
from motifair.consortium.driver import DRIVER
from motifair.consortium.operator_folder import OPERATOR, OperatorFolder
from motifair.consortium.rounds import CHECKPOINT, RESULT
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.terms import NAME
from motifair.errors import MotifairError
from motifair.files import read_json
from motifair.statements.entry import Entry

SEGMENT_ROUNDS = 50
PATIENCE = 300.0  # seconds without a new round, through whatever crashes, before we give up
PAUSE = 1.0
LEAST_SPACE = 2**20  # bytes, without which a round cannot be saved
MOST_RETURNS = 3  # of a site in one round: one that fails by itself must not hold up the others


@dataclass(frozen=True)
class RunStatus:
    """How far a run is: its last entry, and whether it is finished."""

    entry: Entry | None
    finished: bool

    @property
    def round(self) -> int:
        """Rounds done; -1 before all members have joined."""
        return -1 if self.entry is None else self.entry.round


def status(operator: OperatorFolder, run: str) -> RunStatus:
    """Look at where a run stands."""
    checkpoint = load_checkpoint(operator.run(run) / CHECKPOINT)
    finished = (operator.run(run) / RESULT).exists()
    return RunStatus(None if checkpoint is None else checkpoint.entry, finished)


def run_federation(
    operator: OperatorFolder,
    run: str,
    *,
    rounds: int = SEGMENT_ROUNDS,
    patience: float = PATIENCE,
    watch: Callable[[], None] = lambda: None,
) -> RunStatus:
    """Submit segments until the run is finished, whatever dies meanwhile.

    The server must run on this machine or see this folder. `watch` is called about once a second.
    """
    from motifair.consortium.transports.nvflare.segments import run_segment

    if not NAME.fullmatch(run):
        raise MotifairError(f"A run cannot be called '{run}'; use small letters, digits, hyphens.")
    with open_ledger(operator.ledger, write=True):
        pass  # a wrong name is told at once; later on, a ledger that is away is waited for
    number, trouble = int(time.time()), ""
    came: Counter[str] = Counter()  # how often a segment was ended for a site that was back
    detector = StallDetector(operator, run, max(patience, 3 * operator.terms.deadline))
    while not detector.look(trouble).finished:
        if detector.moved:
            came.clear()
            detector.moved, trouble = False, ""
        number += 1

        def done(number: int = number, trouble: str = trouble) -> bool:
            watch()
            detector.look(trouble)
            return _note(operator, run).get("segment") == number

        try:
            result = run_segment(
                operator.kit(OPERATOR),
                members=operator.terms.members,
                driver=DRIVER,
                segment={"run": run, "rounds": rounds, "number": number},
                min_sites=operator.terms.quorum,
                timeout=_longest(operator, rounds),
                done=done,
                awaited=[m for m in operator.terms.members if came[m] < MOST_RETURNS],
            )
        except MotifairError as error:
            _check_room(operator)
            detector.look(str(error))
            trouble = str(error)
            time.sleep(PAUSE)  # the server is away; whoever keeps it will start it again
            continue
        came[result.back] += 1
        note = _note(operator, run)
        if note.get("segment") == number and note["problem"]:
            if not note["passing"]:
                raise MotifairError(note["problem"])
            trouble = note["problem"]
        _check_room(operator)
        if trouble or result.how in ("refused", "aborted", "lost"):
            time.sleep(PAUSE)
    return detector.last


class StallDetector:
    """Watches that a run does move on."""

    def __init__(self, operator: OperatorFolder, run: str, patience: float) -> None:
        self.operator, self.run, self.patience = operator, run, patience
        self.last, self.since, self.moved = status(operator, run), time.monotonic(), False

    def look(self, trouble: str) -> RunStatus:
        """Look again; a run that has stood for too long is a sentence, with the last trouble."""
        now = status(self.operator, self.run)
        if now.round > self.last.round:
            self.since, self.moved = time.monotonic(), True
        self.last = now
        if time.monotonic() - self.since > self.patience and not now.finished:
            raise MotifairError(
                f"Run {self.run} has stood at round {max(now.round, 0)} for {self.patience:g} "
                "seconds; see that the server and enough agents are started, then run this again. "
                f"{trouble}"
            )
        return now


def _check_room(operator: OperatorFolder) -> None:
    """Refuse to go on when a round could not be saved."""
    for place in (operator.folder, operator.folder / "runs"):  # which may be a disk of its own
        if place.exists() and shutil.disk_usage(place).free < LEAST_SPACE:
            raise MotifairError(f"The disk of {place} is full; make room, then run this again.")


def _longest(operator: OperatorFolder, rounds: int) -> float:
    """Return how long a segment may take when every round waits for somebody until its deadline."""
    return 300 + 2 * rounds * operator.terms.deadline


def _note(operator: OperatorFolder, run: str) -> dict[str, Any]:
    """Read how the last segment ended."""
    path = operator.run(run) / "segment.json"
    note: dict[str, Any] = read_json(path) if path.exists() else {}
    return note
