"""An agent's result is its own: whoever else is there, however the work is arranged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from worlds import CPU, simulate, small_config, small_split

from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.split import Split


def with_agents(split: Split, chosen: list[int]) -> Split:
    """The same split with only some agents, in the given order."""
    p = split.partition
    return replace(
        split,
        partition=replace(
            p,
            names=tuple(p.names[k] for k in chosen),
            train=tuple(p.train[k] for k in chosen),
            test=tuple(p.test[k] for k in chosen),
        ),
    )


@pytest.mark.parametrize("batch_size", [128, 5])
def test_local_training_does_not_change_when_others_leave_or_are_reordered(batch_size: int) -> None:
    config = small_config(method="self-train", batch_size=batch_size, dropout=0.5)
    split = small_split(config)
    _, everyone, _ = simulate(config, split, dtype=torch.float32)
    for chosen in ([2], [3, 0], [1, 2, 3, 0]):
        _, some, _ = simulate(config, with_agents(split, chosen), dtype=torch.float32)
        for place, k in enumerate(chosen):
            ours, theirs = some[-1].agents.weights[place], everyone[-1].agents.weights[k]
            assert torch.equal(ours, theirs)


def test_reordering_agents_reorders_everything_and_changes_nothing() -> None:
    config = small_config(rounds=5)
    split = small_split(config)
    chosen = [2, 0, 3, 1]
    _, states, history = simulate(config, split)
    _, shuffled, reordered = simulate(config, with_agents(split, chosen))
    for column, values in history.columns.items():
        assert np.allclose(values[:, chosen], reordered.columns[column], atol=1e-9, equal_nan=True)
    ours, theirs = states[-1].agents.weights[chosen], shuffled[-1].agents.weights
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-9)


def test_the_number_of_workers_does_not_change_a_bit() -> None:
    config = small_config(rounds=4)
    split = small_split(config)
    _, one, first = simulate(config, split, dtype=torch.float32, threads=1)
    _, two, second = simulate(config, split, dtype=torch.float32, threads=3)
    assert torch.equal(one[-1].agents.weights, two[-1].agents.weights)
    assert torch.equal(one[-1].server.value, two[-1].server.value)
    for column, values in first.columns.items():
        assert np.array_equal(values, second.columns[column], equal_nan=True)


@pytest.mark.parametrize("batch_size", [128, 6])
def test_a_stack_of_agents_agrees_with_one_agent_at_a_time(batch_size: int) -> None:
    config = small_config(rounds=3, batch_size=batch_size, local_epochs=2)
    split = small_split(config)
    _, alone, history = simulate(config, split)
    # Stacks of three and of one agent.
    stacked = Simulation(
        config, prepare(config, split, seed=5), device=CPU, rows=3, dtype=torch.float64
    )
    state = stacked.start()
    for t in range(3):
        state, record = stacked.round(state)
        assert np.abs(record["value"].numpy() - history.columns["value"][t]).max() < 1e-8
    assert torch.allclose(state.agents.weights, alone[-1].agents.weights, rtol=0, atol=1e-8)


def test_a_stack_in_single_precision_stays_within_a_ten_thousandth_of_value() -> None:
    config = small_config(rounds=3)
    split = small_split(config)
    _, _, history = simulate(config, split, dtype=torch.float32)
    stacked = Simulation(config, prepare(config, split, seed=5), device=CPU, rows=4)
    state = stacked.start()
    for t in range(3):
        state, record = stacked.round(state)
        assert np.abs(record["value"].numpy() - history.columns["value"][t]).max() < 1e-4


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    config = small_config(rounds=3)
    split = small_split(config)
    _, first, _ = simulate(config, split, dtype=torch.float32, seed=5)
    _, again, _ = simulate(config, split, dtype=torch.float32, seed=5)
    _, other, _ = simulate(config, split, dtype=torch.float32, seed=6)
    assert torch.equal(first[-1].agents.weights, again[-1].agents.weights)
    assert not torch.allclose(first[-1].agents.weights, other[-1].agents.weights)
