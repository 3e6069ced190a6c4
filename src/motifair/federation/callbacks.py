"""Hooks into the round loop: progress, checkpoints, trackers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motifair.config import Config
from motifair.federation.history import History
from motifair.federation.state import FederationState, save_state


class Callback:
    """Does nothing; a subclass overrides what it wants to hear."""

    def for_split(self, config: Config, number: int, out: Path | None) -> Callback:
        """Return who hears of split `number` of a run that is kept in `out`: the same for all."""
        return self

    def on_round(self, state: FederationState, history: History) -> None:
        """Hear that a round is done and recorded."""

    def on_stop(self, state: FederationState, history: History) -> None:
        """Hear that the run stops early, after this round."""

    def on_end(self, state: FederationState, history: History) -> None:
        """Hear that the last round is done."""

    def on_result(self, history: History, metrics: Mapping[str, float]) -> None:
        """Hear what a split came to, whether it was run now or earlier."""


class Pace:
    """Says when to save, so that saving takes 5 % of the time.

    Checkpoints of federations that go side by side share one: they save in the same rounds, and
    after a crash can go on side by side.
    """

    SHARE = 0.05

    def __init__(self) -> None:
        self.next, self.spent = time.monotonic(), 0.0
        self.round, self.saving = -1, False

    def due(self, round: int) -> bool:
        """Whether this is a round to save; the first who asks decides for all."""
        if round != self.round:
            self.round, self.saving = round, time.monotonic() >= self.next
            self.spent = 0.0
        return self.saving

    def took(self, seconds: float) -> None:
        """Hear how long a file took."""
        self.spent += seconds
        self.next = time.monotonic() + self.spent / self.SHARE


class Checkpoint(Callback):
    """Saves the state at a `Pace`, and at the end what is worth keeping."""

    def __init__(self, path: Path, about: Mapping[str, Any], pace: Pace | None = None) -> None:
        self.path, self.about, self.pace = path, about, pace or Pace()

    def on_round(self, state: FederationState, history: History) -> None:
        """Save if it is time."""
        if self.pace.due(state.round):
            started = time.monotonic()
            self.on_stop(state, history)
            self.pace.took(time.monotonic() - started)

    def on_stop(self, state: FederationState, history: History) -> None:
        """Save all that is needed to go on."""
        save_state(self.path, state, history, self.about, final=False)

    def on_end(self, state: FederationState, history: History) -> None:
        """Save what is worth keeping."""
        save_state(self.path, state, history, self.about, final=True)
