"""What the server's side is waiting for just now, in a small file for who watches.

The ledger has no clock; this file has. Nothing depends on it: it is written beside the rounds, by a
thread of its own, and what cannot be written is left out.
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

logger = logging.getLogger(__name__)

LIVE = "live.json"
PAUSE = 0.2  # seconds between two writings, however many replies arrive
PULSE = 5.0  # seconds after which it is written again, to show that the server is there


@dataclass(frozen=True)
class Moment:
    """How one exchange stands; times are seconds since 1970.

    `asked` are the agents that were sent a task for `round` at `asked_at` and have until
    `deadline_at`; `answered` when each reply of this exchange arrived, `seen` the last reply of
    every agent ever. `open` is true while the server waits for replies, `written_at` its pulse.
    """

    round: int = 0
    open: bool = False
    asked: tuple[str, ...] = ()
    asked_at: float = 0.0
    deadline_at: float = 0.0
    answered: dict[str, float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    written_at: float = 0.0


def read_moment(path: Path) -> Moment | None:
    """Read what `Live` wrote; None where there is nothing that can be read."""
    try:
        content = json.loads(path.read_text())
        return Moment(
            round=int(content["round"]),
            open=bool(content["open"]),
            asked=tuple(str(name) for name in content["asked"]),
            answered={str(k): float(v) for k, v in content["answered"].items()},
            seen={str(k): float(v) for k, v in content["seen"].items()},
            **{n: float(content[n]) for n in ("asked_at", "deadline_at", "written_at")},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


class Live:
    """Writes moments to a file while `with` lasts. No method of it raises or waits for a disk."""

    def __init__(self, path: Path) -> None:
        before = read_moment(path)
        self.path = path
        self.now = Moment() if before is None else Moment(before.round, seen=before.seen)
        self.lock, self.news, self.ended = threading.Lock(), threading.Event(), threading.Event()

    def __enter__(self) -> Self:
        self.ended.clear()
        self.writer = threading.Thread(target=self._write_on, name="live", daemon=True)
        self.writer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.closed()
        self.ended.set()
        self.news.set()
        self.writer.join(timeout=2.0)  # a disk that hangs must not hold up the run's end

    def asked(self, round: int, names: Iterable[str], deadline: float) -> None:
        """Tasks of a round go out, and may be answered for so many seconds."""
        now = time.time()
        with self.lock:
            self.now = Moment(round, True, tuple(names), now, now + deadline, {}, self.now.seen)
        self.news.set()

    def heard(self, name: str) -> None:
        """An agent's reply is here."""
        with self.lock:
            self.now.answered[name] = self.now.seen[name] = time.time()
        self.news.set()

    def closed(self) -> None:
        """The server waits no longer."""
        with self.lock:
            self.now = replace(self.now, open=False)
        self.news.set()

    def _write_on(self) -> None:
        failed = False
        while not self.ended.is_set():
            self.news.wait(PULSE)
            self.news.clear()
            failed = not self._write(quiet=failed)
            self.ended.wait(PAUSE)
        self._write(quiet=failed)

    def _write(self, quiet: bool) -> bool:
        """Replace the file. It may be lost when the machine dies, so nothing waits for the disk."""
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
