"""A saved state is whole, goes on bit for bit, and is not taken for another run's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from worlds import CPU, simulate, small_config, small_split

from motifair.errors import MotifairError
from motifair.federation.callbacks import Callback, Checkpoint
from motifair.federation.history import History
from motifair.federation.loop import Stopped, run_rounds
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState, load_history, load_state, save_state

ABOUT = {"config": "abc", "part": "method"}


def about(rounds: int) -> dict[str, str]:
    """What a file of a run says of itself, whatever its rounds."""
    return ABOUT


def test_a_run_that_was_stopped_and_loaded_ends_bit_identical(tmp_path: Path) -> None:
    config = small_config(rounds=6, batch_size=7)
    split = small_split(config)
    _, states, whole = simulate(config, split, dtype=torch.float32)
    path = tmp_path / "state.safetensors"
    simulation = Simulation(config, prepare(config, split, seed=5), device=CPU)
    histories = simulation.histories()
    asked = iter([False, False, True])
    with pytest.raises(Stopped):
        run_rounds(
            simulation,
            simulation.start(),
            histories,
            callbacks=[[Checkpoint(path, ABOUT)]],
            stop=lambda: next(asked),
        )
    done, history = load_history(path, about)
    assert done == 3
    fresh = Simulation(config, prepare(config, split, seed=5), device=CPU)
    end = run_rounds(fresh, load_state(path, CPU), [history])
    assert torch.equal(end.agents.weights, states[-1].agents.weights)
    assert torch.equal(end.agents.moments.second, states[-1].agents.moments.second)
    assert torch.equal(end.server.prototypes, states[-1].server.prototypes)
    assert torch.equal(end.server.alignment, states[-1].server.alignment)
    assert end.agents.own is not None
    assert states[-1].agents.own is not None
    assert torch.equal(end.agents.own.weights, states[-1].agents.own.weights)
    assert torch.equal(end.agents.own.moments.second, states[-1].agents.own.moments.second)
    for column, values in whole.columns.items():
        assert np.array_equal(values, history.columns[column], equal_nan=True)


def test_a_final_state_keeps_models_but_not_moments(tmp_path: Path) -> None:
    config = small_config(rounds=1)
    _, states, history = simulate(config, small_split(config), dtype=torch.float32)
    whole, final = tmp_path / "a", tmp_path / "b"
    save_state(whole, states[-1], history, ABOUT, final=False)
    save_state(final, states[-1], history, ABOUT, final=True)
    assert final.stat().st_size < 0.6 * whole.stat().st_size
    assert torch.equal(load_state(final, CPU).agents.weights, states[-1].agents.weights)
    assert load_history(final, about)[0] == 1


def test_a_state_of_another_run_or_a_broken_file_is_refused(tmp_path: Path) -> None:
    config = small_config(rounds=1)
    _, states, history = simulate(config, small_split(config))
    path = tmp_path / "state"
    save_state(path, states[-1], history, ABOUT, final=False)
    with pytest.raises(MotifairError, match="another configuration"):
        load_history(path, lambda _: {**ABOUT, "config": "xyz"})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(MotifairError, match="delete it"):
        load_history(path, about)


def test_a_state_of_an_earlier_format_is_refused(tmp_path: Path) -> None:
    config = small_config(rounds=1)
    _, states, history = simulate(config, small_split(config))
    path = tmp_path / "state"
    save_state(path, states[-1], history, ABOUT, final=False)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    assert metadata["format"] == "motifair-state-4"
    del metadata["sha256"]
    save_file(load_file(path), path, {**metadata, "format": "motifair-state-3"})
    assert load_history(path, about)[0] == 1
    save_file(load_file(path), path, {**metadata, "format": "motifair-state-2"})
    with pytest.raises(MotifairError, match="another version of motifair"):
        load_history(path, about)


def test_callbacks_hear_every_round_the_stop_and_the_end() -> None:
    heard: list[str] = []

    class Listener(Callback):
        def on_round(self, state: FederationState, history: History) -> None:
            heard.append(f"round {state.round}")

        def on_stop(self, state: FederationState, history: History) -> None:
            heard.append("stop")

        def on_end(self, state: FederationState, history: History) -> None:
            heard.append("end")

    config = small_config(rounds=2, method="self-train")
    simulation = Simulation(config, prepare(config, small_split(config), seed=0), device=CPU)
    listeners = [Callback(), Listener()]
    run_rounds(simulation, simulation.start(), simulation.histories(), callbacks=[listeners])
    assert heard == ["round 1", "round 2", "end"]
    heard.clear()
    with pytest.raises(Stopped):
        run_rounds(
            simulation,
            simulation.start(),
            simulation.histories(),
            callbacks=[listeners],
            stop=lambda: True,
        )
    assert heard == ["round 1", "stop"]


def test_accuracy_is_evaluated_when_asked_and_at_the_end() -> None:
    config = small_config(rounds=5, method="fedavg")
    simulation = Simulation(config, prepare(config, small_split(config), seed=0), device=CPU)
    histories = simulation.histories()
    run_rounds(simulation, simulation.start(), histories, eval_every=2)
    (history,) = histories
    evaluated = np.isfinite(history.global_accuracy)
    assert evaluated.tolist() == [False, True, False, True, True]
    assert "5 rounds" in repr(history)
    assert len(history.to_frame()) == 5 * 4
