"""Progress of a run: a bar in a terminal, plain lines elsewhere; and how it is stopped."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from motifair.experiments.jobs import ALONE
from motifair.experiments.plan import Plan
from motifair.federation.callbacks import Callback
from motifair.federation.history import History
from motifair.federation.state import FederationState

SECONDS_BETWEEN_LINES = 10.0
WORDS = {"alone": "alone", "alone-again": "alone again"}


class RunProgress:
    """Shows rounds over all parts of a run, the accuracy so far and the time left."""

    def __init__(self, plans: Sequence[Plan], console: Console, *, transient: bool = False) -> None:
        self.plan, self.console = plans[0], console
        parts = len(ALONE) + len(plans)  # trainings alone serve all methods
        self.total = self.plan.config.rounds * self.plan.config.splits * parts
        self.counted: set[str] = set()
        self.done = 0
        self.started = self.said = time.monotonic()
        self.skipped = 0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=transient,
        )
        self.task = self.bar.add_task("starting", total=self.total, note="")

    def __enter__(self) -> RunProgress:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def part(self, split: int, name: str) -> Callback:
        """Return a callback for a part that starts."""
        self.counted.add(_words(self.plan, split, name))
        return _Part(self, split, name)

    def skip(self, split: int, name: str) -> None:
        """Count a part that was finished earlier, unless it was counted already."""
        words = _words(self.plan, split, name)
        if words not in self.counted:
            self.counted.add(words)
            self.skipped += self.plan.config.rounds
            self.show(self.plan.config.rounds, words, "done earlier")

    def stacked(self, jobs: int) -> None:
        """Say that so many trainings go side by side."""
        self.console.print(f"{jobs} trainings side by side on the GPU", highlight=False)

    def method(self, plan: Plan) -> RunProgress:
        """Hear that another method of a comparison begins."""
        self.plan = plan
        return self

    def show(self, rounds: int, description: str, note: str) -> None:
        """Move on by some rounds."""
        self.done += rounds
        self.bar.update(self.task, advance=rounds, description=description, note=note)
        now = time.monotonic()
        last = self.done >= self.total
        if not self.console.is_terminal and (now - self.said >= SECONDS_BETWEEN_LINES or last):
            self.said = now
            fresh = self.done - self.skipped
            left = (now - self.started) / max(fresh, 1) * (self.total - self.done)
            self.console.print(
                f"{description}: {self.done} of {self.total} rounds, {note}, {left:.0f} s left",
                highlight=False,
            )


class _Part(Callback):
    def __init__(self, progress: RunProgress, split: int, name: str) -> None:
        self.progress, self.words = progress, _words(progress.plan, split, name)
        self.round = 0

    def on_round(self, state: FederationState, history: History) -> None:
        evaluated = history.columns["accuracy"][: state.round].mean(axis=1)
        known = evaluated[evaluated == evaluated]
        note = f"accuracy {known[-1]:.3f}" if len(known) else "training"
        self.progress.show(state.round - self.round, self.words, note)
        self.round = state.round


def _words(plan: Plan, split: int, name: str) -> str:
    what = plan.config.method if name == "method" else WORDS[name]
    return f"split {split + 1}/{plan.config.splits}, {what}"


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
