"""A user's own graph objects: PyG `Data` and NetworkX graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from graphs.graph_samples import described, graph_sets, to_networkx
from hypothesis import given
from torch_geometric.data import Data

from motifair.errors import MotifairError
from motifair.graphs.convert import from_objects
from motifair.graphs.features import fit_features
from motifair.graphs.graph_set import GraphSet

WIDTH = 3


def one_hot(labels: list[int]) -> torch.Tensor:
    return torch.eye(WIDTH)[torch.tensor(labels, dtype=torch.long)]


def to_pyg(graphs: GraphSet) -> list[Data]:
    """The same graphs with one-hot labels, every edge in both directions."""
    made = []
    for n, edges, labels, _, y in described(graphs):
        marked = graphs.edge_label is not None
        made.append(
            Data(
                x=one_hot(labels or []),
                edge_index=torch.tensor(list(edges), dtype=torch.long).reshape(-1, 2).T,
                edge_attr=one_hot([e or 0 for e in edges.values()]) if marked else None,
                y=torch.tensor([y]),
                num_nodes=n,
            )
        )
    return made


def pair(**more: Any) -> Data:
    return Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0]), num_nodes=2, **more)


def ring(y: Any = 0, **node: Any) -> nx.Graph:
    graph = nx.cycle_graph(3)
    graph.graph["y"] = y
    nx.set_node_attributes(graph, {n: dict(node) for n in graph})
    return graph


with_edges = graph_sets().filter(lambda graphs: graphs.edges.sum() > 0)


@given(with_edges)
def test_pyg_and_networkx_give_the_same_graphs(graphs: GraphSet) -> None:
    pyg, own = from_objects("mine", to_pyg(graphs)), from_objects("mine", to_networkx(graphs))
    assert pyg.digest() == own.digest()
    assert pyg.classes == own.classes == len(np.unique(graphs.target))
    values = np.unique(graphs.target).tolist()
    assert described(own) == [(*rest, values.index(y)) for *rest, y in described(graphs)]


def test_mutag_as_networkx_graphs_is_mutag(mutag: GraphSet) -> None:
    assert from_objects("mine", to_networkx(mutag)).digest() == mutag.digest()


def test_pyg_inputs_are_labels_where_they_are_one_hot_and_attributes_always() -> None:
    labelled = from_objects("mine", [pair(x=torch.eye(2)), pair(x=torch.eye(2).flip(0))])
    assert labelled.node_label.tolist() == [0, 1, 1, 0]
    assert labelled.attribute.tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]
    for value in (0.5, 0.0, 1.0):
        measured = from_objects("mine", [pair(x=torch.eye(2)), pair(x=torch.full((2, 2), value))])
        assert measured.node_label is None
        assert measured.attribute.tolist() == [[1, 0], [0, 1], [value] * 2, [value] * 2]


def test_pyg_edge_attributes_that_are_not_one_hot_are_no_labels() -> None:
    graphs = from_objects("mine", [pair(edge_attr=torch.tensor([[0.3, 0.7]]))])
    assert graphs.edge_label is None


def test_pyg_graphs_without_inputs_have_neither_labels_nor_attributes() -> None:
    graphs = from_objects("mine", [pair()])
    assert graphs.node_label is None
    assert graphs.attribute is None


def test_networkx_attributes_are_taken_where_every_node_has_them() -> None:
    full = [ring(label=4, x=[1.0, 2.0]), ring(label=5, x=[3.0, 4.0])]
    graphs = from_objects("mine", full)
    assert graphs.node_label.tolist() == [4] * 3 + [5] * 3
    assert graphs.attribute.tolist() == [[1, 2]] * 3 + [[3, 4]] * 3
    del full[1].nodes[2]["label"], full[0].nodes[1]["x"]
    partial = from_objects("mine", full)
    assert partial.node_label is None
    assert partial.attribute is None


def test_networkx_edge_labels_are_taken_where_every_edge_has_them() -> None:
    marked, lonely = ring(), nx.empty_graph(2)
    lonely.graph["y"] = 1
    nx.set_edge_attributes(marked, {(0, 1): 5, (1, 2): 6, (0, 2): 7}, "label")
    assert from_objects("mine", [marked, lonely]).edge_label.tolist() == [5, 7, 5, 6, 7, 6]
    assert from_objects("mine", [marked, ring()]).edge_label is None


def test_networkx_nodes_may_have_any_names() -> None:
    named = nx.relabel_nodes(ring(), {0: "z", 1: ("a", 1), 2: None.__class__})
    assert described(from_objects("m", [named])) == described(from_objects("m", [ring()]))


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_directed_and_repeated_networkx_edges_are_merged(kind: type[nx.Graph]) -> None:
    graph = kind([(0, 1), (1, 0), (1, 0), (1, 2), (2, 2)], y=0)
    assert set(described(from_objects("mine", [graph]))[0][1]) == {(0, 1), (1, 0), (1, 2), (2, 1)}


def test_classes_are_numbered_in_order_whatever_they_are_called() -> None:
    graphs = from_objects("mine", [ring(9), ring(-1), ring(9)])
    assert graphs.target.tolist() == [1, 0, 1]
    assert graphs.classes == 2


def no_class() -> list[Any]:
    return [Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)]


def no_networkx_class() -> list[Any]:
    return [ring(), nx.path_graph(3)]


def no_graph() -> list[Any]:
    return ["a graph"]


def edge_too_far() -> list[Any]:
    return [pair(), Data(edge_index=torch.tensor([[0], [5]]), y=torch.tensor([0]), num_nodes=2)]


def edge_below_zero() -> list[Any]:
    return [Data(edge_index=torch.tensor([[-1], [1]]), y=torch.tensor([0]), num_nodes=2)]


def too_many_inputs() -> list[Any]:
    return [pair(x=torch.eye(3))]


@pytest.mark.parametrize(
    ("objects", "sentence"),
    [
        (list, "mine holds no graph; give at least one"),
        (no_class, "Graph 0 of mine is neither .* give it a class"),
        (no_networkx_class, r"Graph 1 of mine has no class; set graph.graph\['y'\]"),
        (no_graph, "Graph 0 of mine is neither a NetworkX graph .* nor a PyG Data"),
        (edge_too_far, "Graph 1 of mine has 2 nodes, but an edge names node 5; remove the edge"),
        (edge_below_zero, "Graph 0 of mine has 2 nodes, but an edge names node -1; remove"),
        (too_many_inputs, "2 nodes but 3 node labels; give one for each"),
    ],
)
def test_unusable_objects_are_refused_in_a_sentence(
    objects: Callable[[], list[Any]], sentence: str
) -> None:
    with pytest.raises(MotifairError, match=sentence):
        from_objects("mine", objects())


TARGETS = "give each graph one class or number, or the same number of targets"


def measured(y: Any) -> Data:
    return Data(edge_index=torch.tensor([[0, 1], [1, 2]]), y=y, num_nodes=3)


@pytest.mark.parametrize(
    ("graph", "shown"),
    [
        pytest.param(measured(torch.tensor([0, 1, 0])), r"y of shape \(3,\)", id="node-level"),
        pytest.param(measured(torch.tensor([])), r"y of shape \(0,\)", id="empty"),
        pytest.param(measured(torch.zeros(2, 3)), r"y of shape \(2, 3\)", id="two rows"),
        pytest.param(ring([[0, 1], [1, 0]]), r"y of shape \(2, 2\)", id="NetworkX two rows"),
        pytest.param(ring(float("inf")), "y = inf", id="NetworkX infinite"),
        pytest.param(ring("toxic"), "y = 'toxic'", id="NetworkX text"),
    ],
)
def test_a_target_that_cannot_be_one_graphs_is_refused(graph: Any, shown: str) -> None:
    with pytest.raises(MotifairError, match=f"Graph 0 of mine has {shown}; {TARGETS}"):
        from_objects("mine", [graph])


@pytest.mark.parametrize(
    ("graphs", "values"),
    [
        pytest.param(
            [measured(torch.tensor([[0.0, torch.nan]])), measured(torch.tensor([[1.0, 1.0]]))],
            [[0, np.nan], [1, 1]],
            id="tasks",
        ),
        pytest.param([measured(torch.tensor([0.5])), measured(2.0)], [[0.5], [2]], id="regression"),
        pytest.param([ring([1, 0.5]), ring([3, 2])], [[1, 0.5], [3, 2]], id="NetworkX"),
        pytest.param([ring(1), ring(float("nan"))], [[1], [np.nan]], id="a missing label"),
    ],
)
def test_targets_that_are_no_classes_become_a_matrix(graphs: list[Any], values: Any) -> None:
    found = from_objects("mine", graphs)
    assert found.values is not None
    np.testing.assert_array_equal(found.values, values)
    assert len(found.target_names) == len(values[0])


def test_graphs_with_other_numbers_of_targets_are_refused() -> None:
    with pytest.raises(MotifairError, match="Graph 1 of mine has 2 targets, but others have 3"):
        from_objects("mine", [ring([0, 1, 0]), ring([1, 1])])


@pytest.mark.parametrize("y", [torch.tensor([[2]]), torch.tensor(2.0), [2], np.int8(2), 2])
def test_one_whole_number_is_a_class_however_it_is_wrapped(y: Any) -> None:
    assert from_objects("mine", [measured(y)]).class_values == (2,)


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param(lambda: [pair(x=torch.zeros(2, 3, 3))], id="three-dimensional PyG inputs"),
        pytest.param(lambda: [ring(label="C")], id="node labels as text"),
        pytest.param(lambda: [ring(label=0.7)], id="node labels that are not whole"),
        pytest.param(lambda: [ring(label=float("nan"))], id="node labels that are missing"),
        pytest.param(lambda: [ring(y="toxic")], id="a class as text"),
        pytest.param(lambda: [ring(), pair()], id="NetworkX first, then PyG"),
        pytest.param(lambda: [ring(x=[1.0]), ring(x=[1.0, 2.0])], id="ragged NetworkX inputs"),
        pytest.param(
            lambda: [pair(x=torch.zeros(2, 3)), pair(x=torch.zeros(2, 4))], id="ragged PyG inputs"
        ),
        pytest.param(lambda: [pair(edge_attr=torch.eye(3))], id="too many PyG edge labels"),
    ],
)
def test_objects_that_do_not_fit_together_never_end_in_a_traceback(
    objects: Callable[[], list[Any]],
) -> None:
    with pytest.raises(MotifairError):
        from_objects("mine", objects())


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(ring(x=1.5), id="NetworkX"),
        pytest.param(pair(x=torch.tensor([1.5, 1.5])), id="PyG"),
    ],
)
def test_a_bare_number_for_each_node_is_one_attribute_or_refused(graph: Any) -> None:
    with contextlib.suppress(MotifairError):
        assert fit_features(from_objects("mine", [graph]), np.array([0]), "attributes").width == 1


def both_ways(**more: Any) -> Data:
    return Data(edge_index=torch.tensor([[0, 1], [1, 0]]), y=0, num_nodes=2, **more)


@pytest.mark.parametrize(
    ("graphs", "ignored"),
    [
        ([both_ways(x=torch.eye(2), edge_attr=torch.eye(2))], ()),
        ([ring(label=1, x=[0.5])], ()),
        ([nx.DiGraph([(0, 1), (1, 0)], y=0)], ()),
        ([pair()], ("direction of edges",)),
        ([nx.DiGraph([(0, 1)], y=0)], ("direction of edges",)),
        ([nx.MultiGraph([(0, 1), (0, 1), (1, 1)], y=0)], ("repeated edges", "self-loops")),
        ([both_ways(edge_attr=torch.rand(2, 4))], ("edge_attr (read only where it is one-hot)",)),
        ([both_ways(z=torch.ones(2), pos=torch.rand(2, 3)), both_ways(smiles="CO")],
         ("pos", "z", "smiles")),
        ([both_ways(x=torch.rand(2, 3)), both_ways()], ("x (some graphs have none)",)),
        ([nx.Graph([(0, 1, {"weight": 2.0})], y=0, name="a")],
         ("weight of edges", "name of graphs")),
        ([ring(label=1, charge=0), ring()], ("label of nodes (some nodes have none)",
                                             "charge of nodes")),
    ],
)  # fmt: skip
def test_what_is_not_read_is_named(graphs: list[Any], ignored: tuple[str, ...]) -> None:
    found = from_objects("mine", graphs)
    assert found.ignored == ignored
    assert found.with_edges(found.edge_list()[0], None).select([0]).ignored == ignored


def test_a_pyg_class_may_be_a_plain_number() -> None:
    plain = Data(edge_index=torch.tensor([[0], [1]]), y=1, num_nodes=2)
    assert from_objects("mine", [pair(), plain]).target.tolist() == [0, 1]


@pytest.mark.parametrize(
    "edge_index", [torch.tensor([[0.5], [1.0]]), torch.zeros(3, 1).long(), torch.zeros(2).long()]
)
def test_an_edge_index_of_another_form_is_refused(edge_index: torch.Tensor) -> None:
    graph = Data(edge_index=edge_index, y=torch.tensor([0]), num_nodes=2)
    with pytest.raises(MotifairError, match="two rows of whole numbers"):
        from_objects("mine", [pair(), graph])
