"""Fingerprints: equal for graphs with equal refined colours and classes, and for no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs.graph_samples import graph_sets, renumbered, to_networkx
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.belief import signature

from motifair.graphs.fingerprints import fingerprints
from motifair.graphs.graph_set import GraphSet

many_graphs = st.booleans().flatmap(
    lambda attributes: graph_sets(max_graphs=12, max_nodes=5, attributes=attributes)
)


def built(nodes: int, edges: list[tuple[int, int]], **about: object) -> GraphSet:
    return GraphSet.build("one", [nodes], edges, [0], **about)  # type: ignore[arg-type]


def differ(*graphs: GraphSet) -> bool:
    return len({int(fingerprints(one)[0]) for one in graphs}) == len(graphs)


@given(many_graphs, st.integers(0, 2**16))
def test_node_numbers_do_not_matter(graphs: GraphSet, seed: int) -> None:
    shuffled, _ = renumbered(graphs, np.random.default_rng(seed))
    assert np.array_equal(fingerprints(shuffled), fingerprints(graphs))


@given(many_graphs)
@settings(max_examples=100)
def test_graphs_are_told_apart_as_by_colours_written_out(graphs: GraphSet) -> None:
    found = fingerprints(graphs)
    assert found.dtype == np.uint64
    wanted = [signature(graph) for graph in to_networkx(graphs)]
    for a in range(len(graphs)):
        for b in range(a):
            assert (found[a] == found[b]) == (wanted[a] == wanted[b])


@given(many_graphs, st.data())
def test_other_graphs_of_a_set_do_not_matter(graphs: GraphSet, data: st.DataObject) -> None:
    places = st.integers(0, len(graphs) - 1)
    chosen = data.draw(st.lists(places, max_size=5))
    assert np.array_equal(fingerprints(graphs.select(chosen)), fingerprints(graphs)[chosen])


@given(many_graphs, st.integers(1, 2**63))
def test_with_another_key_or_class_nothing_is_equal(graphs: GraphSet, key: int) -> None:
    plain = fingerprints(graphs)
    assert not np.isin(fingerprints(graphs, key), plain).any()
    other = replace(graphs, class_values=(7, 8, 9))
    assert not np.isin(fingerprints(other), plain).any()


def test_classes_are_compared_by_what_they_are_called() -> None:
    graphs = GraphSet.build("two", [2, 2], [[0, 1], [2, 3]], [0, 1], class_values=[3, 5])
    same = GraphSet.build("one", [2], [[0, 1]], [0], class_values=[5])
    assert fingerprints(same)[0] == fingerprints(graphs)[1]


def test_labels_attributes_and_edges_matter() -> None:
    path, triangle = [(0, 1), (1, 2)], [(0, 1), (1, 2), (0, 2)]
    assert differ(built(3, path), built(3, triangle), built(3, []), built(4, path))
    assert differ(*(built(3, path, node_label=x) for x in ([0, 1, 0], [1, 0, 0], [0, 0, 0])))
    assert differ(*(built(3, path, attribute=[[0.0], [x], [0.0]]) for x in (0.0, 1.0, 1.5)))
    swapped = [[[0.0, 1.0]], [[1.0, 0.0]]]
    assert differ(*(built(1, [], attribute=x) for x in swapped))


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zero_has_no_sign(zero: float) -> None:
    plain = built(2, [(0, 1)], attribute=[[0.0], [1.0]])
    assert fingerprints(built(2, [(0, 1)], attribute=[[zero], [1.0]])) == fingerprints(plain)


def test_what_a_graph_network_cannot_tell_apart_is_equal() -> None:
    ring = built(6, [(k, (k + 1) % 6) for k in range(6)])
    triangles = built(6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)])
    assert fingerprints(ring) == fingerprints(triangles)


def paths(*lengths: int) -> GraphSet:
    """One graph of several paths."""
    first = np.cumsum([0, *lengths])
    edges = [(s + v, s + v + 1) for s, n in zip(first, lengths, strict=False) for v in range(n - 1)]
    return built(sum(lengths), edges)


def test_three_refinements_see_nodes_two_steps_away() -> None:
    assert differ(paths(5, 7), paths(6, 6))
    assert fingerprints(paths(7, 9)) == fingerprints(paths(8, 8))


def test_labels_of_edges_count_where_the_model_reads_them() -> None:
    edges, target = [[0, 1], [1, 2], [3, 4], [4, 5]], [0, 0]
    paths = GraphSet.build("paths", [3, 3], edges, target, edge_label=[1, 1, 1, 2])
    assert len(set(fingerprints(paths).tolist())) == 1
    assert len(set(fingerprints(paths, edges=True).tolist())) == 2
    turned = GraphSet.build("paths", [3, 3], edges, target, edge_label=[2, 1, 1, 2])
    assert len(set(fingerprints(turned, edges=True).tolist())) == 1
