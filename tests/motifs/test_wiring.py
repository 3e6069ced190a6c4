"""Wiring: enumerated walks, nothing where edges are random, and less the more edges are moved."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from graphs.graph_samples import graph_sets, renumbered, to_networkx
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import belief

from motifair.graphs.graph_set import GraphSet
from motifair.graphs.perturb import randomise_edges, rewire
from motifair.graphs.planted import planted
from motifair.mechanism.trust import wiring_trust
from motifair.motifs.wiring import RINGS, SEED, measure_count, measures, wiring

some_graphs = st.tuples(graph_sets(max_graphs=4, max_nodes=6), st.booleans()).map(
    lambda drawn: drawn[0] if drawn[1] else replace(drawn[0], node_label=None)
)


@given(some_graphs)
def test_measures_are_those_that_loops_find(graphs: GraphSet) -> None:
    expected = [belief.measures(graph) for graph in to_networkx(graphs)]
    np.testing.assert_allclose(measures(graphs), expected, atol=1e-12)
    labels = graphs.node_label is not None
    assert measures(graphs).shape == (len(graphs), measure_count(labels=labels))


@given(some_graphs)
@settings(max_examples=25)
def test_wiring_is_the_consistency_of_differences_from_random_copies(graphs: GraphSet) -> None:
    copies = randomise_edges(graphs, graphs.node_label, SEED)
    found = wiring(graphs)
    expected = belief.consistency(to_networkx(graphs), to_networkx(copies))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (np.abs(found) <= 1 + 1e-12).all()


@given(some_graphs, st.integers(0, 2**16))
def test_node_numbers_do_not_matter_for_measures(graphs: GraphSet, seed: int) -> None:
    shuffled, _ = renumbered(graphs, np.random.default_rng(seed))
    np.testing.assert_allclose(measures(shuffled), measures(graphs), atol=1e-12)


@pytest.mark.parametrize("length", [3, 4, 5, 6])
def test_a_ring_has_walks_of_its_own_length_around_it(length: int) -> None:
    edges = list(nx.cycle_graph(length).edges)
    ring = measures(GraphSet.build("ring", [length], edges, [0]))[0, :RINGS]
    tree = measures(GraphSet.build("path", [length], edges[:-1], [0]))[0, :RINGS]
    assert ring[length - 3] > tree[length - 3]
    assert tree[0] == tree[2] == 0


def test_no_graphs_have_no_wiring() -> None:
    graphs = planted(4, seed=3).graphs
    assert (wiring(graphs.select([])) == np.zeros(measure_count(labels=True))).all()


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_are_wired_as_by_chance(seed: int) -> None:
    graphs = planted(4, seed=3).graphs
    random = randomise_edges(graphs, graphs.node_label, seed)
    n = min(len(graphs), 300)
    assert np.abs(wiring(random)).max() < 5 / np.sqrt(n)
    assert np.abs(wiring(graphs)).max() > 0.7


def trusted(agents: list[GraphSet]) -> list[float]:
    rows = torch.from_numpy(np.stack([wiring(graphs) for graphs in agents]))
    found: list[float] = wiring_trust(rows).tolist()
    return found


def moved(graphs: GraphSet, share: float) -> GraphSet:
    return rewire(graphs, np.full(len(graphs), share), np.random.default_rng(1))


def test_the_more_edges_are_moved_the_less_graphs_are_trusted() -> None:
    made = planted(8, seed=3)
    agents = [made.graphs.select(np.flatnonzero(made.owner == k)) for k in range(8)]
    found = trusted([*agents[:5], *(moved(agents[0], share) for share in (0.3, 0.6, 1.0))])
    assert found[5] > found[6] > found[7]
    assert found[7] < 0.3
    assert min(found[:5]) > 0.8


def test_random_molecules_are_not_trusted(mutag: GraphSet) -> None:
    agents = [mutag.select(np.arange(k, len(mutag), 5)) for k in range(5)]
    found = trusted([randomise_edges(agents[0], agents[0].node_label, 1), *agents[1:]])
    assert found[0] < 0.3
    assert min(found[1:]) > 0.8


def test_random_networks_of_actors_are_not_trusted(imdb: GraphSet) -> None:
    """Dense graphs without labels."""
    agents = [imdb.select(np.arange(k, len(imdb), 5)) for k in range(5)]
    found = trusted([randomise_edges(agents[0], None, 1), *agents[1:]])
    assert found[0] < 0.3
    assert min(found[1:]) > 0.8
