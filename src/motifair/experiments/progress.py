"""Progress of runs: a bar in a terminal or a notebook, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from motifair.evaluation.metrics import find_metric
from motifair.experiments.jobs import GIVES, list_parts
from motifair.experiments.jobs import Progress as JobProgress
from motifair.experiments.plan import ALONE, Plan
from motifair.federation.callbacks import Callback
from motifair.federation.history import History
from motifair.federation.state import FederationState
from motifair.methods import make_method

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_UPDATES = 0.2  # of a notebook's cell
WORDS = {"alone": "alone", "alone-again": "alone again"}


@contextmanager
def show_progress(
    plans: Mapping[str, Plan], wanted: bool | None
) -> Iterator[Callable[[Plan], JobProgress | None]]:
    """Show the progress of plans on the standard error; yield a function to call as a plan begins.

    With `wanted=None` it is shown in a notebook and if the standard error is a terminal.
    """
    console = Console(stderr=True)
    if wanted is None:
        wanted = console.is_terminal or console.is_jupyter
    if not wanted:
        yield lambda plan: None
        return
    with RunProgress(plans, console) as shown:
        yield shown.begin


class RunProgress:
    """Show rounds over all parts of runs, the accuracy so far and the time left.

    `plans` has the runs by the names to show. Trainings alone that several runs share are counted
    once.
    """

    def __init__(
        self, plans: Mapping[str, Plan], console: Console, *, transient: bool = False
    ) -> None:
        self.plans, self.console = plans, console
        self.name, self.plan = next(iter(plans.items()))
        rounds = {
            _key(name, plan, split, part): plan.config.rounds + _trial_rounds(plan, part)
            for name, plan in plans.items()
            for split in range(plan.config.splits)
            for part in list_parts(plan.config)
        }
        self.total = sum(rounds.values())
        self.counted: set[tuple[str, int, str]] = set()
        self.done = self.skipped = 0
        self.started = time.monotonic()
        self.display = _display(console, self.total, transient)

    def __enter__(self) -> RunProgress:
        self.display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.display.stop()

    def begin(self, plan: Plan) -> RunProgress:
        """Set the plan that begins; return the progress of its jobs."""
        self.name = next(name for name, other in self.plans.items() if other is plan)
        self.plan = plan
        return self

    def part(self, split: int, name: str) -> Callback:
        """Return a callback for the rounds of a part that starts."""
        self.counted.add(_key(self.name, self.plan, split, name))
        return _Part(self, self._words(split, name), _trial_rounds(self.plan, name))

    def skip(self, split: int, name: str) -> None:
        """Count a part that was finished earlier, unless it was counted already."""
        key = _key(self.name, self.plan, split, name)
        if key not in self.counted:
            self.counted.add(key)
            rounds = self.plan.config.rounds + _trial_rounds(self.plan, name)
            self.skipped += rounds
            self.show(rounds, self._words(split, name), "done earlier")

    def stacked(self, jobs: int) -> None:
        """Print how many trainings run together."""
        self.console.print(f"{jobs} trainings side by side on the GPU", highlight=False)

    def show(self, rounds: int, description: str, note: str) -> None:
        """Advance by `rounds` and update the display."""
        self.done += rounds
        fresh = max(self.done - self.skipped, 1)
        left = (time.monotonic() - self.started) / fresh * (self.total - self.done)
        self.display.update(self.done, description, note, left)

    def _words(self, split: int, part: str) -> str:
        what = WORDS.get(part, self.name)
        if part in GIVES:
            what += f", one agent gives {GIVES[part]:g}"
        return f"split {split + 1}/{self.plan.config.splits}, {what}"


def _key(name: str, plan: Plan, split: int, part: str) -> tuple[str, int, str]:
    """Return a key for a part; trainings alone with the same configuration have the same key."""
    return (plan.about(0, part)["config"] if part in ALONE else name), split, part


def _trial_rounds(plan: Plan, part: str) -> int:
    """Return for how many rounds a part trains agents alone before its first round."""
    return 0 if part in ALONE else make_method(plan.config).trial_rounds


class _Part(Callback):
    def __init__(self, progress: RunProgress, words: str, trial: int) -> None:
        self.progress, self.words = progress, words
        self.round, self.trial = 0, trial

    def on_trial(self) -> None:
        self.trial -= 1
        self.progress.show(1, self.words, "models to be judged")

    def on_round(self, state: FederationState, history: History) -> None:
        evaluated = history.columns["accuracy"][: state.round].mean(axis=1)
        known = evaluated[evaluated == evaluated]
        metric = find_metric(self.progress.plan.config.metric)
        note = f"{metric.words} {metric.sign * known[-1]:.3f}" if len(known) else "training"
        # Where a part continues from a checkpoint, its trial was done earlier.
        self.progress.show(state.round - self.round + self.trial, self.words, note)
        self.round, self.trial = state.round, 0


class _Display(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...

    def update(self, done: int, description: str, note: str, left: float) -> None: ...


def _display(console: Console, total: int, transient: bool) -> _Display:
    if console.is_jupyter:
        return _NotebookBar(total)
    if console.is_terminal:
        return _TerminalBar(console, total, transient)
    return _Lines(console, total)


class _TerminalBar:
    def __init__(self, console: Console, total: int, transient: bool) -> None:
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
            transient=transient,
        )
        self.task = self.bar.add_task("starting", total=total, note="")
        self.start, self.stop = self.bar.start, self.bar.stop

    def update(self, done: int, description: str, note: str, left: float) -> None:
        self.bar.update(self.task, completed=done, description=description, note=note)


class _NotebookBar:
    """Progress bar in a cell's output; rich's needs ipywidgets, this one only IPython."""

    def __init__(self, total: int) -> None:
        self.total, self.updated = total, 0.0
        self.handle: Any = None

    def start(self) -> None:
        from IPython.display import HTML, display

        self.handle = display(HTML(self._html(0, "starting")), display_id=True)

    def stop(self) -> None:
        """Leave the bar as it is."""

    def update(self, done: int, description: str, note: str, left: float) -> None:
        from IPython.display import HTML

        now = time.monotonic()
        if now - self.updated >= SECONDS_BETWEEN_UPDATES or done >= self.total:
            self.updated = now
            words = f"{description}: {done} of {self.total} rounds, {note}, {left:.0f} s left"
            self.handle.update(HTML(self._html(done, words)))

    def _html(self, done: int, words: str) -> str:
        return f'<progress value="{done}" max="{self.total}"></progress> {escape(words)}'


class _Lines:
    def __init__(self, console: Console, total: int) -> None:
        self.console, self.total, self.updated = console, total, time.monotonic()

    def start(self) -> None:
        """Print nothing."""

    def stop(self) -> None:
        """Print nothing."""

    def update(self, done: int, description: str, note: str, left: float) -> None:
        now = time.monotonic()
        if now - self.updated >= SECONDS_BETWEEN_LINES or done >= self.total:
            self.updated = now
            self.console.print(
                f"{description}: {done} of {self.total} rounds, {note}, {left:.0f} s left",
                highlight=False,
            )
