"""`GraphSet`: building, selecting, joining and naming the content of many graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from graphs.graph_samples import described, graph_sets
from hypothesis import given
from hypothesis import strategies as st

from motifair.errors import MotifairError
from motifair.graphs.graph_set import GraphSet, ranges


@given(st.data())
def test_building_merges_directions_and_repetitions_and_drops_loops(data: st.DataObject) -> None:
    nodes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    starts = np.cumsum([0, *nodes])
    edges = []
    for first, n in zip(starts, nodes, strict=False):
        ends = st.integers(int(first), int(first) + n - 1)
        edges += data.draw(st.lists(st.tuples(ends, ends), max_size=12))
    edges = data.draw(st.permutations(edges))
    labels = data.draw(st.lists(st.integers(-2, 5), min_size=len(edges), max_size=len(edges)))

    built = GraphSet.build("any", nodes, edges, [0] * len(nodes), edge_label=labels)

    first_label: dict[tuple[int, int], int] = {}
    for (u, v), label in zip(edges, labels, strict=True):
        if u != v:
            kept = first_label.setdefault((min(u, v), max(u, v)), label)
            first_label[max(u, v), min(u, v)] = kept
    source = np.repeat(np.arange(sum(nodes)), built.degree)
    assert list(zip(source, built.neighbour, strict=True)) == sorted(first_label)
    assert built.edge_label is not None
    assert built.edge_label.tolist() == [first_label[e] for e in sorted(first_label)]


def test_sizes_are_those_of_the_graphs() -> None:
    edges = [[0, 1], [1, 2], [2, 0], [4, 5]]
    graphs = GraphSet.build("two", nodes=[4, 3], edges=edges, target=[1, 0])
    assert len(graphs) == 2
    assert graphs.classes == 2
    assert graphs.nodes.tolist() == [4, 3]
    assert graphs.edges.tolist() == [3, 1]
    assert graphs.degree.tolist() == [2, 2, 2, 0, 1, 1, 0]
    assert graphs.node_graph.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert repr(graphs) == "GraphSet(two: 2 graphs, 2 classes)"


@given(graph_sets(edge_labels=True))
def test_the_edge_list_names_every_edge_once_and_where_it_stands(graphs: GraphSet) -> None:
    pairs, entry = graphs.edge_list()
    source = np.repeat(np.arange(len(graphs.degree)), graphs.degree)
    assert len(pairs) == graphs.edges.sum()
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len({tuple(p) for p in pairs.tolist()}) == len(pairs)
    assert np.array_equal(np.stack([source[entry], graphs.neighbour[entry]], axis=1), pairs)


@given(graph_sets(attributes=True), st.data())
def test_selecting_gives_the_named_graphs_in_the_named_order(
    graphs: GraphSet, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(graphs) - 1), max_size=6))
    selected = graphs.select(chosen)
    everything = described(graphs)
    assert described(selected) == [everything[g] for g in chosen]
    assert selected.classes == graphs.classes


def test_an_empty_selection_is_a_set_without_graphs(mutag: GraphSet) -> None:
    nothing = mutag.select([])
    assert len(nothing) == 0
    assert nothing.nodes.tolist() == nothing.edges.tolist() == nothing.degree.tolist() == []
    assert nothing.edge_list()[0].shape == (0, 2)


@given(st.lists(graph_sets(edge_labels=True, attributes=True), min_size=1, max_size=3))
def test_joined_sets_hold_the_graphs_of_all_of_them(sets: list[GraphSet]) -> None:
    joined = GraphSet.concatenate("joined", sets)
    assert described(joined) == [graph for s in sets for graph in described(s)]
    assert joined.name == "joined"


@given(graph_sets(edge_labels=True, attributes=True), graph_sets(edge_labels=False))
def test_joining_drops_what_not_all_sets_have(rich: GraphSet, poor: GraphSet) -> None:
    unlabelled = replace(poor, node_label=None)
    joined = GraphSet.concatenate("joined", [rich, unlabelled])
    assert joined.node_label is None
    assert joined.edge_label is None
    assert joined.attribute is None
    assert len(joined) == len(rich) + len(poor)


def test_joining_drops_attributes_of_different_width_and_takes_the_most_classes() -> None:
    narrow = GraphSet.build("n", [1], [], [0], class_values=[0, 1], attribute=[[1.0]])
    wide = GraphSet.build("w", [1], [], [2], attribute=[[1.0, 2.0]])
    joined = GraphSet.concatenate("joined", [narrow, wide])
    assert joined.attribute is None
    assert joined.classes == 3


@given(graph_sets(), st.randoms(use_true_random=False))
def test_the_digest_knows_neither_the_order_of_edges_nor_attributes(
    graphs: GraphSet, random: Any
) -> None:
    pairs, entry = graphs.edge_list()
    label = None if graphs.edge_label is None else graphs.edge_label[entry]
    order = list(range(len(pairs)))
    random.shuffle(order)
    turned = [p[::-1] if random.random() < 0.5 else p for p in pairs[order].tolist()]
    again = GraphSet.build(
        "another name",
        nodes=graphs.nodes,
        edges=turned,
        target=graphs.target,
        node_label=graphs.node_label,
        edge_label=None if label is None else label[order],
        attribute=np.full((len(graphs.degree), 2), 7.0),
    )
    assert again.digest() == graphs.digest()


PATH: dict[str, Any] = {
    "nodes": [3, 2],
    "edges": [[0, 1], [1, 2], [3, 4]],
    "target": [0, 1],
    "node_label": [0, 1, 2, 0, 1],
    "edge_label": [0, 1, 2],
}


@pytest.mark.parametrize(
    "change",
    [
        {"edges": [[0, 1], [0, 2], [3, 4]]},
        {"edges": [[0, 1], [1, 2]], "edge_label": [0, 1]},
        {"nodes": [3, 1, 1], "edges": [[0, 1], [1, 2]], "target": [0, 1, 1], "edge_label": [0, 1]},
        {"nodes": [3, 3], "node_label": [0, 1, 2, 0, 1, 1]},
        {"target": [1, 1]},
        {"node_label": [0, 1, 2, 0, 2]},
        {"node_label": None},
        {"edge_label": [0, 1, 1]},
        {"edge_label": None},
    ],
)
def test_the_digest_changes_with_structure_labels_and_classes(change: dict[str, Any]) -> None:
    assert (
        GraphSet.build("p", **{**PATH, **change}).digest() != GraphSet.build("p", **PATH).digest()
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"target": [0]}, "2 graphs but 1 graph labels; give one label for each"),
        ({"nodes": [5, 0]}, "Graph 1 of p has no node; remove it"),
        ({"edges": [[0, 5], [1, 2], [3, 4]]}, "joins nodes 0 and 5.* 0 to 4; remove the edge"),
        ({"edges": [[-1, 1], [1, 2], [3, 4]]}, "joins nodes -1 and 1.*remove the edge"),
        ({"edges": [[0, 1], [2, 3], [3, 4]]}, "joins nodes 2 and 3 of two different graphs"),
        ({"node_label": [0, 1]}, "5 nodes but 2 node labels; give one for each"),
        ({"attribute": [[0.0]] * 4}, "5 nodes but 4 rows of node attributes; give one for each"),
        ({"edge_label": [0, 1]}, "label"),
    ],
)
def test_unusable_content_is_refused_in_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MotifairError, match=sentence):
        GraphSet.build("p", **{**PATH, **change})


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5))))
def test_ranges_are_those_of_python(pieces: list[tuple[int, int]]) -> None:
    start, length = np.array(pieces, dtype=np.int64).reshape(-1, 2).T
    assert ranges(start, length).tolist() == [v for s, n in pieces for v in range(s, s + n)]
