"""Callbacks of the loop over rounds: progress, checkpoints, trackers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motifair.config import Config
from motifair.federation.history import History
from motifair.federation.state import FederationState, save_state


class Callback:
    """Called while a method runs; a subclass overrides the hooks that it needs.

    >>> class PrintLoss(Callback):
    ...     def on_round(self, state, history):
    ...         print(state.round, history.columns["loss"][state.round - 1].mean())
    """

    def for_split(self, config: Config, number: int, out: Path | None) -> Callback:
        """Return the callback for split `number` of a run that is written to `out`; self here."""
        return self

    def on_trial(self) -> None:
        """Called after each round of own models before the first, for their peers to judge."""

    def on_round(self, state: FederationState, history: History) -> None:
        """Called after a round is recorded; on a GPU not after every round."""

    def on_stop(self, state: FederationState, history: History) -> None:
        """Called when the run stops early, after this round."""

    def on_end(self, state: FederationState, history: History) -> None:
        """Called after the last round."""

    def on_result(self, history: History, metrics: Mapping[str, float]) -> None:
        """Called with the metrics of a split, also of one that was finished earlier."""


class Pace:
    """Decides when to save, so that saving takes 5 % of the time.

    Federations in a stack share one: they save in the same rounds, and after a crash can be
    resumed as a stack.
    """

    SHARE = 0.05

    def __init__(self) -> None:
        self.next, self.spent = time.monotonic(), 0.0
        self.round, self.saving = -1, False

    def due(self, round: int) -> bool:
        """Whether to save in this round; decided once, for all federations of the stack."""
        if round != self.round:
            self.round, self.saving = round, time.monotonic() >= self.next
            self.spent = 0.0
        return self.saving

    def took(self, seconds: float) -> None:
        """Add the time that writing a file took."""
        self.spent += seconds
        self.next = time.monotonic() + self.spent / self.SHARE


class Checkpoint(Callback):
    """Saves the state at a `Pace` and at the end, with all that is needed to continue."""

    def __init__(self, path: Path, about: Mapping[str, Any], pace: Pace | None = None) -> None:
        self.path, self.about, self.pace = path, about, pace or Pace()

    def on_round(self, state: FederationState, history: History) -> None:
        """Save if it is time."""
        if self.pace.due(state.round):
            started = time.monotonic()
            self.on_stop(state, history)
            self.pace.took(time.monotonic() - started)

    def on_stop(self, state: FederationState, history: History) -> None:
        """Save."""
        save_state(self.path, state, history, self.about, final=False)

    def on_end(self, state: FederationState, history: History) -> None:
        """Save; a finished run can be extended."""
        self.on_stop(state, history)
