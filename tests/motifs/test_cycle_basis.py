"""Basis rings, as in the paper's profile: a basis of the cycle space, cut at the longest ring."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from graphs.graph_samples import graph_sets, renumbered, to_networkx
from hypothesis import given
from hypothesis import strategies as st

from motifair.graphs.graph_set import GraphSet
from motifair.motifs.extract import MotifCounts, extract_motifs

Edge = frozenset[int]


def basis(graphs: GraphSet, labels: np.ndarray, max_ring: int = 0) -> MotifCounts:
    return extract_motifs(graphs, labels, rings="basis", max_ring=max_ring)


def rings_and_bonds(found: MotifCounts) -> tuple[list[set[Edge]], list[Edge]]:
    """Read motifs back as edges, where nodes were labelled by their number."""
    rings, bonds = [], []
    for text, count in zip(found.keys, found.counts.sum(axis=0), strict=True):
        assert count == 1
        kind, *words = text.split()
        nodes = [int(w) for w in words]
        if kind == "bond":
            bonds.append(frozenset(nodes))
        else:
            rings.append({frozenset(e) for e in zip(nodes, nodes[1:] + nodes[:1], strict=True)})
    return rings, bonds


def sorted_edges(ring: set[Edge]) -> list[list[int]]:
    return sorted(sorted(e) for e in ring)


def rank(rings: list[set[Edge]], edges: list[Edge]) -> int:
    """How many rings are independent, adding edges modulo 2."""
    bit = {e: 1 << k for k, e in enumerate(edges)}
    leading: dict[int, int] = {}
    for ring in rings:
        row = sum(bit[e] for e in ring)
        while row and row.bit_length() in leading:
            row ^= leading[row.bit_length()]
        if row:
            leading[row.bit_length()] = row
    return len(leading)


def ring_counts(found: MotifCounts) -> np.ndarray:
    of_rings = [k for k, text in enumerate(found.keys) if text.startswith("ring")]
    return found.counts[:, of_rings].sum(axis=1)


@given(graph_sets(max_graphs=3, max_nodes=9, edge_labels=False))
def test_uncapped_rings_are_a_basis_of_the_cycle_space(graphs: GraphSet) -> None:
    rings, bonds = rings_and_bonds(basis(graphs, np.arange(len(graphs.degree))))
    edges = [frozenset(p) for p in graphs.edge_list()[0].tolist()]
    components = sum(nx.number_connected_components(g) for g in to_networkx(graphs))
    assert len(rings) == len(edges) - len(graphs.degree) + components
    assert rank(rings, edges) == len(rings)
    covered = set().union(*rings)
    assert covered <= set(edges)
    assert sorted(map(sorted, bonds)) == sorted(sorted(e) for e in edges if e not in covered)


@given(graph_sets(max_graphs=3, max_nodes=12, edge_labels=False))
def test_the_basis_is_that_of_networkx_grown_from_each_smallest_node(graphs: GraphSet) -> None:
    rings, _ = rings_and_bonds(basis(graphs, np.arange(len(graphs.degree))))
    expected = []
    for first, graph in zip(graphs.node_start, to_networkx(graphs), strict=False):
        in_order = nx.Graph()
        in_order.add_nodes_from(graph)
        in_order.add_edges_from(sorted(tuple(sorted(e)) for e in graph.edges))
        for component in nx.connected_components(in_order):
            for ring in nx.cycle_basis(in_order.subgraph(component), min(component)):
                walk = [first + v for v in ring]
                ends = zip(walk, walk[1:] + walk[:1], strict=True)
                expected.append({frozenset(e) for e in ends})
    assert sorted(map(sorted_edges, rings)) == sorted(map(sorted_edges, expected))


@given(graph_sets(max_graphs=2, max_nodes=9, edge_labels=False), st.integers(3, 8))
def test_a_cap_drops_the_longer_rings_and_their_edges_become_bonds(
    graphs: GraphSet, max_ring: int
) -> None:
    labels = np.arange(len(graphs.degree))
    uncapped, _ = rings_and_bonds(basis(graphs, labels))
    capped, bonds = rings_and_bonds(basis(graphs, labels, max_ring))
    assert capped == [r for r in uncapped if len(r) <= max_ring]
    edges = {frozenset(p) for p in graphs.edge_list()[0].tolist()}
    assert set(bonds) == edges - set().union(*capped)


@pytest.mark.parametrize("name", ["mutag", "proteins"])
def test_every_graph_has_as_many_basis_rings_as_its_cycle_space_has_dimensions(
    name: str, request: pytest.FixtureRequest
) -> None:
    whole: GraphSet = request.getfixturevalue(name)
    graphs = whole.select(np.arange(0, len(whole), 4))
    assert graphs.node_label is not None
    found = basis(graphs, graphs.node_label)
    components = [nx.number_connected_components(g) for g in to_networkx(graphs)]
    assert np.array_equal(ring_counts(found), graphs.edges - graphs.nodes + components)


@st.composite
def cacti(draw: st.DrawFn) -> GraphSet:
    """A graph whose rings share no edge, so that its basis is unique."""
    nodes, edges = 1, []
    for length in draw(st.lists(st.integers(2, 6), min_size=1, max_size=5)):
        first = draw(st.integers(0, nodes - 1))
        walk = [first, *range(nodes, nodes + length - 1)]
        edges += list(zip(walk, walk[1:] + walk[:1], strict=True))
        nodes += length - 1
    labels = draw(st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes))
    return GraphSet.build("cactus", [nodes], edges, [0], node_label=labels)


@given(cacti(), st.integers(0, 2**31 - 1))
def test_a_unique_basis_equals_the_chordless_rings_under_any_numbering(
    cactus: GraphSet, seed: int
) -> None:
    shuffled, _ = renumbered(cactus, np.random.default_rng(seed))
    assert cactus.node_label is not None
    assert shuffled.node_label is not None
    found, again = basis(cactus, cactus.node_label), basis(shuffled, shuffled.node_label)
    chordless = extract_motifs(cactus, cactus.node_label, rings="chordless", max_ring=6)
    assert found.keys == again.keys == chordless.keys
    assert found.counts.toarray().tolist() == again.counts.toarray().tolist()
    assert found.counts.toarray().tolist() == chordless.counts.toarray().tolist()


def test_a_basis_depends_on_the_graph_alone_not_on_the_others(mutag: GraphSet) -> None:
    chosen = np.arange(40)
    assert mutag.node_label is not None
    whole = basis(mutag, mutag.node_label)
    part = mutag.select(chosen)
    assert part.node_label is not None
    found = basis(part, part.node_label)
    columns = [whole.keys.index(k) for k in found.keys]
    assert np.array_equal(whole.counts.toarray()[np.ix_(chosen, columns)], found.counts.toarray())
