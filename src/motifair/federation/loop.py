"""The round loop: the only one, for every method."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from motifair.federation.callbacks import Callback
from motifair.federation.history import History
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState


class Stopped(Exception):  # noqa: N818 - not an error
    """The run was asked to stop; its state was handed to the callbacks."""


def run_rounds(
    simulation: Simulation,
    state: FederationState,
    history: History,
    *,
    callbacks: Sequence[Callback] = (),
    stop: Callable[[], bool] = lambda: False,
    eval_every: int = 1,
) -> FederationState:
    """Run the rounds that are left, recording each; `stop` is asked after every round.

    Accuracy is evaluated after the rewards of a round were adopted: every `eval_every` rounds and
    in the last one.
    """
    rounds = simulation.config.rounds
    contribution = simulation.config.contribution and simulation.method.global_model
    while state.round < rounds:
        evaluate = (state.round + 1) % eval_every == 0 or state.round + 1 == rounds
        before = state
        state, record = simulation.round(state, measure=evaluate and contribution)
        history.record(state.round, record)
        if simulation.method.turning_point(before.server.memory, state.server.memory):
            history.record(state.round, {"snapshot": simulation.evaluate(before)[0]})
        if evaluate:
            local, server = simulation.evaluate(state)
            history.record(state.round, {"accuracy": local})
            history.global_accuracy[state.round - 1] = server
        for callback in callbacks:
            callback.on_round(state, history)
        if state.round < rounds and stop():
            for callback in callbacks:
                callback.on_stop(state, history)
            raise Stopped
    for callback in callbacks:
        callback.on_end(state, history)
    return state
