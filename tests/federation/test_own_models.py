"""Models that agents train alone beside: as if there were no federation, and never sent."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deployed import NAMES, World, away, terms_of
from worlds import CPU, simulate, small_config, small_split

from motifair.consortium.wire import Download, unseal
from motifair.evaluation.own_weight import held_back
from motifair.federation import cuda_graph
from motifair.federation.agents import AgentsState, own_seed
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.federation.state import (
    FederationState,
    agent_tensors,
    load_state,
    read_agents,
    save_state,
)
from motifair.learning.randomness import stream_keys

ME = "bank-d"
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "mini-batches": {"batch_size": 7, "local_epochs": 2},
    "conv only": {"share": "conv", "own_weight": 0.9},
    "no dropout": {"dropout": 0.0, "hidden": 32},
    "averaging": {"method": "fedavg-own", "batch_size": 5},
    "judged after three rounds": {"trial_rounds": 3},
    "judged at the end": {"trial_rounds": 100},
}


def own_of(state: FederationState) -> AgentsState:
    assert state.agents.own is not None
    return state.agents.own


def assert_same(ours: AgentsState, theirs: AgentsState) -> None:
    """Weights and moments, to the last bit."""
    found, wanted = agent_tensors(ours), agent_tensors(theirs)
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name


# In a simulation


@pytest.mark.parametrize("case", CASES)
def test_own_models_are_those_of_agents_that_train_alone(case: str) -> None:
    config = small_config(rounds=4, own_prior=math.inf, **CASES[case])
    split = small_split(config)
    simulation, ours, _ = simulate(config, split, dtype=torch.float32)
    ahead = simulation.method.trial_rounds  # rounds that are trained before the first
    elsewhere = ("method", "share", "own_weight", "trial_rounds")
    training = {k: v for k, v in CASES[case].items() if k not in elsewhere}
    alone = small_config(rounds=4, method="self-train", **training)
    _, theirs, _ = simulate(alone, split, dtype=torch.float32, seed=own_seed(5))
    for t, state in enumerate(ours):
        assert_same(own_of(state), theirs[max(t, ahead)].agents)
    assert not torch.equal(ours[-1].agents.weights, own_of(ours[-1]).weights)


def test_own_models_do_not_see_the_graphs_that_their_weight_is_chosen_on() -> None:
    config = small_config(rounds=3)
    split = small_split(config)
    simulation, ours, _ = simulate(config, split, dtype=torch.float32)
    keys = stream_keys(own_seed(5), split.names, CPU)
    members = simulation.members[0]
    parts = [held_back(key, len(s)) for key, s in zip(keys, members.train, strict=True)]
    counts = [(len(held), len(s) // 5) for (held, _), s in zip(parts, members.train, strict=True)]
    assert all(a == b for a, b in counts)
    assert max(counts)[0] > 1
    alone = small_config(rounds=3, method="self-train")
    each = zip(members.train, parts, strict=True)
    left = tuple(s.select(rest.numpy()) for s, (_, rest) in each)
    fewer = replace(prepare(alone, split, seed=own_seed(5)), train=left)
    theirs = Simulation(alone, fewer, device=CPU)
    state = theirs.start()
    for _ in range(3):
        state, _ = theirs.round(state)
    assert_same(own_of(ours[-1]), state.agents)


def test_rounds_to_be_recorded_train_own_models_when_rounds_do() -> None:
    """On a GPU a round is another program once own models are trained in it."""
    config = small_config(rounds=5, trial_rounds=2)
    simulation, expected, _ = simulate(config, small_split(config))
    take, state = cuda_graph.Rounds(simulation), expected[0]
    for wanted in expected[1:]:
        state, _ = take(state)
        assert_same(state.agents, wanted.agents)


def test_peers_judge_own_models() -> None:
    config = small_config(rounds=2)
    simulation, states, _ = simulate(config, small_split(config))
    own = own_of(states[0])
    said = simulation.judgement(own)
    assert said is not None
    assert torch.equal(simulation.server.worth(said), states[0].server.worth)
    other = simulation.judgement(replace(own, weights=own.weights.flip(0)))
    assert other is not None
    assert not torch.equal(simulation.server.worth(other), states[0].server.worth)


@pytest.mark.parametrize("prior", [2.0, 1e9])
def test_where_graphs_say_nothing_the_weight_of_an_own_model_is_the_usual_one(prior: float) -> None:
    config = small_config(rounds=1, own_prior=prior, own_weight=0.3)
    simulation, states, _ = simulate(config, small_split(config))
    agents = states[-1].agents
    twice = replace(agents, own=replace(own_of(states[-1]), weights=agents.weights))
    assert np.allclose(simulation.agents.own_weights(twice), 0.3, atol=1e-6)


def test_own_models_share_no_random_bit_with_the_federation_or_a_training_alone() -> None:
    """Else fairness and gain would be measured against the very model that is mixed in."""
    config = small_config(rounds=1, own_weight=1 - 1e-12)
    simulation, states, _ = simulate(config, small_split(config))
    assert simulation.agents.alone is not None
    _, alone, _ = simulate(small_config(rounds=1, method="self-train"), small_split(config))
    for begun in (states[0].agents.weights, alone[0].agents.weights):
        assert (own_of(states[0]).weights != begun).float().mean() > 0.5  # biases begin at 0
    assert not set(simulation.agents.alone.keys.tolist()) & set(simulation.agents.keys.tolist())


def test_workers_train_own_models_to_the_same_bits() -> None:
    config = small_config(rounds=2, batch_size=7)
    split = small_split(config)
    _, one, first = simulate(config, split, dtype=torch.float32)
    simulation, two, second = simulate(config, split, dtype=torch.float32, threads=2)
    try:
        assert_same(one[-1].agents, two[-1].agents)
        assert np.array_equal(first.columns["accuracy"], second.columns["accuracy"])
        assert simulation.agents.alone is not None
        assert simulation.agents.alone.parallel.workers is not None
    finally:
        simulation.close()
    assert simulation.agents.alone.parallel.workers is None


@pytest.mark.parametrize("judged", [0, 1])
def test_without_a_share_nobody_keeps_a_model_of_its_own(judged: int) -> None:
    config = small_config(rounds=2, own_weight=0.0, trial_rounds=judged)
    simulation, states, _ = simulate(config, small_split(config))
    assert (simulation.agents.alone is None) == (judged == 0)
    assert all(state.agents.own is None for state in states)


@pytest.mark.parametrize("method", ["fedavg", "self-train", "cgsv", "random-rewards"])
def test_methods_that_do_not_know_of_own_models_have_none(method: str) -> None:
    config = small_config(rounds=1, method=method)
    assert config.own_weight > 0
    simulation, states, _ = simulate(config, small_split(config))
    assert simulation.agents.alone is None
    assert states[-1].agents.own is None


@pytest.mark.parametrize("options", [{}, {"share": "conv", "batch_size": 7}], ids=str)
def test_own_models_change_nothing_in_the_federation_but_accuracies(
    options: dict[str, Any],
) -> None:
    with_own = small_config(rounds=4, **options)
    split = small_split(with_own)
    _, ours, history = simulate(with_own, split)
    _, theirs, other = simulate(replace(with_own, own_weight=0.0), split)
    for a, b in zip(ours, theirs, strict=True):
        assert_same(replace(a.agents, own=None), b.agents)
        assert torch.equal(a.server.weights, b.server.weights)
    for column, values in other.columns.items():
        same = np.array_equal(history.columns[column], values, equal_nan=True)
        assert same or column in ("accuracy", "one_class"), column
    assert np.array_equal(history.global_accuracy, other.global_accuracy)


def test_averaging_with_own_models_is_averaging() -> None:
    config = small_config(rounds=4, method="fedavg-own", learning_rate=0.01)
    split = small_split(config)
    _, ours, history = simulate(config, split)
    plain = small_config(rounds=4, method="fedavg", learning_rate=0.01)
    _, theirs, other = simulate(plain, split)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a.agents.weights, b.agents.weights)
        assert torch.equal(a.server.weights, b.server.weights)
    assert np.array_equal(history.global_accuracy, other.global_accuracy)


def test_nearly_all_of_ones_own_predicts_as_training_alone_and_nearly_nothing_as_without() -> None:
    options = {"rounds": 6, "learning_rate": 0.02}
    split = small_split(small_config(test_fraction=0.4, **options))

    def reached(seed: int = 5, **more: Any) -> np.ndarray:
        if "own_weight" in more:
            more["own_prior"] = math.inf
        config = small_config(test_fraction=0.4, **options, **more)
        return simulate(config, split, seed=seed)[2].columns["accuracy"]

    alone = reached(own_seed(5), method="self-train")
    assert np.array_equal(reached(own_weight=1 - 1e-12), alone)
    without = reached(own_weight=0.0)
    assert np.array_equal(reached(own_weight=1e-12), without)
    assert not np.array_equal(reached(own_weight=0.6), without)


# On disk


def test_own_models_survive_a_file_with_their_moments(tmp_path: Path) -> None:
    config = small_config(rounds=2, batch_size=7)
    _, states, history = simulate(config, small_split(config), dtype=torch.float32)
    save_state(tmp_path / "whole", states[-1], history, {}, final=False)
    save_state(tmp_path / "final", states[-1], history, {}, final=True)
    assert_same(load_state(tmp_path / "whole", CPU).agents, states[-1].agents)
    final = load_state(tmp_path / "final", CPU)
    assert torch.equal(own_of(final).weights, own_of(states[-1]).weights)
    assert not own_of(final).moments.first.any()


def test_a_state_without_own_models_is_read_without() -> None:
    config = small_config(rounds=1, own_weight=0.0)
    _, states, _ = simulate(config, small_split(config))
    names = agent_tensors(states[-1].agents)
    assert not any("own" in name for name in names)
    assert read_agents(names).own is None


@pytest.mark.parametrize("at", [1, 3])
def test_a_run_that_goes_on_from_a_file_ends_bit_identical_with_its_own_models(
    at: int, tmp_path: Path
) -> None:
    config = small_config(rounds=5, batch_size=7, alignment_rate=0.3)
    split = small_split(config)
    _, states, history = simulate(config, split, dtype=torch.float32)
    save_state(tmp_path / "state", states[at], history, {}, final=False)
    simulation = Simulation(config, prepare(config, split, seed=5), device=CPU)
    state = load_state(tmp_path / "state", CPU)
    assert torch.equal(state.server.alignment, states[at].server.alignment)
    for _ in range(5 - at):
        state, record = simulation.round(state)
    assert_same(state.agents, states[-1].agents)
    assert torch.equal(state.server.alignment, states[-1].server.alignment)
    assert np.array_equal(record["alignment"].numpy(), history.columns["alignment"][-1])


# In a stack


def test_taking_agents_out_and_putting_them_one_after_another_keeps_their_own_models() -> None:
    config = small_config(rounds=2)
    _, states, _ = simulate(config, small_split(config))
    agents = states[-1].agents
    parts = [agents.rows(slice(a, a + 1)) for a in range(4)]
    assert parts[2].own is not None
    assert torch.equal(parts[2].own.weights[0], own_of(states[-1]).weights[2])
    assert_same(AgentsState.concatenate(parts), agents)


@pytest.mark.parametrize("own_weight", [0.0, 0.4])
def test_a_state_is_copied_and_overwritten_with_all_that_is_in_it(own_weight: float) -> None:
    """As it is for rounds that are recorded on a GPU."""
    config = small_config(rounds=2, own_weight=own_weight)
    _, states, _ = simulate(config, small_split(config))
    copy = cuda_graph._clone(states[0])
    assert_same(copy.agents, states[0].agents)
    cuda_graph._copy(copy, states[2])
    assert_same(copy.agents, states[2].agents)
    assert torch.equal(copy.server.alignment, states[2].server.alignment)
    assert copy.agents.weights.data_ptr() != states[2].agents.weights.data_ptr()
    assert not torch.equal(copy.agents.weights, states[0].agents.weights)


# At a site


@pytest.mark.parametrize("method", ["motifair", "fedavg-own"])
def test_what_a_site_sends_does_not_hang_on_its_own_model(method: str, tmp_path: Path) -> None:
    """Nothing of it leaves the site, but for the accuracy at the end. (The ledgers differ.)"""
    with_own = World(tmp_path / "with", terms_of(rounds=2, method=method, own_weight=0.4))
    without = World(tmp_path / "without", terms_of(rounds=2, method=method, own_weight=0.0))
    for world in (with_own, without):
        assert world.drive()
    for name in NAMES:
        for t in range(3):
            answers = [unseal(world.answers[name, t])[0] for world in (with_own, without)]
            sent = [re.sub(rb'"head\\":\\"\w*', b"", answer, count=1) for answer in answers]
            assert sent[0] == sent[1], (name, t)
        assert with_own.kept(name, 2).state.own is not None
        assert without.kept(name, 2).state.own is None


def test_an_own_model_is_trained_in_the_rounds_its_agent_takes_part_in(tmp_path: Path) -> None:
    present = World(tmp_path / "present", terms_of(rounds=3))
    absent = World(tmp_path / "absent", terms_of(rounds=3), away({ME: {2}}))
    for world in (present, absent):
        world.drive(rounds=3)
    steps = [world.kept(ME, 3).state.own.moments.steps.item() for world in (present, absent)]  # type: ignore[union-attr]
    assert steps[0] * 2 == steps[1] * 3
    for name in NAMES[:-1]:
        ours, theirs = (world.kept(name, 3).state.own for world in (present, absent))
        assert ours is not None
        assert theirs is not None
        assert_same(ours, theirs)


def test_a_model_that_the_server_sends_leaves_the_own_one_alone(tmp_path: Path) -> None:
    world = World(tmp_path, terms_of(rounds=3))
    world.drive(rounds=2)
    site, task = world.site(ME), Download.decode(world.checkpoint().tasks[ME])
    before = world.kept(ME, 2).state
    size = len(task.reward)  # type: ignore[arg-type]
    state = site._adopted(replace(task, weights=np.zeros(size, np.float32), reward=None))
    assert state.own is not None
    assert before.own is not None
    assert not state.weights[:, site.shared].any()
    assert_same(state.own, before.own)


def test_a_site_that_starts_again_goes_on_with_its_own_model(tmp_path: Path) -> None:
    whole, parts = (
        World(tmp_path / "a", terms_of(rounds=3)),
        World(tmp_path / "b", terms_of(rounds=3)),
    )
    whole.drive()
    for _ in range(3):  # every time with new objects on what is on disk
        parts.drive(rounds=1)
    parts.drive()
    for name in NAMES:
        (last, ours), (_, theirs) = (w.site(name).state(w.run) for w in (whole, parts))
        assert last == 4
        assert_same(ours, theirs)
