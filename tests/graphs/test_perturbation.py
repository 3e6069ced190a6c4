"""Worse data on purpose: rewired edges keep their number, tiers fall on agents at random."""

from __future__ import annotations

from hashlib import sha256
from itertools import combinations
from math import floor

import numpy as np
import pytest
from graphs.graph_samples import described, graph_sets, renumbered
from hypothesis import given
from hypothesis import strategies as st

from motifair.graphs.graph_set import GraphSet
from motifair.graphs.perturb import (
    TIERS,
    Damage,
    flip,
    randomise_edges,
    rewire,
    role_damage,
    tiers,
    unconnected_pairs,
)
from motifair.graphs.planted import ROLES

RATIOS = st.floats(0, 1)


def complete(nodes: int) -> GraphSet:
    return GraphSet.build("complete", [nodes], list(combinations(range(nodes), 2)), [0])


@given(graph_sets(attributes=True), st.data())
def test_rewiring_moves_the_asked_share_of_edges_to_free_places(
    graphs: GraphSet, data: st.DataObject
) -> None:
    n = len(graphs)
    ratio = np.array(data.draw(st.lists(RATIOS, min_size=n, max_size=n)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31 - 1)))
    moved = rewire(graphs, ratio, rng)
    for share, before, after in zip(ratio, described(graphs), described(moved), strict=True):
        nodes, old, *rest = before
        _, new, *unchanged = after
        assert unchanged == rest
        assert len(new) == len(old)
        assert all(u != v and new[v, u] == label for (u, v), label in new.items())
        count = len(old) // 2
        free = nodes * (nodes - 1) // 2 - count
        gone = len(old.keys() - new.keys()) // 2
        assert gone == min(floor(share * count), free)
        assert all(new[e] == old[e] for e in old.keys() & new.keys())
        assert sorted(map(str, new.values())) == sorted(map(str, old.values()))


def anew(graphs: GraphSet, seed: int) -> GraphSet:
    """Graphs wired at random, their nodes with their own labels."""
    return randomise_edges(graphs, graphs.node_label, seed)


@given(graph_sets(), st.integers(0, 2**31 - 1))
def test_wiring_anew_keeps_the_labels_of_nodes_and_edges_and_their_number(
    graphs: GraphSet, seed: int
) -> None:
    for before, after in zip(described(graphs), described(anew(graphs, seed)), strict=True):
        (nodes, old, labels, *_), (same, new, now, *_) = before, after
        assert same == nodes
        assert labels is None or sorted(now) == sorted(labels)
        assert len(new) == len(old)
        assert all(u != v and new[v, u] == label for (u, v), label in new.items())
        assert sorted(map(str, new.values())) == sorted(map(str, old.values()))


@given(graph_sets(), st.integers(0, 2**31 - 1))
def test_wiring_anew_draws_pairs_by_a_hash_of_degrees_and_labels(
    graphs: GraphSet, seed: int
) -> None:
    """Graph by graph: the sorted (degree, label) of nodes and labels of edges are the seed."""
    anew_edges, _ = anew(graphs, seed).edge_list()
    labels = np.zeros(0) if graphs.node_label is None else graphs.node_label
    for g, start in enumerate(graphs.node_start[:-1]):
        alone = graphs.select(np.array([g]))
        edges, entry = alone.edge_list()
        if len(edges) == 0:
            continue
        nodes = range(start, start + alone.nodes[0])
        rows = sorted(
            zip(alone.degree, *([labels[list(nodes)]] if len(labels) else []), strict=True)
        )
        kinds = [] if alone.edge_label is None else sorted(alone.edge_label[entry])
        text = str(seed).encode()
        text += b"".join(np.array(part, np.int64).tobytes() + b"/" for part in (rows, kinds))
        rng = np.random.default_rng(int.from_bytes(sha256(text).digest(), "little"))
        places = list(combinations(nodes, 2))
        drawn = rng.choice(len(places), size=len(edges), replace=False)
        own = anew_edges[np.isin(anew_edges[:, 0], nodes)].tolist()
        assert sorted(map(tuple, own)) == sorted(places[k] for k in drawn)


def test_wiring_anew_puts_an_edge_between_any_two_nodes_equally_often() -> None:
    path = GraphSet.build("path", [5], [[0, 1], [1, 2], [2, 3]], [0])
    pairs = np.concatenate([anew(path, seed).edge_list()[0] for seed in range(4000)])
    places, count = np.unique(np.sort(pairs, axis=1), axis=0, return_counts=True)
    assert len(places) == 10
    assert count.sum() == 12_000
    # Each of 10 places has 3 edges in 10: 1200 with a deviation of √(4000·0.3·0.7) = 29.
    assert np.abs(count - 1200).max() < 5 * 29


@pytest.mark.parametrize("seed", range(3))
def test_copies_of_a_graph_are_wired_alike_however_their_nodes_are_numbered(
    mutag: GraphSet, seed: int
) -> None:
    other, _ = renumbered(mutag, np.random.default_rng(seed))
    first, again, drawn_anew = described(anew(mutag, 7)), anew(other, 7), anew(mutag, 8)
    assert [a == b for a, b in zip(first, described(again), strict=True)] == [True] * len(mutag)
    assert sum(a == b for a, b in zip(first, described(drawn_anew), strict=True)) < 3
    twice = described(anew(GraphSet.concatenate("twice", [mutag, other]), 7))
    assert [a == b for a, b in zip(2 * first, twice, strict=True)] == [True] * 2 * len(mutag)


