"""The round loop: the only one, for every method, on every device."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from motifair.federation.callbacks import Callback
from motifair.federation.contract import check_round
from motifair.federation.cuda_graph import Rounds
from motifair.federation.history import History
from motifair.federation.server import Record
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState

SECONDS_UNHEARD = 0.5  # how long a device computes before its records are fetched


class Stopped(Exception):  # noqa: N818 - not an error
    """The run was asked to stop; its state was handed to the callbacks."""


def run_rounds(
    simulation: Simulation,
    state: FederationState,
    histories: Sequence[History],
    *,
    callbacks: Sequence[Sequence[Callback]] = (),
    stop: Callable[[], bool] = lambda: False,
    eval_every: int = 1,
) -> FederationState:
    """Run the rounds that are left, recording each; `stop` is asked after every round.

    There is a history for each federation, and callbacks for each. Accuracy is evaluated after the
    rewards of a round were adopted: every `eval_every` rounds and in the last one.
    """
    rounds, done = simulation.config.rounds, state.round
    contribution = simulation.config.contribution and simulation.method.global_model
    take, notes = Rounds(simulation), Notes(simulation, histories)
    while done < rounds:
        evaluate = (done + 1) % eval_every == 0 or done + 1 == rounds
        state, record = take(state, measure=evaluate and contribution)
        done += 1
        notes.add(done, record)
        stopping = done < rounds and stop()
        if evaluate:
            _record_accuracy(simulation, state, histories, done)
        if evaluate or stopping or notes.due:
            notes.write()
            _tell(simulation, state, histories, callbacks, "on_round")
        if stopping:
            _tell(simulation, state, histories, callbacks, "on_stop")
            raise Stopped
    _tell(simulation, state, histories, callbacks, "on_end")
    return state


class Notes:
    """Records of rounds, kept on the device until it is worth waiting for them."""

    def __init__(self, simulation: Simulation, histories: Sequence[History]) -> None:
        self.method, self.histories = simulation.method, histories
        self.kept = simulation.device.type != "cpu"
        self.pending: list[tuple[int, Record]] = []
        self.written = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether somebody should hear how it goes."""
        return not self.kept or time.monotonic() - self.written > SECONDS_UNHEARD

    def add(self, round: int, record: Record) -> None:
        """Take a round down."""
        self.pending.append((round, record))

    def write(self) -> None:
        """Check what is pending, and write it into the histories."""
        for round, record in self.pending:
            values = torch.stack(list(record.values())).cpu().numpy()
            values = values.reshape(len(record), len(self.histories), -1)
            for f, history in enumerate(self.histories):
                row = dict(zip(record, values[:, f], strict=True))
                check_round(self.method, round, history.names, row)
                history.record(round, row)
        self.pending = []
        self.written = time.monotonic()


def _record_accuracy(
    simulation: Simulation, state: FederationState, histories: Sequence[History], round: int
) -> None:
    local, constant, server = simulation.evaluate(state)
    for f, history in enumerate(histories):
        history.record(round, {"accuracy": local[f], "one_class": constant[f]})
        history.global_accuracy[round - 1] = server[f]


def _tell(
    simulation: Simulation,
    state: FederationState,
    histories: Sequence[History],
    callbacks: Sequence[Sequence[Callback]],
    hook: str,
) -> None:
    for f, calls in enumerate(callbacks):
        part = simulation.part(state, f)
        for callback in calls:
            getattr(callback, hook)(part, histories[f])
