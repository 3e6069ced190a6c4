"""Live status of the current exchange, in a small file that the dashboard reads.

The ledger has no clock; this file has. Nothing depends on it: a thread of its own writes it, and a
write that fails is skipped.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from motifair.files import read_json

logger = logging.getLogger(__name__)

LIVE = "live.json"
PAUSE = 0.2  # least seconds between two writes, however many replies arrive
PULSE = 5.0  # most seconds between two writes: a heartbeat of the server


@dataclass(frozen=True)
class ExchangeStatus:
    """State of one exchange; times are seconds since 1970.

    `asked` are the agents that were sent a task for `round` at `asked_at`, to be answered by
    `deadline_at`. `answered` holds the arrival time of each reply of this exchange, `seen` of the
    last reply of each agent in any exchange. `open` is true while the server waits for replies,
    `written_at` is the heartbeat.
    """

    round: int = 0
    open: bool = False
    asked: tuple[str, ...] = ()
    asked_at: float = 0.0
    deadline_at: float = 0.0
    answered: dict[str, float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    written_at: float = 0.0


def read_exchange_status(path: Path) -> ExchangeStatus | None:
    """Read the file of a `LiveStatusWriter`; None if it is missing or cannot be read."""
    try:
        content = read_json(path)
        return ExchangeStatus(
            round=int(content["round"]),
            open=bool(content["open"]),
            asked=tuple(str(name) for name in content["asked"]),
            answered={str(k): float(v) for k, v in content["answered"].items()},
            seen={str(k): float(v) for k, v in content["seen"].items()},
            **{n: float(content[n]) for n in ("asked_at", "deadline_at", "written_at")},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


class LiveStatusWriter:
    """Writes an `ExchangeStatus` to a file while its `with` block runs.

    No method raises, or waits for a disk.
    """

    def __init__(self, path: Path) -> None:
        before = read_exchange_status(path)
        self.path = path
        self.now = (
            ExchangeStatus() if before is None else ExchangeStatus(before.round, seen=before.seen)
        )
        self.lock = threading.Lock()
        self.changed, self.stopping = threading.Event(), threading.Event()

    def __enter__(self) -> Self:
        self.stopping.clear()
        self.writer = threading.Thread(target=self._write_changes, name="live", daemon=True)
        self.writer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.ended()
        self.stopping.set()
        self.changed.set()
        self.writer.join(timeout=2.0)  # a disk that hangs must not block the end of the run

    def started(self, round: int, names: Iterable[str], deadline: float) -> None:
        """Record that these agents are sent tasks, to be answered within `deadline` seconds."""
        now = time.time()
        with self.lock:
            self.now = ExchangeStatus(
                round, True, tuple(names), now, now + deadline, {}, self.now.seen
            )
        self.changed.set()

    def replied(self, name: str) -> None:
        """Record that the reply of an agent arrived."""
        with self.lock:
            self.now.answered[name] = self.now.seen[name] = time.time()
        self.changed.set()

    def ended(self) -> None:
        """Record that the server no longer waits for replies."""
        with self.lock:
            self.now = replace(self.now, open=False)
        self.changed.set()

    def _write_changes(self) -> None:
        failed = False
        while not self.stopping.is_set():
            self.changed.wait(PULSE)
            self.changed.clear()
            failed = not self._write(quiet=failed)
            self.stopping.wait(PAUSE)
        self._write(quiet=failed)

    def _write(self, quiet: bool) -> bool:
        """Replace the file, without fsync: it may be lost when the machine dies."""
        with self.lock:
            text = json.dumps(asdict(self.now) | {"written_at": time.time()})
        temporary = self.path.with_name(f".{self.path.name}")
        try:
            temporary.write_text(text)
            temporary.replace(self.path)
        except OSError as error:
            if not quiet:
                logger.warning("%s cannot be written: %s", self.path, error)
            return False
        return True
