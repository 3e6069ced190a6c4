"""Datasets with inputs and classes of their own: reductions, what is shared, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from own_modules import PlainGIN
from targets_world import planted_numbers, planted_tasks
from worlds import CPU, simulate, small_config, small_graphs

import motifair
from motifair.config import Config
from motifair.errors import MotifairError
from motifair.evaluation.accuracy import outputs
from motifair.experiments.plan import read_plan
from motifair.experiments.run import execute
from motifair.export import load_model, predict
from motifair.export.runs import export_run
from motifair.federation.history import COLUMNS
from motifair.federation.members import Members, prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.batch import collate
from motifair.graphs.dataset import Dataset, _apart, load_dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.read import from_unclassed
from motifair.graphs.split import Split, make_split

QUICK: dict[str, Any] = {
    "rounds": 2, "hidden": 8, "device": "cpu", "threads": 1, "test_fraction": 0.2,
}  # fmt: skip


def ring(size: int, y: Any, labels: int = 0, tails: int = 0) -> nx.Graph:
    """A ring with tails, whose nodes have that many labels in turn, or none."""
    graph = nx.cycle_graph(size)
    graph.add_edges_from((k, size + k) for k in range(tails))
    graph.graph["y"] = y
    if labels:
        nx.set_node_attributes(graph, {v: v % labels for v in graph}, "label")
    return graph


def fields() -> dict[str, list[nx.Graph]]:
    """Three fields: other labels or none, classes 0 and 1, 5 to 7, and again 0 and 1."""
    return {
        "acids": [ring(3 + k % 4, k % 2, labels=2) for k in range(40)],
        "banks": [ring(4 + k % 5, 5 + k % 3, tails=k % 3) for k in range(45)],
        "cells": [ring(3 + k % 6, k % 2, labels=5, tails=1) for k in range(30)],
    }


def split_of(data: Dataset, config: Config, seed: int = 0) -> Split:
    return make_split(
        data,
        partition=config.partition,
        agents=config.agents,
        test_fraction=config.test_fraction,
        skew=config.skew,
        perturbation="none",
        seed=seed,
    )


def three_fields(seed: int = 0, **options: Any) -> tuple[Config, Split]:
    given = {"agents": 3, "partition": "domains", "share": "conv", **options}
    config = small_config(test_fraction=0.3, **given)
    data = load_dataset(fields(), agents=3, seed=0, spaces="own")
    return config, split_of(data, config, seed)


def same_kind(kind: str) -> dict[str, GraphSet]:
    """Two datasets with other numbers of targets of one kind."""
    make = {"binary": planted_tasks, "regression": planted_numbers}[kind]
    graphs = make()
    values, names = graphs.values, graphs.target_names
    assert values is not None
    return {"one": make(seed=4).with_values(values[:, :1], names[:1]), "all": graphs}


def apart(sets: dict[str, GraphSet]) -> Dataset:
    names = sorted(sets)
    return _apart(names, [Dataset(sets[name]) for name in names])


# Reductions


def test_agents_of_one_dataset_are_what_they_were_in_the_default_profile_too() -> None:
    """Every column of the history: values, pay, prototypes' losses, accuracies; and all weights."""
    config = small_config(share="conv", profile="default", agents=3, partition="iid")
    graphs = small_graphs()
    plain = split_of(Dataset(graphs), config)
    named = GraphSet.concatenate("agent", [graphs])  # so that agents, and their seeds, are the same
    only = split_of(_apart(["agent"], [Dataset(named)]), config)
    assert only.names == plain.names
    assert len(only.parts) == 1
    _, before, expected = simulate(config, plain)
    simulation, after, found = simulate(config, only)
    assert torch.equal(before[-1].agents.weights, after[-1].agents.weights)
    for column in COLUMNS:
        np.testing.assert_array_equal(found.columns[column], expected.columns[column])
    assert not simulation.global_model
    assert np.isnan(found.global_accuracy).all()
    assert not np.isnan(expected.global_accuracy[-1])


