"""The loop over rounds, for every method on every device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from motifair.federation.callbacks import Callback
from motifair.federation.cuda_graph import recorded
from motifair.federation.history import History
from motifair.federation.records import Records
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState


class Stopped(Exception):  # noqa: N818 - not an error
    """The run was asked to stop; the callbacks have its state."""


def run_rounds(
    simulation: Simulation,
    state: FederationState,
    histories: Sequence[History],
    *,
    callbacks: Sequence[Sequence[Callback]] = (),
    stop: Callable[[], bool] = lambda: False,
    eval_every: int = 1,
) -> FederationState:
    """Run the remaining rounds and return the state after the last.

    Args:
        simulation: One federation, or a stack of them.
        state: The state to continue from.
        histories: One for each federation, which the rounds are written into.
        callbacks: Those of each federation.
        stop: Called after every round; where it returns True, `Stopped` is raised.
        eval_every: Rounds between evaluations; the last round is always evaluated.
    """
    rounds, done = simulation.config.rounds, state.round
    contribution = simulation.config.contribution and simulation.global_model
    run_round, records = recorded(simulation), Records(simulation, histories)
    while done < rounds:
        evaluate = (done + 1) % eval_every == 0 or done + 1 == rounds
        # 1. Run the round: federation/round.py.
        state, record = run_round(state, measure=evaluate and contribution)
        done += 1
        # 2. Record it, and the accuracies with the rewards adopted.
        records.add(done, record)
        if evaluate:
            _record_accuracy(simulation, state, histories, done)
        # 3. Check what the method returned, and call the callbacks.
        stopping = done < rounds and stop()
        if evaluate or stopping or records.due:
            records.write()
            _call(simulation, state, histories, callbacks, "on_round")
        # 4. Stop where it is asked for.
        if stopping:
            _call(simulation, state, histories, callbacks, "on_stop")
            raise Stopped
    _call(simulation, state, histories, callbacks, "on_end")
    return state


def _record_accuracy(
    simulation: Simulation, state: FederationState, histories: Sequence[History], round: int
) -> None:
    local, constant, server = simulation.evaluate(state)
    for f, history in enumerate(histories):
        history.record(round, {"accuracy": local[f], "one_class": constant[f]})
        history.global_accuracy[round - 1] = server[f]


def _call(
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
