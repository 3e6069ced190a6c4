"""Where the mechanism must become something simpler, exactly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from oracles import naive
from worlds import CPU, simulate, small_config, small_graphs, small_split

from motifair.evaluation.accuracy import measure
from motifair.federation.contribution import without_each
from motifair.federation.loop import run_rounds
from motifair.federation.members import prepare
from motifair.federation.protocol import Downloads, Uploads
from motifair.federation.round import serve_round
from motifair.federation.simulation import Simulation

VANILLA = {
    "prototype_weight": 0.0,
    "beta": "inf",
    "aggregation": "size",
    "aggregate_length": "mean",
    "retention": 0.0,
    "reward_step": 1.0,
    "own_weight": 0.0,
}


def test_the_mechanism_without_its_parts_is_federated_averaging() -> None:
    for share in ("all", "conv"):
        mechanism = small_config(rounds=6, share=share, **VANILLA)
        vanilla = small_config(rounds=6, share=share, method="fedavg")
        split = small_split(mechanism)
        _, ours, history = simulate(mechanism, split)
        _, theirs, _ = simulate(vanilla, split)
        assert (history.columns["value"] > 0).all()
        for a, b in zip(ours, theirs, strict=True):
            assert torch.allclose(a.agents.weights, b.agents.weights, rtol=0, atol=1e-10)
            assert torch.allclose(a.server.weights, b.server.weights, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "part",
    [
        {"prototype_weight": 0.1},
        {"beta": 1.0},
        {"aggregation": "value"},
        {"aggregate_length": "typical"},
        {"retention": 0.5},
        {"reward_step": 2.0},
    ],
    ids=str,
)
def test_with_any_part_in_it_the_mechanism_is_something_else(part: dict[str, object]) -> None:
    split = small_split(small_config())
    averaged = simulate(small_config(rounds=6, method="fedavg"), split)[1][-1].agents.weights
    changed = simulate(small_config(rounds=6, **VANILLA | part), split)[1][-1].agents.weights
    assert not torch.allclose(changed, averaged, rtol=0, atol=1e-6)


def test_the_mechanism_with_nothing_but_own_models_is_averaging_with_own_models() -> None:
    own = {"own_weight": 0.6, "trial_rounds": 0}  # not trained ahead, for peers to judge
    config = small_config(rounds=6, **VANILLA | own)
    split = small_split(config)
    _, ours, history = simulate(config, split)
    _, theirs, other = simulate(small_config(rounds=6, method="fedavg-own", own_weight=0.6), split)
    _, _, plain = simulate(small_config(rounds=6, method="fedavg"), split)
    for a, b in zip(ours, theirs, strict=True):
        assert a.agents.own is not None
        assert b.agents.own is not None
        assert torch.allclose(a.agents.weights, b.agents.weights, rtol=0, atol=1e-10)
        assert torch.equal(a.agents.own.weights, b.agents.own.weights)
    assert np.array_equal(history.columns["accuracy"], other.columns["accuracy"])
    assert np.array_equal(plain.columns["loss"], other.columns["loss"])


def test_with_everything_shared_averaging_keeps_agents_and_server_equal() -> None:
    config = small_config(rounds=4, method="fedavg")
    _, states, _ = simulate(config, small_split(config))
    for state in states:
        assert torch.allclose(state.agents.weights, state.server.weights, rtol=0, atol=1e-12)


def test_keeping_ones_own_step_and_receiving_nothing_is_training_alone() -> None:
    # A reward step that is (nearly) nothing, beside full retention.
    config = small_config(rounds=4, retention=1.0, reward_step=1e-300, prototype_weight=0.0)
    split = small_split(config)
    _, ours, _ = simulate(config, split)
    _, alone, _ = simulate(small_config(rounds=4, method="self-train"), split)
    assert torch.allclose(ours[-1].agents.weights, alone[-1].agents.weights, rtol=0, atol=1e-10)


def test_adoption_mixes_own_step_and_reward_and_leaves_the_unrewarded_alone() -> None:
    config = small_config(reward_step=2.0, share="conv")
    simulation = Simulation(
        config, prepare(config, small_split(config), seed=0), device=CPU, dtype=torch.float64
    )
    agents, shared = simulation.agents, simulation.agents.shared
    rows = simulation.initial.expand(len(simulation.members[0].train), -1)
    before = agents.start(rows, None)
    trained, uploads = agents.train(
        before, 1, *simulation.server.for_agents(simulation.start().server)
    )
    reward = torch.randn_like(uploads.update)
    reward[1] = 0.0
    retained = torch.tensor([0.25, 1.0, 0.0, 0.6]).double()
    after = agents.adopt(before, trained, Downloads(reward, retained, None, None)).weights
    expected = before.weights[:, shared] + retained[:, None] * uploads.update + 2.0 * reward
    assert torch.allclose(after[:, shared], expected, rtol=0, atol=1e-12)
    assert torch.equal(after[1], trained.weights[1])
    assert torch.equal(after[:, : shared.start], trained.weights[:, : shared.start])
    assert torch.equal(after[:, shared.stop :], trained.weights[:, shared.stop :])


def test_personal_layers_never_reach_the_server() -> None:
    config = small_config(share="conv")
    simulation, states, _ = simulate(config, small_split(config))
    shared = simulation.agents.shared
    assert len(states[-1].server.weights) == shared.stop - shared.start == 3 * 2 * (16 * 16 + 16)
    personal = torch.cat(
        [states[-1].agents.weights[:, : shared.start], states[-1].agents.weights[:, shared.stop :]],
        dim=1,
    )
    assert not torch.allclose(personal[0], personal[1])


def test_a_contribution_is_what_the_server_model_loses_without_the_agent() -> None:
    config = small_config(method="fedavg", rounds=12, contribution=True, learning_rate=0.005)
    split = small_split(config, small_graphs(200))
    simulation = Simulation(config, prepare(config, split, seed=5), device=CPU, dtype=torch.float64)
    state = simulation.start()
    for _ in range(12):
        before, (state, record) = state, simulation.round(state, measure=True)
    assert np.isclose(record["shapley"].sum(), 1)
    signs = set(record["contribution"].sign().tolist())
    assert signs == {-1.0, 1.0}, "the test shows nothing"
    # By hand: average the trained weights of everyone but one.
    trained, _ = simulation.agents.train(before.agents, 12, None, None)
    sizes = torch.tensor([len(t) for t in split.partition.train]).double()
    everyone = measure(simulation.model, state.server.weights[None], simulation.global_test)
    for k in range(4):
        rest = sizes.clone()
        rest[k] = 0
        mean = (trained.weights * rest[:, None]).sum(dim=0) / rest.sum()
        left = measure(simulation.model, mean[None], simulation.global_test)
        assert record["contribution"][k] == pytest.approx(float((everyone - left) / left))


@pytest.mark.parametrize("harms", [True, False])
def test_who_turns_predictions_round_contributes_what_that_changes(harms: bool) -> None:
    config = small_config(method="fedavg", rounds=6, learning_rate=0.01)
    split = small_split(config, small_graphs(200))
    simulation, states, history = simulate(config, split)
    good = float(history.global_accuracy[-1])
    assert 0.6 < good < 1
    # Agent 2 moves the sum to the negative of the readout, so that right is wrong; others rest.
    layout, row = simulation.model.layout, states[-1].server.weights.clone()
    readout = layout.span("readout")
    row[readout] *= 1 if harms else -1
    sizes = [len(t) for t in split.partition.train]
    nothing = torch.zeros(4, len(row), dtype=torch.float64)
    uploads = Uploads(nothing, None, torch.zeros(4), None, torch.zeros(4))
    uploads.update[2, readout] = -2 * row[readout] * sum(sizes) / sizes[2]
    before = replace(states[-1], server=replace(states[-1].server, weights=row))
    server, _, _ = serve_round(simulation.server, before.server, uploads)
    found = simulation.contributions(before, replace(before, server=server), uploads)
    now, without = (1 - good, good) if harms else (good, 1 - good)
    expected = [0.0, 0.0, (now - without) / without, 0.0]
    assert found["contribution"].tolist() == pytest.approx(expected)
    assert (found["contribution"][2] < 0) == harms


def test_contributions_are_measured_at_evaluations_if_asked_for() -> None:
    config = small_config(rounds=4, contribution=True)
    simulation = Simulation(config, prepare(config, small_split(config), seed=0), device=CPU)
    histories = simulation.histories()
    (history,) = histories
    run_rounds(simulation, simulation.start(), histories, eval_every=2)
    measured = np.isfinite(history.columns["contribution"]).all(axis=1)
    assert measured.tolist() == [False, True, False, True]
    plain = small_config(rounds=2)
    _, _, without = simulate(plain, small_split(plain))
    assert np.isnan(without.columns["contribution"]).all()


@pytest.mark.parametrize("batch_size", [128, 5])
def test_without_an_agent_the_sum_of_the_others_is_as_long_as_a_typical_one_of_theirs(
    batch_size: int,
) -> None:
    config = small_config(rounds=1, contribution=True, batch_size=batch_size, reward_step=2.0)
    split = small_split(config)
    simulation = Simulation(config, prepare(config, split, seed=5), device=CPU, dtype=torch.float64)
    state = simulation.start()
    _, uploads = simulation.agents.train(
        state.agents, torch.tensor(1), *simulation.server.for_agents(state.server)
    )
    without, _ = without_each(simulation.server, state.server, uploads)
    sizes = [len(t) for t in split.partition.train]
    taken = [float(math.ceil(n / batch_size)) for n in sizes]
    short = naive.usual_over_length(list(uploads.update), taken)
    for k in range(4):
        others = [j for j in range(4) if j != k]
        sent, steps = [uploads.update[j] for j in others], [taken[j] for j in others]
        weights = naive.normalised([sizes[j] * min(1.0, short[j]) for j in others])
        mean = naive.weighted_sum(weights, sent)
        moved = naive.stretched(mean, sent, weights, steps)
        assert not torch.allclose(moved, mean, rtol=1e-3, atol=0)
        expected = state.server.weights + 2.0 * moved
        assert torch.allclose(without[k], expected, rtol=0, atol=1e-12)


def test_leaving_an_agent_out_keeps_the_total_weight_of_a_sum() -> None:
    # CFFL adds updates instead of averaging them; every weight is 1.
    config = small_config(method="cffl-lyu", rounds=1, contribution=True)
    simulation = Simulation(
        config, prepare(config, small_split(config), seed=5), device=CPU, dtype=torch.float64
    )
    state = simulation.start()
    _, uploads = simulation.agents.train(state.agents, torch.tensor(1), None, None)
    without, _ = without_each(simulation.server, state.server, uploads)
    sent = simulation.method.prepare(uploads.update)
    expected = state.server.weights + (sent.sum(dim=0) - sent[0]) * 4 / 3
    assert torch.allclose(without[0], expected, rtol=0, atol=1e-12)