@pytest.mark.parametrize(
    "options",
    [
        {"method": "fedavg"},
        {"method": "gcfl"},
        {"method": "cgsv"},
        {"method": "fedstar"},
        {"profile": "paper", "prototype_weight": 0.0, "diversity_weight": 0.0},
    ],
    ids=lambda options: options.get("method", "motifair"),
)
def test_datasets_that_are_alike_federate_as_if_they_were_one(options: dict[str, Any]) -> None:
    """With the same labels and classes there is nothing of one's own but what share=conv leaves."""
    parties = {
        name: [ring(3 + (k + shift) % 4, k % 2, labels=3, tails=k % 3) for k in range(30)]
        for shift, name in enumerate(("a", "b", "c"))
    }
    given = {} if options.get("method") in ("gcfl", "fedstar") else {"share": "conv"}
    config = small_config(agents=3, partition="domains", test_fraction=0.3, **given, **options)
    own = split_of(load_dataset(parties, agents=3, seed=0, spaces="own"), config)
    joined = Split(load_dataset(parties, agents=3, seed=0).graphs, own.partition, ())
    _, separate, found = simulate(config, own)
    _, together, expected = simulate(config, joined)
    assert torch.equal(separate[-1].agents.weights, together[-1].agents.weights)
    for column in ("value", "payoff", "accuracy", "loss"):
        np.testing.assert_array_equal(found.columns[column], expected.columns[column])


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_training_alone_is_what_each_dataset_would_do_by_itself(metric: str) -> None:
    """A head with classes that are masked learns and scores as one that has never had them."""
    options: dict[str, Any] = {"method": "self-train", "share": "all", "metric": metric}
    check_alone(*three_fields(**options))


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_so_it_is_for_other_tasks(kind: str) -> None:
    config = small_config(
        agents=2, partition="domains", method="self-train", task=kind, test_fraction=0.3
    )
    check_alone(config, split_of(apart(same_kind(kind)), config))


def check_alone(config: Config, split: Split) -> None:
    simulation, states, history = simulate(config, split)
    members, rows = simulation.members[0], states[-1].agents.weights
    for a, (p, _) in enumerate(split.places):
        alone, trained, expected = simulate(config, split.parts[p])
        layout, row = alone.model.layout, trained[-1].agents.weights[0]
        assert layout.size < rows.shape[1] or p == widest(members)
        torch.testing.assert_close(members.model.layout.fit(rows[a], layout), row)
        score, reached = history.columns["accuracy"][-1, a], expected.columns["accuracy"][-1, 0]
        task = members.parts[p].model.task
        unit = task.scale[0] if len(task.scale) == 1 else 1.0  # alone in the target's own unit
        assert score * unit == pytest.approx(reached, abs=1e-9)


def widest(members: Members) -> int:
    return int(np.argmax([part.model.layout.size for part in members.parts]))


def test_several_federations_in_a_stack_are_what_they_are_one_by_one() -> None:
    config, first = three_fields(profile="default")
    # A degree more in one split would be another width, and another stack.
    members = [prepare(config, first, seed=seed) for seed in (5, 6)]
    stack = Simulation(config, members, device=CPU, dtype=torch.float64)
    state = stack.start()
    for _ in range(2):
        state, _ = stack.round(state)
    for f, seed in enumerate((5, 6)):
        _, states, _ = simulate(config, first, seed=seed)
        alone = states[2].agents.weights
        torch.testing.assert_close(stack.part(state, f).agents.weights, alone)


# What belongs to each alone


@pytest.mark.parametrize("model", ["", "own_modules:PlainGIN"])
def test_an_agent_never_predicts_a_class_of_another_dataset(model: str) -> None:
    config, split = three_fields(weight_decay=0.0, model=model)
    simulation, states, _ = simulate(config, split)
    members, weights = simulation.members[0], states[-1].agents.weights
    assert members.model.task.outputs == 3
    for a, name in enumerate(split.names):
        batch = collate([members.test[a]], CPU, torch.float64)
        probability = outputs(simulation.model, weights[a : a + 1], batch)
        classes = members.own(a).model.task.outputs
        assert classes == (3 if name == "banks" else 2)
        assert (probability[..., classes:] == 0).all()
        torch.testing.assert_close(
            probability.sum(dim=-1), torch.ones(1, len(members.test[a])).double()
        )


