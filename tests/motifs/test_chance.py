"""Motifs beyond chance: planted ones are found, those of random wiring are not."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from graphs.graph_samples import renumbered, to_networkx
from oracles.rings import motif_counts
from scipy import sparse
from worlds import CPU, small_config, small_split

from motifair.config import make_config
from motifair.errors import MotifairError
from motifair.federation.members import own_vocabulary, prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.cache import GraphCache
from motifair.graphs.features import motif_labels
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.perturb import randomise_edges, rewire
from motifair.graphs.planted import planted
from motifair.motifs import chance
from motifair.motifs.chance import RandomCopy, above_chance
from motifair.motifs.extract import count_motifs

CONFIG = make_config({})
RINGS = ((3, 3, 4), (3, 4, 3, 4), (5, 5, 6), (5, 6, 5, 6))
COMMON = {"ring 3 3 4", "ring 3 4 3 4"}
RARE = {"ring 5 5 6", "ring 5 6 5 6"}
BORDERLINE = 0.07  # how near to the margin two draws may disagree


def beyond(
    graphs: GraphSet, chosen: np.ndarray | None = None, kind: str = "label"
) -> dict[str, bool]:
    """Of every motif whether it is there beyond chance."""
    counted = count_motifs(
        graphs, motif_labels(graphs, kind), rings=CONFIG.rings, max_ring=CONFIG.max_ring
    )
    mine = np.arange(len(graphs)) if chosen is None else chosen
    found = above_chance(CONFIG, graphs, kind, mine, counted)
    assert found.shape == (len(counted.keys),)
    return dict(zip(counted.keys, found.tolist(), strict=True))


def kept(found: dict[str, bool]) -> set[str]:
    return {key for key, there in found.items() if there}


@cache
def graphs_of(agent: int) -> GraphSet:
    """One agent of the planted data: 3 is the late one, with rings of its own."""
    made = planted(4, seed=3)
    return made.graphs.select(np.flatnonzero(made.owner == agent))


def random_wiring(count: int, seed: int, nodes: int = 14, edges: int = 20) -> GraphSet:
    """Graphs whose edges are anywhere, with three labels."""
    rng = np.random.default_rng(seed)
    places = np.argwhere(np.triu(np.ones((nodes, nodes)), k=1))
    drawn = [
        places[rng.choice(len(places), size=edges, replace=False)] + g * nodes for g in range(count)
    ]
    return GraphSet.build(
        "random",
        nodes=[nodes] * count,
        edges=np.concatenate(drawn),
        target=np.arange(count) % 2,
        node_label=rng.integers(3, size=count * nodes),
    )


def without_labels(graphs: GraphSet) -> GraphSet:
    edges, _ = graphs.edge_list()
    return GraphSet.build("bare", nodes=graphs.nodes, edges=edges, target=graphs.target)


# The slow way, with networkx


def wired_anew(graph: nx.Graph, rng: random.Random) -> nx.Graph:
    """The same nodes and as many edges, anywhere."""
    copy = nx.Graph()
    copy.add_nodes_from(graph.nodes(data=True))
    places = list(combinations(sorted(graph.nodes), 2))
    copy.add_edges_from(rng.sample(places, graph.number_of_edges()))
    return copy


def shares(graphs: list[nx.Graph]) -> Counter[str]:
    """In which part of the graphs each motif is."""
    found: Counter[str] = Counter()
    for graph in graphs:
        for kind, labels in motif_counts(graph, CONFIG.max_ring):
            found[" ".join([kind, *map(str, labels)])] += 1 / len(graphs)
    return found


@cache
def slowly(agent: int) -> dict[str, float]:
    """By how much each motif of an agent exceeds chance, as many copies tell."""
    graphs = to_networkx(graphs_of(agent), graphs_of(agent).node_label)
    rng, copies = random.Random(1), 6
    by_chance: Counter[str] = Counter()
    for _ in range(copies):
        by_chance.update(shares([wired_anew(g, rng) for g in graphs]))
    return {key: share - by_chance[key] / copies for key, share in shares(graphs).items()}


@pytest.mark.parametrize("agent", [0, 3])
def test_motifs_are_those_that_a_slow_count_finds_above_chance(agent: int) -> None:
    found, excess = beyond(graphs_of(agent)), slowly(agent)
    assert set(found) == set(excess)
    clear = {key for key in excess if abs(excess[key] - 0.1) > BORDERLINE}
    assert {key: found[key] for key in clear} == {key: excess[key] > 0.1 for key in clear}
    assert len(clear) > 0.8 * len(excess)
    assert {found[key] for key in clear} == {True, False}


# What is found


def test_planted_rings_are_above_chance_and_hardly_any_other_ring_is() -> None:
    for agent, rings in ((0, COMMON), (1, COMMON), (3, COMMON | RARE)):
        found = beyond(graphs_of(agent))
        assert {key for key in kept(found) if key.startswith("ring")} == rings
        assert sum(key.startswith("ring") for key in found) > 5 * len(rings)


@pytest.mark.parametrize("seed", range(3))
def test_graphs_that_are_random_already_have_nearly_no_motif_above_chance(seed: int) -> None:
    found = beyond(random_wiring(500, seed))
    assert len(found) > 30
    assert len(kept(found)) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_of_one_size_without_labels_have_nearly_none_either(seed: int) -> None:
    """Their motifs are of degrees; nothing but the edges tells one graph from another."""
    bare = without_labels(random_wiring(500, seed))
    for kind in ("degree", "attributes"):
        found = beyond(bare, kind=kind)
        assert len(found) > 100
        assert len(kept(found)) <= 1


def test_planted_rings_are_found_whatever_the_numbers_of_their_labels() -> None:
    graphs = graphs_of(3)
    assert graphs.node_label is not None
    found = kept(beyond(graphs))
    for shift in (-4, -1000, 2**40):
        moved = replace(graphs, node_label=graphs.node_label + shift)
        wanted = {f"ring {' '.join(str(k + shift) for k in ring)}" for ring in RINGS}
        assert {key for key in kept(beyond(moved)) if key.startswith("ring")} == wanted
        assert len(kept(beyond(moved))) == pytest.approx(len(found), abs=2)


def test_rewiring_takes_planted_rings_away() -> None:
    graphs = graphs_of(0)
    damaged = rewire(graphs, np.full(len(graphs), 0.95), np.random.default_rng(5))
    assert kept(beyond(graphs)) >= COMMON
    assert not kept(beyond(damaged)) & COMMON


def test_an_agent_that_wires_at_random_has_many_motifs_and_none_of_them_counts() -> None:
    """What makes damaged graphs look rich without it."""
    graphs = graphs_of(0)
    damaged = rewire(graphs, np.ones(len(graphs)), np.random.default_rng(5))
    assert len(beyond(damaged)) > 1.5 * len(beyond(graphs))
    assert len(kept(beyond(damaged))) < len(kept(beyond(graphs)))


# What changes nothing


@pytest.mark.parametrize("times", [2, 3])
def test_graphs_that_are_there_several_times_change_nothing(times: int) -> None:
    for agent in range(4):
        for some in (20, 60, 120):
            graphs = graphs_of(agent).select(np.arange(some))
            once, again = beyond(graphs), beyond(GraphSet.concatenate("again", [graphs] * times))
            assert once == again


@pytest.mark.parametrize("seed", range(3))
def test_renumbering_nodes_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for agent in range(4):
        for some in (20, 60, 120):
            graphs = graphs_of(agent).select(np.arange(some))
            other, _ = renumbered(graphs, rng)
            assert beyond(other) == beyond(graphs)


def test_renumbering_nodes_changes_nothing_where_motifs_are_of_degrees() -> None:
    bare = without_labels(graphs_of(0))
    other, _ = renumbered(bare, np.random.default_rng(0))
    assert beyond(other, kind="degree") == beyond(bare, kind="degree")


def test_the_order_of_graphs_changes_nothing() -> None:
    graphs = graphs_of(3)
    order = np.random.default_rng(1).permutation(len(graphs))
    assert beyond(graphs, order) == beyond(graphs) == beyond(graphs.select(order))


def test_the_same_graphs_give_the_same_motifs_whatever_was_drawn_before() -> None:
    first = beyond(graphs_of(3))
    np.random.seed(7)
    np.random.default_rng().random(100)
    assert beyond(graphs_of(3)) == first


def test_an_agents_motifs_depend_on_its_own_training_graphs_alone() -> None:
    others = GraphSet.concatenate("all", [graphs_of(0), graphs_of(3), random_wiring(50, 1)])
    first = len(graphs_of(0))
    mine = np.arange(first, first + len(graphs_of(3)))
    found, alone = beyond(others, mine), beyond(graphs_of(3))
    assert {key: found[key] for key in alone} == alone
    assert not any(there for key, there in found.items() if key not in alone)


def test_of_very_many_graphs_a_thousand_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    def counted(graphs: GraphSet, *rest: Any) -> GraphSet:
        looked.append(len(graphs))
        return randomise_edges(graphs, *rest)

    monkeypatch.setattr(chance, "randomise_edges", counted)
    monkeypatch.setattr(chance, "AT_ONCE", 2000)
    beyond(random_wiring(1000, 2, nodes=6, edges=6))
    many = random_wiring(2100, 2, nodes=6, edges=6)
    beyond(many)
    assert looked == [1000, 1000, 700, 700]  # every third of 2100


def test_graphs_are_wired_anew_once_for_all_splits_and_again_if_anything_else_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOTIFAIR_CACHE", str(tmp_path))
    monkeypatch.setattr(chance, "_COPIES", GraphCache())
    wired = []

    def counted(graphs: GraphSet, *rest: Any) -> GraphSet:
        wired.append(len(graphs))
        return randomise_edges(graphs, *rest)

    monkeypatch.setattr(chance, "randomise_edges", counted)
    graphs = graphs_of(3)
    first = beyond(graphs, np.arange(10))
    assert len(wired) == chance.COPIES
    beyond(replace(graphs, target=1 - graphs.target), np.arange(10, 20))
    assert len(wired) == chance.COPIES
    beyond(graphs, kind="degree")
    beyond(replace(graphs, node_label=graphs.node_label[::-1].copy()))
    assert len(wired) == 3 * chance.COPIES
    assert beyond(graphs, np.arange(10)) == first  # from the file
    assert len(wired) == 3 * chance.COPIES


# In a federation


def vocabulary(graphs: GraphSet, **options: object) -> set[str]:
    config = make_config(options)
    labels = motif_labels(graphs, "label")
    counted = count_motifs(graphs, labels, rings=config.rings, max_ring=config.max_ring)
    mine = np.arange(len(graphs))
    return set(own_vocabulary(config, "me", graphs, "label", mine, counted).keys)


def test_a_vocabulary_has_the_motifs_above_chance_only_where_that_is_asked_for() -> None:
    graphs = graphs_of(3)
    assert vocabulary(graphs) == kept(beyond(graphs))
    assert vocabulary(graphs, chance=False) == set(beyond(graphs))
    some = vocabulary(graphs, vocabulary_fraction=0.5)
    assert some < kept(beyond(graphs))
    assert len(some) == len(kept(beyond(graphs))) // 2


def test_an_agent_without_edges_is_told_so_with_and_without_chance() -> None:
    bare = GraphSet.build("bare", [3, 3], [], [0, 1], node_label=[0] * 6)
    for asked in (True, False):
        with pytest.raises(MotifairError, match="No training graph of agent 'me' has an edge"):
            vocabulary(bare, chance=asked)


def test_a_federation_in_which_nothing_is_above_chance_continues_without_diversity() -> None:
    """Complete graphs look the same however they are wired."""
    count, nodes = 60, 5
    places = np.argwhere(np.triu(np.ones((nodes, nodes)), k=1))
    rng = np.random.default_rng(0)
    graphs = GraphSet.build(
        "complete",
        nodes=[nodes] * count,
        edges=np.concatenate([places + g * nodes for g in range(count)]),
        target=np.arange(count) % 2,
        node_label=rng.integers(2, size=count * nodes),
    )
    assert not kept(beyond(graphs))
    config = small_config(rounds=2)
    members = prepare(config, small_split(config, graphs), seed=0)
    assert members.index is not None
    assert len(members.index.keys) == 0
    simulation = Simulation(config, members, device=CPU)
    state = simulation.start()
    for _ in range(2):
        state, record = simulation.round(state)
    assert record["diversity"].tolist() == [0.0] * 4
    assert float(record["value"].sum()) == pytest.approx(1)
    assert record["kept"].max() == simulation.model.layout.size


def test_motifs_of_degrees_are_found_above_chance_too() -> None:
    found = beyond(without_labels(graphs_of(0)), kind="degree")
    assert 0 < len(kept(found)) < 0.5 * len(found)


@pytest.mark.parametrize("longest", [2, 3, 4])
def test_copies_with_too_many_rings_to_count_are_taken_to_have_them(
    longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = [[0, 1], [1, 2], [2, 0], [3, 4], [4, 5], [5, 6], [6, 3], [6, 7]]
    graphs = GraphSet.build("rings", [8], edges, [0], node_label=[1] * 7 + [2])
    nothing = sparse.csr_array((1, 0), dtype=np.int64)
    copies = [RandomCopy(nothing, {}, np.array([longest]))] * 2
    monkeypatch.setattr(chance, "_COPIES", GraphCache())
    monkeypatch.setattr(chance, "random_copies", lambda *_: copies)
    there = {"bond 1 2": True, "ring 1 1 1": longest >= 3, "ring 1 1 1 1": longest >= 4}
    assert beyond(graphs) == there
