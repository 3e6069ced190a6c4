"""Federations on binary tasks and numbers: reductions to plain training, and planted answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from targets_world import planted_numbers, planted_tasks
from worlds import CPU, simulate, small_config, small_split

import motifair
from motifair.errors import MotifairError
from motifair.evaluation.accuracy import measure, outputs
from motifair.federation.members import prepare
from motifair.graphs.batch import collate
from motifair.graphs.dataset import Dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.split import Split, make_split
from motifair.graphs.task import Task
from motifair.learning.objective import mean_loss

SETS = {"binary": planted_tasks, "regression": planted_numbers}
MANY: dict[str, Any] = {"partition": "iid", "test_fraction": 0.3}
KINDS = pytest.mark.parametrize("kind", SETS)


@KINDS
def test_one_agent_that_is_given_everything_trains_as_plain_pytorch_does(kind: str) -> None:
    """Adam of torch on the whole batch, agent by agent: training alone is no more than that."""
    config = small_config(method="self-train", dropout=0.0, rounds=3, task=kind, **MANY)
    split = small_split(config, SETS[kind]())
    simulation, states, _ = simulate(config, split)
    model, members = simulation.model, simulation.members[0]
    for k in range(config.agents):
        row = states[0].agents.weights[k : k + 1].clone().requires_grad_()
        adam = torch.optim.Adam([row], config.learning_rate, weight_decay=config.weight_decay)
        batch = collate([members.train[k]], CPU, torch.float64)
        for _ in range(config.rounds):
            adam.zero_grad()
            scores = model.classify(row, model.embed(row, batch))
            mean_loss(kind, scores, batch).sum().backward()  # type: ignore[no-untyped-call]
            adam.step()
        trained = states[-1].agents.weights[k]
        torch.testing.assert_close(trained, row[0].detach(), rtol=1e-9, atol=1e-10)


@KINDS
def test_with_one_contributor_fedavg_is_its_training_alone(kind: str) -> None:
    """Two agents with the same graphs and seed: the average is what each of them has."""
    config = small_config(method="fedavg", agents=2, dropout=0.0, **MANY)
    split = small_split(config, SETS[kind]())
    both = split.partition.train[0]
    shares = Split(
        split.graphs,
        type(split.partition)(split.names, split.partition.global_test, (both, both),
                              split.partition.test),
        (),
    )  # fmt: skip
    _, together, _ = simulate(config, shares)
    _, alone, _ = simulate(small_config(method="self-train", agents=2, dropout=0.0, **MANY), shares)
    found, expected = (s[-1].agents.weights[0] for s in (together, alone))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


def test_a_network_for_binary_tasks_begins_at_the_base_rates_of_the_members_labels() -> None:
    """An average of a few small steps would not get there, but by the size of graphs."""
    config = small_config(method="fedavg", **MANY)
    split = small_split(config, planted_tasks(holes=0.3))
    simulation, states, _ = simulate(config, split)
    values, model = split.graphs.values, simulation.members[0].model
    assert values is not None
    labels = values[np.concatenate(split.partition.train)]
    rate = (np.nansum(labels, axis=0) + 1) / ((~np.isnan(labels)).sum(axis=0) + 2)
    np.testing.assert_allclose(model.task.rates, rate)
    earlier = simulation.model.layout.initial(simulation.members[0].seed, torch.float64)
    plain = replace(model.layout, centres={}).initial(simulation.members[0].seed, torch.float64)
    moved = states[0].server.weights - plain
    assert torch.equal(states[0].server.weights, earlier)
    np.testing.assert_allclose(moved[-len(rate) :], np.log(rate / (1 - rate)))
    assert not moved[: -len(rate)].any()


def learnt(graphs: GraphSet, **options: Any) -> Any:
    config = {
        "method": "fedavg", "agents": 3, "rounds": 30, "local_epochs": 3, "hidden": 16,
        "layers": 1, "dropout": 0.0, "learning_rate": 0.02, "eval_every": 30, "weight_decay": 0.0,
        **MANY, **options,
    }  # fmt: skip
    split = small_split(small_config(**config), graphs)
    return simulate(small_config(**config), split, dtype=torch.float32)


def test_planted_numbers_are_learnt_to_a_small_part_of_their_deviation() -> None:
    simulation, _, history = learnt(planted_numbers(120))
    assert (history.columns["accuracy"][-1] > -0.35).all()  # 1 is what the mean would give
    task = simulation.model.task
    assert min(task.mean) > 1000


def test_planted_tasks_with_half_of_their_labels_are_learnt() -> None:
    _, _, history = learnt(planted_tasks(240, holes=0.5))
    assert (history.columns["accuracy"][-1] > 0.85).all()  # ROC-AUC; 0.5 is chance
    assert not history.columns["one_class"][-1].any()


@KINDS
def test_every_hook_of_the_default_method_has_finite_answers(kind: str) -> None:
    config = small_config(profile="default", method="motifair", rounds=2, **MANY)
    _, states, history = simulate(config, small_split(config, SETS[kind](holes=0.3)))
    for column in ("value", "payoff", "accuracy", "alignment"):
        assert np.isfinite(history.columns[column]).all(), column
    own = states[-1].agents.own
    assert own is not None


@pytest.mark.parametrize("perturbation", ["label-noise", "inverted", "free-riders", "duplicates"])
@KINDS
def test_damage_to_labels_leaves_holes_and_test_graphs_as_they_are(
    kind: str, perturbation: str
) -> None:
    graphs = SETS[kind](holes=0.3)
    options = {"agents": 4, "test_fraction": 0.2, "skew": 1.0, "partition": "iid", "seed": 0}
    split = make_split(Dataset(graphs), perturbation=perturbation, **options)  # type: ignore[arg-type]
    before, after = graphs.values, split.graphs.values
    assert before is not None
    assert after is not None
    assert np.array_equal(np.isnan(before), np.isnan(after))
    held = np.concatenate([split.partition.global_test, *split.partition.test])
    np.testing.assert_array_equal(before[held], after[held])
    if perturbation == "inverted":
        (bad,) = (k for k, d in enumerate(split.damage) if d.flipped)
        own = split.partition.train[bad]
        if kind == "binary":
            np.testing.assert_array_equal(after[own], 1 - before[own])
        else:
            np.testing.assert_allclose(np.nanmean(after[own], 0), np.nanmean(before[own], 0))
            np.testing.assert_allclose(np.nanstd(after[own], 0), np.nanstd(before[own], 0))


@KINDS
def test_contributions_are_relative_to_the_size_of_the_score(kind: str) -> None:
    config = small_config(method="fedavg", contribution=True, rounds=1, eval_every=1, **MANY)
    simulation, states, _ = simulate(config, small_split(config, SETS[kind]()))
    done = simulation.play(states[0])
    found = simulation.contributions(states[0], done.state, done.uploads)["contribution"]
    assert torch.isfinite(found).all()
    update = done.uploads.update.double()
    graphs = torch.tensor(simulation.members[0].graphs).double()
    start = states[0].server.weights.double()

    def reached(own: list[int]) -> float:
        moved = start + (graphs[own, None] * update[own]).sum(0) / graphs[own].sum()
        return measure(simulation.model, moved[None], simulation.global_test).item()

    everyone = list(range(config.agents))
    for k in everyone:
        left = reached([a for a in everyone if a != k])
        expected = (reached(everyone) - left) / abs(left)
        assert found[k].item() == pytest.approx(expected, abs=1e-9)


def test_cffl_judges_updates_by_accuracy_whatever_agents_are_judged_by() -> None:
    config = small_config(method="cffl-lyu", metric="pr-auc", **MANY)
    split = small_split(config, planted_tasks(200, holes=0.1))
    _, _, history = simulate(config, split)
    _, _, other = simulate(small_config(method="cffl-lyu", metric="accuracy", **MANY), split)
    assert np.array_equal(history.columns["value"], other.columns["value"])
    assert np.isfinite(history.columns["value"]).all()
    assert not np.array_equal(history.columns["accuracy"], other.columns["accuracy"])


def test_numbers_are_scaled_by_training_labels_alone() -> None:
    config, graphs = small_config(), planted_numbers(holes=0.3)
    split = small_split(config, graphs)
    members = prepare(config, split, seed=0)
    assert graphs.values is not None
    train = graphs.values[np.concatenate(members.numbers)]
    np.testing.assert_allclose(members.model.task.mean, np.nanmean(train, axis=0))
    np.testing.assert_allclose(members.model.task.scale, np.nanstd(train, axis=0))
    rows = members.model.layout.initial(0, torch.float64)[None]
    shards = [members.test[0]]
    assert outputs(members.model, rows, collate(shards, CPU, torch.float64)).shape[2] == 2


def test_an_agent_without_a_label_is_named_before_anything_is_written(tmp_path: Any) -> None:
    import networkx as nx

    def ring(y: Any) -> nx.Graph:
        graph = nx.cycle_graph(4)
        graph.graph["y"] = y
        return graph

    labelled = [ring([k % 2, (k // 2) % 2]) for k in range(20)]
    parties = {"lab": labelled, "silent": [ring([float("nan")] * 2) for _ in range(20)]}
    with pytest.raises(MotifairError, match=r"Agent 'silent' trains on .* graphs without a label"):
        motifair.run(parties, rounds=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"metric": "rmse"}, "metric=rmse is not for task=classes"),
        ({"task": "regression", "method": "cffl-lyu"}, "cffl-lyu shares reputation out by acc"),
        ({"task": "sums"}, "task takes auto or classes or binary or regression"),
    ],
)
def test_options_that_do_not_fit_the_task_are_refused(options: Any, sentence: str) -> None:
    with pytest.raises(MotifairError, match=sentence):
        motifair.run("planted", agents=3, rounds=1, **options)


def test_the_weight_of_prototypes_is_that_of_even_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rare answers leave the supervised loss little to say: prototypes say less in proportion."""
    even = planted_tasks(holes=0.0).values
    assert even is not None
    rare = planted_tasks().with_values(even[:, :2] * even[:, 2:], ("ones", "twos"))
    config = small_config(rounds=3, task="binary", prototype_weight=0.5, **MANY)
    simulation, states, _ = simulate(config, small_split(config, rare))
    bits = simulation.model.task.bits
    assert bits < 0.95
    monkeypatch.setattr(Task, "bits", 1.0)
    less = small_config(rounds=3, task="binary", prototype_weight=0.5 * bits, **MANY)
    _, expected, _ = simulate(less, small_split(less, rare))
    _, others, _ = simulate(config, small_split(config, rare))
    trained = [s[-1].agents.weights for s in (states, expected, others)]
    torch.testing.assert_close(trained[0], trained[1], rtol=1e-9, atol=1e-10)
    assert (trained[0] - trained[2]).abs().max() > 1e-6
