"""Ctrl-C: stop after the current round, so that a run can be resumed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def stop_on_signal(console: Console) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or termination into "stop after this round"; a second one kills."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        asked.append(number)
        console.print("Stopping after this round ...", highlight=False)
        for s in before:
            signal.signal(s, before[s])

    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    for s in before:
        signal.signal(s, ask)
    try:
        yield lambda: bool(asked)
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
