"""Base class of the loggers: which numbers of a round are logged, and how a resumed run continues.

Everything that is logged follows from a run's history. So a logger opens its store, learns how many
rounds are there, and adds the others, whether a run is new, resumed, or was finished long ago.
"""

from __future__ import annotations

import copy
import math
import re
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from motifair.config import Config
from motifair.extras import require
from motifair.federation.callbacks import Callback, Pace
from motifair.federation.history import History
from motifair.federation.state import FederationState
from motifair.files import read_json, write_json

MEMORY = "loggers.json"  # in the out folder of a run: where each logger wrote
FINAL = "final/"  # prefix of the metrics of a finished split

Numbers = dict[str, float]


def warn(sentence: str) -> None:
    """Issue a warning; the default way to report a failure."""
    warnings.warn(sentence, RuntimeWarning, stacklevel=2)


class Logger(Callback):
    """A callback that logs rounds to a store, with a run of its own for each split.

    It takes about 5 % of the time at most. A failure is reported once and training continues; what
    is missing is logged when the store can be reached again.
    """

    kind: ClassVar[str]
    title: ClassVar[str]

    def __init__(self, tell: Callable[[str], None] = warn) -> None:
        require(self.kind, f"Logging to {self.title}")
        self.tell, self.pace = tell, Pace()
        self.failures: list[str] = []  # shared by the loggers of all splits, as the pace is
        self.config: Config | None = None
        self.number = 0
        self.out: Path | None = None
        self.logged: int | None = None  # rounds in the store; None until it is open

    @abstractmethod
    def begin(self) -> int:
        """Open the store, find the run there or make it; return how many rounds it has."""

    @abstractmethod
    def write(self, rounds: Mapping[int, Numbers]) -> None:
        """Add rounds (counted from 1) to the store."""

    @abstractmethod
    def finish(self, rounds: int, metrics: Numbers) -> None:
        """Add the metrics of the finished split, unless it has them."""

    def stop(self) -> None:
        """Mark the run as interrupted."""

    def for_split(self, config: Config, number: int, out: Path | None) -> Self:
        """Return a logger like this one for a split."""
        own = copy.copy(self)
        own.config, own.number, own.out = config, number, out
        with own._guarded():
            own.remember(own.recall())  # for a run that is killed before its first round
        return own

    def on_round(self, state: FederationState, history: History) -> None:
        """Log what is new, where `Pace` allows it."""
        if self.pace.due(state.round):
            started = time.monotonic()
            with self._guarded():
                self._catch_up(history, state.round)
            self.pace.took(time.monotonic() - started)

    def on_stop(self, state: FederationState, history: History) -> None:
        """Log what is new, and that the run was interrupted."""
        with self._guarded():
            self._catch_up(history, state.round)
            self.stop()

    def on_end(self, state: FederationState, history: History) -> None:
        """Log what is new."""
        with self._guarded():
            self._catch_up(history, state.round)

    def on_result(self, history: History, metrics: Mapping[str, float]) -> None:
        """Log what is missing, and the metrics."""
        rounds = len(history.global_accuracy)
        final = _finite({FINAL + name: value for name, value in metrics.items()})
        with self._guarded():
            self._catch_up(history, rounds)
            self.finish(rounds, final)

    def recall(self) -> str | None:
        """Return where an earlier process logged this split."""
        if self.out is None or not (self.out / MEMORY).exists():
            return None
        place: str | None = read_json(self.out / MEMORY).get(self.kind, {}).get(str(self.number))
        return place

    def remember(self, place: str | None) -> None:
        """Save where this split is logged, if known, for a process that resumes the run."""
        if self.out is None:
            return
        path = self.out / MEMORY
        known = read_json(path) if path.exists() else {}
        known.setdefault(self.kind, {})[str(self.number)] = place
        write_json(path, known)

    def settings(self) -> dict[str, Any]:
        """Return every option of the run, and the number of the split."""
        if self.config is None:
            return {}
        return {**self.config.to_json(), "split": self.number}

    def _catch_up(self, history: History, done: int) -> None:
        if self.logged is None:
            self.logged = self.begin()
        missing = {r: numbers(history, r) for r in range(self.logged + 1, done + 1)}
        if missing:
            self.write(missing)
            self.logged = done

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Report the first failure; training must not end because a logger cannot log."""
        try:
            yield
        except Exception as error:
            self.logged = None  # unknown: open the store again next time
            if not self.failures:
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
                self.failures.append(reason)
                self.tell(
                    f"Logging to {self.title} failed ({reason}); the training goes on, and what "
                    "is missing is logged once it works, or when the same run is given again."
                )


def numbers(history: History, round: int) -> Numbers:
    """Return what is logged of a round (counted from 1); what was not measured is left out.

    `kept_share` is relative to the most that any agent received so far: the best agent receives the
    whole aggregate.
    """
    columns, r = history.columns, round - 1
    whole = columns["kept"][:round].max()
    each = {
        "value": columns["value"][r],
        "cumulative_payoff": columns["payoff"][:round].sum(axis=0),
        "compensation": columns["compensation"][r],
        "kept_share": columns["kept"][r] / (whole if whole > 0 else np.nan),
    }
    logged = {
        "loss": float(columns["loss"][r].mean()),
        "accuracy": float(columns["accuracy"][r].mean()),
        "global_accuracy": float(history.global_accuracy[r]),
    }
    for column, values in each.items():
        for label, value in zip(labels(history.names), values, strict=True):
            logged[f"{column}/{label}"] = float(value)
    return _finite(logged)


def labels(names: Sequence[str]) -> list[str]:
    """Return the agents' names in characters that every store allows, still distinct.

    >>> labels(["bank-a", "bank/b", "bank?b"])
    ['bank-a', 'bank_b-1', 'bank_b-2']
    """
    plain = [re.sub(r"[^\w. -]|^[. ]+", "_", name)[:200] or "_" for name in names]
    return [p if plain.count(p) == 1 else f"{p}-{k}" for k, p in enumerate(plain)]


def remembered(out: Path) -> list[str]:
    """Return the kinds of loggers that an interrupted run had."""
    return list(read_json(out / MEMORY)) if (out / MEMORY).exists() else []


def _finite(numbers: Numbers) -> Numbers:
    return {name: value for name, value in numbers.items() if math.isfinite(value)}