def test_weights_that_are_no_agents_stay_as_they_began() -> None:
    config, split = three_fields(weight_decay=0.0)
    simulation, states, _ = simulate(config, split)
    members, shared = simulation.members[0], simulation.agents.shared
    whole = simulation.model.layout
    for a, row in enumerate(states[-1].agents.weights):
        own = members.own(a).model.layout
        assert torch.equal(own.fit(whole.fit(row, own), whole), row)
    start = states[0].agents.weights
    assert (start[0, shared] == start[1, shared]).all()
    assert not torch.equal(start[0], start[1])


def test_motifs_of_two_datasets_are_two_even_if_their_labels_are_written_alike() -> None:
    config, split = three_fields()
    index = prepare(config, split, seed=0).index
    assert index is not None
    holders = {key: set(index.agent[index.motif == m].tolist()) for m, key in enumerate(index.keys)}
    assert all(len(agents) == 1 for agents in holders.values())
    plain = [key.partition(": ")[2] for key in index.keys]
    assert len(set(plain)) < len(plain)


def test_graphs_are_compared_with_those_of_the_same_dataset_alone() -> None:
    """Graphs that another dataset holds, too, count in full; copies within an agent count once."""
    config = small_config(profile="default", agents=4, share="conv", partition="domains")
    some, other = ([ring(n + k, k % 2, tails=k % 3) for k in range(20)] for n in (3, 30))
    held = {"a": some, "b": other, "c": some * 2, "d": other[:12]}
    split = split_of(load_dataset(held, agents=4, seed=0, spaces="own"), config)
    members = prepare(config, split, seed=0)
    distinct = [len(np.unique(s.fingerprints)) for s in members.summaries]
    assert distinct[2] < len(members.train[2])
    np.testing.assert_allclose(members.believed(), distinct)
    assert (members.graph_weights() == 1).all()
    joined = Split(load_dataset(held, agents=4, seed=0).graphs, split.partition, ())
    assert prepare(config, joined, seed=0).believed()[0] < members.believed()[0]


def test_the_order_of_datasets_does_not_matter() -> None:
    held = fields()
    result = motifair.run({name: held[name] for name in reversed(held)}, spaces="own", **QUICK)
    expected = motifair.run(held, spaces="own", **QUICK)
    assert result.to_frame().equals(expected.to_frame())


def test_what_an_agent_has_does_not_depend_on_who_else_is_there() -> None:
    _, three = three_fields()
    held = fields()
    del held["banks"]
    fewer = load_dataset(held, agents=2, seed=0, spaces="own")
    two = split_of(fewer, small_config(agents=2, test_fraction=0.3))
    for name in held:
        mine, yours = (
            next(part.partition for part in split.parts if part.names == (name,))
            for split in (three, two)
        )
        assert mine.train[0].tolist() == yours.train[0].tolist()
        assert mine.test[0].tolist() == yours.test[0].tolist()


# Whole runs


def test_several_agents_of_each_dataset_with_incentives_and_a_report(tmp_path: Path) -> None:
    held = fields()
    del held["cells"]
    options = {**QUICK, "spaces": "own", "agents": 4, "partition": "iid", "rounds": 1}
    result = motifair.run(held, incentives=True, **options)
    assert result.splits[0].names == ("acids-00", "acids-01", "banks-00", "banks-01")
    assert np.isnan(result.mean["global_accuracy"])
    assert not np.isnan(result.mean["pay_slope"])
    assert result.config.share == "conv"
    assert result.environment["layout"]["global_model"] is None
    assert "banks: node degrees, 3 classes (5, 6, 7)" in result.inputs["uses"]
    page = tmp_path / "report.html"
    result.report(page)
    assert "acids: ring 0 1 0" in page.read_text()
    predicted = result.predict(held["banks"][:5], agent="banks-00")
    assert list(predicted) == ["graph", "label", "probability 5", "probability 6", "probability 7"]
    with pytest.raises(MotifairError, match="has no server's model; name one of acids-00"):
        result.predict(held["banks"], agent="server")


