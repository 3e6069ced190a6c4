"""Stop after the current round on Ctrl-C, so that a run can be resumed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

AGAIN = "Give the same command again to continue."


@contextmanager
def stoppable(console: Console, how: str) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether to stop: true after SIGINT or SIGTERM.

    A second signal has its previous effect. If the run stops, print `how` it continues and exit
    with code 130.
    """
    from motifair.federation.loop import Stopped

    received: list[int] = []

    def handle(number: int, frame: object) -> None:
        received.append(number)
        console.print("Stopping after this round ...", highlight=False)
        for s, handler in previous.items():
            signal.signal(s, handler)

    previous = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    for s in previous:
        signal.signal(s, handle)
    try:
        yield lambda: bool(received)
    except Stopped:
        console.print(f"Saved. {how}", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    finally:
        for s, handler in previous.items():
            signal.signal(s, handler)