def test_graphs_of_one_size_are_not_all_wired_alike() -> None:
    """Of 40 random graphs with 12 nodes and 16 edges some have the same degrees, but not many."""
    rng = np.random.default_rng(0)
    places = np.array(list(combinations(range(12), 2)))
    drawn = [places[rng.choice(66, size=16, replace=False)] + 12 * g for g in range(40)]
    graphs = GraphSet.build("random", [12] * 40, np.concatenate(drawn), [0] * 40)
    made = {str(sorted(edges)) for _, edges, *_ in described(anew(graphs, 1))}
    assert len(made) >= 25


def test_a_complete_graph_wired_anew_is_itself() -> None:
    assert described(anew(complete(6), 0))[0][1] == described(complete(6))[0][1]


def test_a_graph_that_is_not_to_be_rewired_stays_as_it_is(mutag: GraphSet) -> None:
    ratio = np.zeros(len(mutag))
    assert rewire(mutag, ratio, np.random.default_rng(0)).digest() == mutag.digest()
    ratio[5] = 1.0
    moved = rewire(mutag, ratio, np.random.default_rng(0))
    changed = [
        g for g, (a, b) in enumerate(zip(described(mutag), described(moved), strict=True)) if a != b
    ]
    assert changed == [5]


def test_every_graph_of_proteins_is_rewired_by_half(proteins: GraphSet) -> None:
    moved = rewire(proteins, np.full(len(proteins), 0.5), np.random.default_rng(1))
    assert np.array_equal(moved.edges, proteins.edges)
    total = len(proteins.degree)
    before, after = (
        g.edge_list()[0][:, 0] * total + g.edge_list()[0][:, 1] for g in (proteins, moved)
    )
    gone = np.setdiff1d(before, after) // total
    count = np.bincount(proteins.node_graph[gone], minlength=len(proteins))
    places = proteins.nodes * (proteins.nodes - 1) // 2 - proteins.edges
    assert np.array_equal(count, np.minimum(proteins.edges // 2, places))


def test_a_complete_graph_has_no_free_place() -> None:
    graph = complete(5)
    moved = rewire(graph, np.array([0.9]), np.random.default_rng(0))
    assert moved.digest() == graph.digest()


def test_where_few_places_are_free_only_so_many_edges_move() -> None:
    pairs = list(combinations(range(5), 2))
    graph = GraphSet.build("almost", [5], pairs[1:], [0])
    moved = rewire(graph, np.array([1.0]), np.random.default_rng(0))
    assert len(set(described(graph)[0][1]) - set(described(moved)[0][1])) == 2
    assert (0, 1) in described(moved)[0][1]


def test_a_graph_without_edges_can_be_rewired() -> None:
    graph = GraphSet.build("dots", [3], [], [0])
    assert rewire(graph, np.array([1.0]), np.random.default_rng(0)).digest() == graph.digest()


def test_the_seed_decides_which_edges_move(mutag: GraphSet) -> None:
    ratio = np.full(len(mutag), 0.5)
    first, again, other = (
        rewire(mutag, ratio, np.random.default_rng(s)).digest() for s in (1, 1, 2)
    )
    assert first == again != other


@given(st.integers(2, 40), st.integers(0, 2**31 - 1))
def test_three_tenths_of_the_agents_are_low_and_three_tenths_medium(agents: int, seed: int) -> None:
    names, damage = tiers(agents, np.random.default_rng(seed))
    assert names.count("low") == names.count("medium") == round(0.3 * agents)
    assert len(names) == len(damage) == agents
    assert set(names) <= set(TIERS)


def test_ten_agents_are_three_low_three_medium_and_four_high() -> None:
    names, _ = tiers(10, np.random.default_rng(0))
    assert sorted(names) == ["high"] * 4 + ["low"] * 3 + ["medium"] * 3


def test_every_agent_comes_into_every_tier_and_is_damaged_accordingly() -> None:
    bounds = {"low": (0.7, 1.0), "medium": (0.3, 0.7), "high": (0.0, 0.3)}
    seen: set[tuple[int, str]] = set()
    ratios: dict[str, list[float]] = {tier: [] for tier in bounds}
    for seed in range(60):
        names, damage = tiers(10, np.random.default_rng(seed))
        seen |= set(enumerate(names))
        for tier, done in zip(names, damage, strict=True):
            ratios[tier].append(done.rewired)
            assert not done.flipped
    assert len(seen) == 30
    for tier, (low, high) in bounds.items():
        assert low <= min(ratios[tier]) < low + 0.05
        assert high - 0.05 < max(ratios[tier]) < high


def test_only_harmful_and_noisy_agents_are_damaged() -> None:
    assert {role: role_damage(role) for role in set(ROLES)} == {
        "good": Damage(),
        "late": Damage(),
        "harmful": Damage(flipped=True),
        "noisy": Damage(rewired=0.7),
    }


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_a_flipped_class_is_always_another_one(classes: int) -> None:
    target = np.arange(classes)
    flipped = flip(target, classes)
    assert (flipped != target).all()
    assert sorted(flipped) == list(range(classes))


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_free_places_are_numbered_row_by_row(n: int, seed: int, dense: float) -> None:
    rng = np.random.default_rng(seed)
    joined = np.triu(rng.random((n, n)) < dense, k=1)
    listed = np.argwhere(np.triu(~joined, k=1))
    pairs = rng.permutation(np.argwhere(joined))
    pairs = np.where(rng.random((len(pairs), 1)) < 0.5, pairs, pairs[:, ::-1])
    wanted = rng.permutation(len(listed))
    assert np.array_equal(unconnected_pairs(pairs, n, wanted), listed[wanted])
