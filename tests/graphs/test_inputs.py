"""What of the graphs is used and what is ignored, in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

from motifair.errors import MotifairError
from motifair.graphs.convert import from_objects
from motifair.graphs.dataset import Dataset, Source, load_dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.inputs import choose_edges, describe_inputs

RICH = GraphSet.build(
    "rich",
    nodes=[2, 2],
    edges=[[0, 1], [2, 3]],
    target=[0, 1],
    class_values=[-1, 1],
    node_label=[0, 6, 0, 3],
    edge_label=[4, 5],
    attribute=[[0.5, 1.0, 2.0]] * 4,
    ignored=["direction of edges"],
)


@pytest.mark.parametrize(
    ("features", "motifs", "uses", "ignores"),
    [
        ("auto", False, ["node labels (3)", "node attributes (3, standardised)"],
         ["edge labels (2)"]),
        ("label", True, ["node labels (3)", "edge labels (2, in motifs only)"],
         ["node attributes (3; features=label+attributes uses them)"]),
        ("label", False, ["node labels (3)"],
         ["node attributes (3; features=label+attributes uses them)", "edge labels (2)"]),
        ("attributes", True, ["node labels (3, in motifs only)",
                              "node attributes (3, standardised)",
                              "edge labels (2, in motifs only)"], []),
        ("attributes", False, ["node attributes (3, standardised)"],
         ["node labels (3; features=label uses them)", "edge labels (2)"]),
        ("degree", True, ["node degrees", "edge labels (2, in motifs only)"],
         ["node labels (3; features=label uses them)",
          "node attributes (3; features=attributes uses them)"]),
    ],
)  # fmt: skip
def test_all_that_graphs_have_is_used_or_ignored(
    features: str, motifs: bool, uses: list[str], ignores: list[str]
) -> None:
    found = describe_inputs(Dataset(RICH), features, motifs=motifs).to_json()
    assert found["uses"] == [*uses, "2 classes (-1, 1)"]
    assert found["ignores"] == [*ignores, "direction of edges"]
    read = describe_inputs(Dataset(RICH), features, edges=True, motifs=motifs).to_json()
    assert "edge labels (2, by GINE)" in read["uses"]
    assert not any("edge labels" in words for words in read["ignores"])


def test_edges_are_read_where_they_have_labels_that_mean_the_same() -> None:
    data, bare = Dataset(RICH), Dataset(replace(RICH, edge_label=None))
    for edges, found in (("auto", "label"), ("label", "label"), ("ignore", "ignore")):
        assert choose_edges(data, edges) == found
    assert choose_edges(bare, "auto") == "ignore"
    with pytest.raises(MotifairError, match="rich has no edge labels; use edges=auto"):
        choose_edges(bare, "label")
    sources = tuple(Source(name, (0, 1), True, 0, False) for name in ("MUTAG", "AIDS"))
    mixed = replace(data, sources=sources)
    assert choose_edges(mixed, "auto") == "ignore"
    with pytest.raises(MotifairError, match="edge labels of AIDS and MUTAG do not mean the same"):
        choose_edges(mixed, "label")


def test_a_one_hot_x_is_labels_and_nothing_of_it_is_ignored() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = from_objects("mine", [Data(x=torch.eye(2), edge_index=edges, y=y) for y in (0, 1)])
    said = str(describe_inputs(Dataset(graphs), "auto", motifs=True))
    assert said == "Using node labels (2), 2 classes (0, 1)."


def party(labels: bool, weights: bool) -> list[nx.Graph[Any]]:
    graphs: list[nx.Graph[Any]] = []
    for y in (0, 1):
        graph = nx.cycle_graph(3 + y, create_using=nx.Graph)
        graph.graph["y"] = y
        if labels:
            nx.set_edge_attributes(graph, 1, "label")
            nx.set_node_attributes(graph, 1, "label")
        if weights:
            nx.set_edge_attributes(graph, 0.5, "weight")
        graphs.append(graph)
    return graphs


def test_what_joining_agents_drops_is_ignored_and_its_owners_are_named() -> None:
    parties = {"a": party(True, False), "b": party(False, True), "c": party(True, True)}
    data = load_dataset(parties, agents=3, seed=0)
    assert describe_inputs(data, "degree", motifs=True).ignores == (
        "weight of edges",
        "node labels of a, c",
        "edge labels of a, c",
    )


def test_classes_that_were_joined_by_position_are_said_with_their_datasets(data_dir: Path) -> None:
    data = load_dataset("MUTAG,IMDB-MULTI", agents=2, seed=0, data_dir=data_dir)
    said = describe_inputs(data, "degree", motifs=False).uses[-1]
    assert said == "3 classes by position (IMDB-MULTI 1, 2, 3; MUTAG -1, 1)"