@pytest.mark.parametrize("module", [None, PlainGIN], ids=["built-in", "module"])
def test_exported_models_have_the_inputs_and_classes_of_their_own_dataset(
    module: type | None, tmp_path: Path
) -> None:
    held = fields()
    folders = []
    for name, graphs in held.items():
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        for k, graph in enumerate(graphs):
            content = nx.node_link_data(graph, edges="edges")
            (folders[-1] / f"{k:02d}.json").write_text(json.dumps(content))
    joined = ",".join(map(str, folders))
    options = QUICK if module is None else {**QUICK, "model": module}
    result = motifair.run(joined, spaces="own", out=tmp_path / "run", **options)
    assert execute(read_plan(tmp_path / "run"), tmp_path / "run").mean == pytest.approx(
        result.mean, nan_ok=True
    )
    written = export_run(tmp_path / "run", tmp_path / "models")
    assert [folder.name for folder in written] == list(held)
    split = split_of(
        load_dataset(held, agents=3, seed=0, spaces="own"),
        small_config(agents=3, test_fraction=0.2),
    )
    for a, folder in enumerate(written):
        model, name = load_model(folder, module=module), folder.name
        test = split.parts[a].partition.test[0]
        labels = predict(model, from_unclassed([held[name][g] for g in test]))["label"]
        truth = [held[name][g].graph["y"] for g in test]
        assert np.mean(labels == truth) == pytest.approx(model.card["accuracy"])
        assert set(model.schema.classes) == {g.graph["y"] for g in held[name]}
        assert model.features.width < 20


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"agents": 5}, "agents=5 cannot be shared out equally to the 3 datasets"),
        ({"partition": "iid"}, "each has one agent; use agents=6"),
        ({"perturbation": "tiers"}, "each has one agent; use agents=6"),
        ({"scenario": "twins"}, "each has one agent; use agents=6"),
        ({"agents": 6, "partition": "domains"}, "does not share a dataset out to 2 agents"),
        ({"share": "all"}, r"cannot share all parameters between them; use .*share=conv"),
        ({"method": "cffl-lyu"}, "cffl-lyu cannot share all parameters"),
        ({"contribution": True}, "there is none where acids and banks and cells"),
        ({"edges": "label"}, "convolutions that read them cannot be shared; use edges=ignore"),
        ({"features": "label"}, "banks has no node labels; use features=auto"),
        ({"model": "own_modules:GCN"}, "Convolutions of the model own_modules:GCN read the inputs"),
        ({"spaces": "other"}, "spaces takes auto or common or own, not 'other'"),
        ({"spaces": "common"}, "use features=degree, or spaces=own"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(MotifairError, match=sentence):
        motifair.run(fields(), out=tmp_path / "run", **{"spaces": "own", **QUICK, **options})
    assert not (tmp_path / "run").exists()


def test_one_dataset_and_different_tasks_are_refused() -> None:
    held = fields()
    with pytest.raises(MotifairError, match="spaces=own is for several datasets"):
        motifair.run(held["acids"], spaces="own", **QUICK)
    one_class = {"acids": held["acids"], "banks": [ring(4 + k, 5, tails=1) for k in range(20)]}
    with pytest.raises(MotifairError, match="Agent 'banks' trains on 14 graphs of one class"):
        motifair.run(one_class, spaces="own", **QUICK)
    held["dose"] = [ring(3 + k % 6, 0.5 + k % 6) for k in range(40)]
    with pytest.raises(MotifairError, match=r"different tasks .*dose regression.*or set task"):
        motifair.run(held, spaces="own", **QUICK)
