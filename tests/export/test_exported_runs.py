"""The models of a finished run: as accurate as the run says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motifair import run
from motifair.errors import MotifairError
from motifair.experiments.plan import read_plan, split_data
from motifair.export import load_model, predict
from motifair.export.runs import export_run
from motifair.federation.state import load_state
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.read import read_graphs
from motifair.graphs.tu import write_tu

WITH_OWN = ("motifair", "fedavg-own")

QUICK: dict[str, Any] = {
    "rounds": 4, "agents": 4, "hidden": 16, "device": "cpu", "threads": 1, "learning_rate": 0.01,
}  # fmt: skip


def accuracy(folder: Path, run_dir: Path, split: int, chosen: Ints) -> float:
    """What a model reaches on some graphs of a run's split."""
    graphs = split_data(read_plan(run_dir), split).graphs.select(chosen)
    exported = load_model(folder)
    label = predict(exported, graphs)["label"].to_numpy()
    return float((label == np.array(exported.schema.classes)[graphs.target]).mean())


@pytest.mark.parametrize("method", ["motifair", "fedavg-own", "fedsage", "fedstar", "cffl-lyu"])
def test_every_model_is_as_accurate_as_its_card_and_the_run_say(
    method: str, tmp_path: Path
) -> None:
    result = run("planted", out=tmp_path / "run", method=method, splits=2, **QUICK)
    made = export_run(tmp_path / "run", tmp_path / "models")
    assert all(path.is_dir() for path in made)
    for k, split in enumerate(result.splits):
        shares = split_data(read_plan(tmp_path / "run"), k).partition
        reached = split.history.columns["accuracy"][-1]
        for a, name in enumerate(split.names):
            folder = tmp_path / "models" / f"split-00{k}" / "agents" / name
            assert folder in made
            assert (load_model(folder).own is None) == (method not in WITH_OWN)
            card = load_model(folder).card
            assert (card["method"], card["agent"], card["rounds"]) == (method, name, 4)
            assert card["accuracy"] == pytest.approx(reached[a])
            assert accuracy(folder, tmp_path / "run", k, shares.test[a]) == pytest.approx(
                reached[a]
            )
        server = tmp_path / "models" / f"split-00{k}" / "server"
        whole = split.history.global_accuracy[-1]
        assert (server in made) == np.isfinite(whole)
        if server in made:
            assert load_model(server).card["agent"] == "server"
            assert load_model(server).own is None
            found = accuracy(server, tmp_path / "run", k, shares.global_test)
            assert found == pytest.approx(whole) == load_model(server).card["accuracy"]


@pytest.mark.parametrize("prior", [math.inf, 4.0])
def test_an_agents_two_models_are_those_of_the_run(prior: float, tmp_path: Path) -> None:
    options = {**QUICK, "own_weight": 0.7, "own_prior": prior}
    run("planted", out=tmp_path / "run", method="motifair", **options)
    made = export_run(tmp_path / "run", tmp_path / "models")
    path = tmp_path / "run" / "checkpoint" / "split-000-method.safetensors"
    agents = load_state(path, torch.device("cpu")).agents
    assert agents.own is not None
    for a, folder in enumerate(made[:4]):
        found = load_model(folder)
        assert found.own is not None
        assert torch.equal(found.weights, agents.weights[a])
        assert torch.equal(found.own, agents.own.weights[a])
        assert found.own_weight == pytest.approx(0.7) or prior < math.inf
        assert 0 < found.own_weight < 1
    shares = {load_model(folder).own_weight for folder in made[:4]}
    assert (len(shares) > 1) == (prior < math.inf)


def test_training_alone_has_no_server(tmp_path: Path) -> None:
    run("planted", out=tmp_path / "run", method="self-train", **QUICK)
    made = export_run(tmp_path / "run", tmp_path / "models")
    assert [path.name for path in made] == [f"agent-0{a}" for a in range(4)]
    assert len({tuple(load_model(path).weights.tolist()) for path in made}) == 4


def test_classes_are_those_of_the_file(data_dir: Path, tmp_path: Path) -> None:
    where = tmp_path / "run"
    run("MUTAG", out=where, data_dir=data_dir, method="fedavg", **{**QUICK, "rounds": 1})
    made = export_run(where, tmp_path / "models")
    assert {load_model(path).schema.classes for path in made} == {(-1, 1)}


def test_classes_of_agents_own_folders_are_called_as_in_their_files(tmp_path: Path) -> None:
    for agent, classes in {"bank-a": [0, 1], "bank-b": [1, 2], "lab": [0, 2]}.items():
        target = [k % 2 for k in range(20)]
        pairs = [[2 * k, 2 * k + 1] for k in range(20)]
        graphs = GraphSet.build("own", [2] * 20, pairs, target, class_values=classes)
        write_tu(graphs, tmp_path / agent)
    where = tmp_path / "run"
    folders = ",".join(f"{tmp_path / agent}/" for agent in ("bank-a", "bank-b", "lab"))
    options = {k: v for k, v in QUICK.items() if k != "agents"}
    run(folders, out=where, method="fedavg", **options)
    made = export_run(where, tmp_path / "models")
    assert {load_model(path).schema.classes for path in made} == {(0, 1, 2)}
    found = predict(load_model(made[-1]), read_graphs(tmp_path / "lab"))
    assert set(found["label"]) <= {0, 1, 2}


def test_a_run_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    run("planted", out=tmp_path / "run", method="fedavg", **QUICK)
    (tmp_path / "run" / "checkpoint" / "split-000-method.safetensors").unlink()
    with pytest.raises(MotifairError, match=r"Split 0 is at round 0 of 4; finish .* resume"):
        export_run(tmp_path / "run", tmp_path / "models")
    assert not (tmp_path / "models").exists()
    with pytest.raises(MotifairError, match="holds no run"):
        export_run(tmp_path, tmp_path / "models")


def test_the_card_names_dataset_and_seed(tmp_path: Path) -> None:
    run("planted", out=tmp_path / "run", method="fedavg", seed=5, **QUICK)
    made = export_run(tmp_path / "run", tmp_path / "models")
    card = json.loads((made[-1] / "card.json").read_text())
    assert (card["dataset"], card["seed"], card["ledger_head"]) == ("planted", 5, None)


def test_attributes_are_scaled_by_all_training_graphs(data_dir: Path, tmp_path: Path) -> None:
    options = {**QUICK, "rounds": 1, "features": "attributes", "method": "fedavg"}
    run("PROTEINS", out=tmp_path / "run", data_dir=data_dir, **options)
    made = export_run(tmp_path / "run", tmp_path / "models")
    split = split_data(read_plan(tmp_path / "run"), 0)
    graphs = split.graphs.select(np.concatenate(split.partition.train))
    assert graphs.attribute is not None
    features = load_model(made[-1]).features
    assert np.allclose(features.mean, graphs.attribute.mean(axis=0), rtol=1e-12)
    assert np.allclose(features.scale, graphs.attribute.std(axis=0), rtol=1e-12)
