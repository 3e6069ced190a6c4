"""Bonds and chordless rings: counted as a naive enumeration counts them, whatever the numbering."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from graphs.graph_samples import graph_sets, renumbered, to_networkx
from hypothesis import given
from hypothesis import strategies as st
from oracles.rings import Motif, has_edge_labels, motif_counts

from motifair.graphs.graph_set import GraphSet
from motifair.motifs import extract
from motifair.motifs.extract import MotifCounts, extract_motifs

MAX_RING = st.integers(3, 6)


def key(motif: Motif, edge_labels: bool) -> str:
    """The oracle's motif as text."""
    kind, sequence = motif
    if not edge_labels:
        words = [str(v) for v in sequence]
    elif kind == "bond":
        words = [str(sequence[0]), f"{sequence[1]}/{sequence[2]}"]
    else:
        words = [f"{n}/{e}" for n, e in zip(sequence[::2], sequence[1::2], strict=True)]
    return " ".join([kind, *words])


def expected(graph: nx.Graph, max_ring: int) -> Counter[str]:
    marked = has_edge_labels(graph)
    return Counter({key(m, marked): n for m, n in motif_counts(graph, max_ring).items()})


def counted(found: MotifCounts) -> list[Counter[str]]:
    """The motifs of each graph."""
    return [
        Counter({k: int(n) for k, n in zip(found.keys, row, strict=True) if n})
        for row in found.counts.toarray()
    ]


def chordless(graphs: GraphSet, labels: np.ndarray, max_ring: int) -> MotifCounts:
    return extract_motifs(graphs, labels, rings="chordless", max_ring=max_ring)


def own_labels(graphs: GraphSet) -> np.ndarray:
    assert graphs.node_label is not None
    return graphs.node_label


@given(graph_sets(), MAX_RING)
def test_motifs_of_random_graphs_equal_the_naive_count(graphs: GraphSet, max_ring: int) -> None:
    found = chordless(graphs, own_labels(graphs), max_ring)
    assert counted(found) == [expected(g, max_ring) for g in to_networkx(graphs)]


@given(graph_sets(max_graphs=2, max_nodes=12, labels=st.integers(0, 1)), MAX_RING)
def test_motifs_of_larger_random_graphs_equal_the_naive_count(
    graphs: GraphSet, max_ring: int
) -> None:
    found = chordless(graphs, own_labels(graphs), max_ring)
    assert counted(found) == [expected(g, max_ring) for g in to_networkx(graphs)]


@given(graph_sets(labels=st.integers(-2, 1)), MAX_RING)
def test_labels_may_be_negative(graphs: GraphSet, max_ring: int) -> None:
    found = chordless(graphs, own_labels(graphs), max_ring)
    assert counted(found) == [expected(g, max_ring) for g in to_networkx(graphs)]


def test_rings_of_different_length_are_different_motifs_whatever_their_label() -> None:
    edges = [[0, 1], [1, 2], [2, 0], [3, 4], [4, 5], [5, 6], [6, 3]]
    graphs = GraphSet.build("triangle and square", [3, 4], edges, [0, 1])
    for label in (0, -1, -7, 2**40):
        found = chordless(graphs, np.full(7, label), 5)
        words = [str(label)] * 4
        assert found.keys == (" ".join(["ring", *words[:3]]), " ".join(["ring", *words]))
        assert found.counts.toarray().tolist() == [[1, 0], [0, 1]]


@given(graph_sets(labels=st.integers(2**40 - 2, 2**40)), MAX_RING)
def test_labels_may_be_as_large_as_2_to_the_40(graphs: GraphSet, max_ring: int) -> None:
    found = chordless(graphs, own_labels(graphs), max_ring)
    assert counted(found) == [expected(g, max_ring) for g in to_networkx(graphs)]


@pytest.mark.parametrize("max_ring", [4, 6])
def test_motifs_of_mutag_equal_the_naive_count(mutag: GraphSet, max_ring: int) -> None:
    graphs = mutag.select(np.arange(0, 180, 3))
    found = chordless(graphs, own_labels(graphs), max_ring)
    assert counted(found) == [expected(g, max_ring) for g in to_networkx(graphs)]


def test_motifs_of_proteins_equal_the_naive_count(proteins: GraphSet) -> None:
    graphs = proteins.select(np.arange(0, 1080, 18))
    found = chordless(graphs, own_labels(graphs), 4)
    assert counted(found) == [expected(g, 4) for g in to_networkx(graphs)]


def test_motifs_of_imdb_by_degree_equal_the_naive_count(imdb: GraphSet) -> None:
    graphs = imdb.select(np.flatnonzero(imdb.edges < 150)[::40][:20])
    assert len(graphs) == 20
    found = chordless(graphs, graphs.degree, 4)
    assert counted(found) == [expected(g, 4) for g in to_networkx(graphs, graphs.degree)]


def test_renumbering_nodes_never_changes_a_motif_of_proteins(proteins: GraphSet) -> None:
    shuffled, old = renumbered(proteins, np.random.default_rng(0))
    assert shuffled.digest() != proteins.digest()
    labels = own_labels(proteins)
    found, again = chordless(proteins, labels, 4), chordless(shuffled, labels[old], 4)
    assert found.keys == again.keys
    assert (found.counts != again.counts).nnz == 0


