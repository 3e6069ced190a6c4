"""Exported models of binary tasks and numbers predict what the simulation predicted."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

import motifair
from motifair.cli.predict import _json
from motifair.export import load_model, predict
from motifair.export.model import save_model
from motifair.export.of_result import model_of
from motifair.export.pyg import load_module
from motifair.graphs.read import from_unclassed

OPTIONS = {
    "agents": 3, "rounds": 3, "hidden": 8, "layers": 1, "partition": "iid", "test_fraction": 0.3,
    "device": "cpu", "threads": 1, "profile": "default",
}  # fmt: skip


def paths(kind: str, count: int = 60) -> list[nx.Graph]:
    rng, made = np.random.default_rng(0), []
    for _ in range(count):
        graph = nx.path_graph(int(rng.integers(3, 9)))
        for node in graph:
            graph.nodes[node]["label"] = int(rng.integers(2))
        ones = sum(graph.nodes[node]["label"] for node in graph)
        numbers = [100.0 + 7 * ones, 3.0 * len(graph)]
        answers = [float(ones > 2), float(len(graph) > 5)]
        graph.graph["y"] = numbers if kind == "regression" else answers
        made.append(graph)
    return made


def to_pyg(graphs: list[nx.Graph]) -> Batch:
    """The graphs with one-hot labels, as other programs have them."""
    made = []
    for graph in graphs:
        edges = torch.tensor([*graph.edges, *(e[::-1] for e in graph.edges)]).T
        labels = torch.tensor([graph.nodes[n]["label"] for n in graph])
        made.append(Data(x=torch.eye(2)[labels], edge_index=edges))
    return Batch.from_data_list(made)


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_what_is_exported_predicts_as_the_result_does(kind: str, tmp_path: Path) -> None:
    graphs = paths(kind)
    result = motifair.run(graphs, **OPTIONS)
    unlabelled = [nx.Graph(g) for g in graphs]
    for graph in unlabelled:
        del graph.graph["y"]
    found = result.predict(unlabelled, agent="agent-01")
    exported = model_of(result, "agent-01", 0)
    own = None if exported.own is None else (exported.own, exported.own_weight)
    save_model(
        tmp_path / "model", exported.weights, exported.model, exported.features, exported.card, own
    )
    again = load_model(tmp_path / "model")
    assert again.model.task.to_json() == exported.model.task.to_json()
    assert again.card["metric"] == {"binary": "roc-auc", "regression": "rmse"}[kind]
    columns = [c for c in found if c != "graph"]
    np.testing.assert_allclose(predict(again, from_unclassed(graphs))[columns], found[columns])
    module = load_module(tmp_path / "model")
    batch = to_pyg(graphs)
    plain = module(batch.x, batch.edge_index, batch.batch).detach()
    np.testing.assert_allclose(plain, found[columns], rtol=1e-4, atol=1e-4)
    shown = json.loads(_json(found))[0]
    if kind == "binary":
        assert columns == ["probability y0", "probability y1"]
        assert found[columns].to_numpy().min() >= 0
        assert set(shown["probabilities"]) == {"y0", "y1"}
    else:
        assert columns == ["y0", "y1"]
        assert found["y0"].mean() > 90
        assert set(shown["values"]) == {"y0", "y1"}
