"""Hooks into the round loop: progress, checkpoints, trackers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motifair.federation.history import History
from motifair.federation.state import FederationState, save_state


class Callback:
    """Does nothing; a subclass overrides what it wants to hear."""

    def on_round(self, state: FederationState, history: History) -> None:
        """Hear that a round is done and recorded."""

    def on_stop(self, state: FederationState, history: History) -> None:
        """Hear that the run stops early, after this round."""

    def on_end(self, state: FederationState, history: History) -> None:
        """Hear that the last round is done."""


class Checkpoint(Callback):
    """Saves the state as often as costs 5 % of the time, and at the end what is worth keeping.

    Where `among` federations go side by side each has its part of those 5 %.
    """

    SHARE = 0.05

    def __init__(self, path: Path, about: Mapping[str, Any], *, among: int = 1) -> None:
        self.path, self.about, self.among = path, about, among
        self.next = time.monotonic()

    def on_round(self, state: FederationState, history: History) -> None:
        """Save if it is time."""
        if time.monotonic() >= self.next:
            self.on_stop(state, history)

    def on_stop(self, state: FederationState, history: History) -> None:
        """Save all that is needed to go on."""
        started = time.monotonic()
        save_state(self.path, state, history, self.about, final=False)
        now = time.monotonic()
        self.next = now + (now - started) * self.among / self.SHARE

    def on_end(self, state: FederationState, history: History) -> None:
        """Save what is worth keeping."""
        save_state(self.path, state, history, self.about, final=True)