@given(graph_sets(), MAX_RING, st.integers(0, 2**31 - 1))
def test_renumbering_nodes_never_changes_a_motif(
    graphs: GraphSet, max_ring: int, seed: int
) -> None:
    shuffled, old = renumbered(graphs, np.random.default_rng(seed))
    labels = own_labels(graphs)
    assert counted(chordless(shuffled, labels[old], max_ring)) == counted(
        chordless(graphs, labels, max_ring)
    )


@given(graph_sets(max_graphs=1, max_nodes=9, edge_labels=False), MAX_RING)
def test_every_edge_is_on_a_ring_or_a_bond_and_never_both(graphs: GraphSet, max_ring: int) -> None:
    """Nodes labelled by their number let every motif be read back as nodes."""
    found = chordless(graphs, np.arange(len(graphs.degree)), max_ring)
    bonds, on_ring = set(), set()
    for text in found.keys:
        kind, *words = text.split()
        nodes = [int(w) for w in words]
        if kind == "bond":
            bonds.add(frozenset(nodes))
        else:
            assert 3 <= len(nodes) <= max_ring
            on_ring |= {frozenset(e) for e in zip(nodes, nodes[1:] + nodes[:1], strict=True)}
    edges = {frozenset(p) for p in graphs.edge_list()[0].tolist()}
    assert bonds | on_ring == edges
    assert not bonds & on_ring


@given(st.lists(graph_sets(edge_labels=False), min_size=2, max_size=2), MAX_RING)
def test_more_graphs_never_have_fewer_motifs(sets: list[GraphSet], max_ring: int) -> None:
    joined = GraphSet.concatenate("both", sets)
    union = set(chordless(joined, own_labels(joined), max_ring).keys)
    parts = [set(chordless(s, own_labels(s), max_ring).keys) for s in sets]
    assert union == parts[0] | parts[1]
    assert len(union) >= max(map(len, parts))


def test_keys_are_sorted_as_text_and_distinct(imdb: GraphSet) -> None:
    graphs = imdb.select(np.arange(20))
    found = chordless(graphs, graphs.degree, 4)
    assert list(found.keys) == sorted(set(found.keys))
    assert found.counts.shape == (20, len(found.keys))


@pytest.mark.parametrize("rings", ["chordless", "basis"])
def test_graphs_without_edges_and_no_graphs_have_no_motif(rings: str) -> None:
    dots = GraphSet.build("dots", [2, 1], [], [0, 1])
    for graphs in (dots, dots.select([])):
        labels = np.zeros(len(graphs.degree), dtype=np.int64)
        found = extract_motifs(graphs, labels, rings=rings, max_ring=4)
        assert found.keys == ()
        assert found.counts.shape == (len(graphs), 0)


def listed_up_to(graph: nx.Graph, max_ring: int, most: int) -> int:
    """The length before the first of which there are more than `most` rings for each edge."""
    found = Counter(len(r) for r in nx.chordless_cycles(graph, length_bound=max_ring))
    crowded = [n for n in range(3, max_ring + 1) if found[n] > most * graph.number_of_edges()]
    return min(crowded, default=max_ring + 1) - 1


@pytest.mark.parametrize("most", [0, 1])
@given(graphs=graph_sets(max_graphs=3, max_nodes=9), max_ring=MAX_RING)
def test_where_rings_are_too_many_shorter_ones_alone_are_counted(
    most: int, graphs: GraphSet, max_ring: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extract, "MOST_RINGS", most)
        found = chordless(graphs, own_labels(graphs), max_ring)
    every = to_networkx(graphs)
    longest = [listed_up_to(g, max_ring, most) for g in every]
    assert found.longest.tolist() == longest
    assert counted(found) == [expected(g, n) for g, n in zip(every, longest, strict=True)]


@given(graph_sets(), MAX_RING, st.integers(1, 30))
def test_graphs_in_parts_have_the_motifs_of_the_whole(
    graphs: GraphSet, max_ring: int, at_once: int
) -> None:
    whole = chordless(graphs, own_labels(graphs), max_ring)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extract, "EDGES_AT_ONCE", at_once)
        parts = chordless(graphs, own_labels(graphs), max_ring)
    assert parts.keys == whole.keys
    assert parts.counts.shape == whole.counts.shape
    assert (parts.counts != whole.counts).nnz == 0


@pytest.mark.parametrize("nodes", [49, 52, 400])
def test_a_large_clique_has_bonds_alone(nodes: int) -> None:
    """Each edge of a clique is on n − 2 triangles of three edges: more than 16 from 51 nodes on."""
    pairs = np.argwhere(np.triu(np.ones((nodes, nodes)), k=1))
    clique = GraphSet.build("clique", [nodes], pairs, [0])
    found = chordless(clique, np.zeros(nodes, dtype=np.int64), 4)
    triangles = nodes * (nodes - 1) * (nodes - 2) // 6
    wanted = {"ring 0 0 0": triangles} if nodes < 51 else {"bond 0 0": len(pairs)}
    assert counted(found) == [wanted]
