"""Worse data on purpose: rewired edges, flipped classes, and the paper's quality tiers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.planted import NOISE

TIERS = {"low": (0.7, 1.0), "medium": (0.3, 0.7), "high": (0.0, 0.3)}


@dataclass(frozen=True)
class Damage:
    """What is done to an agent's training graphs."""

    rewired: float = 0.0
    flipped: bool = False


def role_damage(role: str) -> Damage:
    """Return what makes an agent of the embedded dataset what it is."""
    return Damage(rewired=NOISE if role == "noisy" else 0.0, flipped=role == "harmful")


def tiers(agents: int, rng: np.random.Generator) -> tuple[tuple[str, ...], tuple[Damage, ...]]:
    """Draw the paper's tiers: 3/10 of the agents low, 3/10 medium, the rest high quality.

    Which agent is in which tier is drawn too: a tier fixed to an agent would confound the quality
    of its data with the data itself.
    """
    low = medium = round(0.3 * agents)
    names = np.array(["low"] * low + ["medium"] * medium + ["high"] * (agents - low - medium))
    rng.shuffle(names)
    damage = tuple(Damage(rewired=float(rng.uniform(*TIERS[n]))) for n in names)
    return tuple(str(n) for n in names), damage


def rewire(graphs: GraphSet, ratio: np.ndarray, rng: np.random.Generator) -> GraphSet:
    """In graph g move ⌊ratio[g]·edges⌋ random edges to random places where there was none.

    The number of edges stays; no loops, no repeated edges. Where a graph has fewer free places
    than edges to move, only so many are moved. Node labels and attributes stay; edge labels
    travel with the edge.
    """
    pairs, entry = graphs.edge_list()
    labels = None if graphs.edge_label is None else graphs.edge_label[entry]
    graph_of = graphs.node_graph[pairs[:, 0]]
    edge_bounds = np.searchsorted(graph_of, np.arange(len(graphs) + 1))
    moved = pairs.copy()
    for g in np.flatnonzero(ratio > 0):
        first, last = edge_bounds[g], edge_bounds[g + 1]
        start, n = int(graphs.node_start[g]), int(graphs.nodes[g])
        there = pairs[first:last] - start
        free = n * (n - 1) // 2 - len(there)
        count = min(int(ratio[g] * (last - first)), free)
        out = first + rng.choice(last - first, size=count, replace=False)
        moved[out] = free_places(there, n, rng.choice(free, size=count, replace=False)) + start
    return graphs.with_edges(moved, labels)


def wire_anew(graphs: GraphSet, labels: Ints | None, seed: int) -> GraphSet:
    """Give every graph as many edges as it has, between pairs of nodes drawn at random.

    No loops, no repeated edges. The draw depends on nothing but the seed and what a graph's nodes
    and edges are, whatever their order: copies of a graph, however numbered, are wired alike.
    Nodes keep their `labels`, if there are any, and edges theirs; attributes are left out.

    >>> ring = GraphSet.build("ring", [4], [[0, 1], [1, 2], [2, 3], [3, 0]], [0])
    >>> len(wire_anew(ring, None, seed=0).edge_list()[0])
    4
    """
    pairs, entry = graphs.edge_list()
    kinds = None if graphs.edge_label is None else graphs.edge_label[entry]
    bounds = np.searchsorted(graphs.node_graph[pairs[:, 0]], np.arange(len(graphs) + 1))
    drawn, ordered = np.empty_like(pairs), None if labels is None else labels.copy()
    for g in range(len(graphs)):
        nodes = slice(int(graphs.node_start[g]), int(graphs.node_start[g] + graphs.nodes[g]))
        edges = slice(int(bounds[g]), int(bounds[g + 1]))
        known = [graphs.degree[nodes]]
        if labels is not None and ordered is not None:
            known.append(labels[nodes])
            ordered[nodes] = np.sort(labels[nodes])
        if kinds is not None:
            kinds[edges] = np.sort(kinds[edges])
        if edges.stop > edges.start:
            of_edges = np.zeros(0, np.int64) if kinds is None else kinds[edges]
            rng = _rng_of(seed, np.sort(np.rec.fromarrays(known)), of_edges)
            count, n = edges.stop - edges.start, int(graphs.nodes[g])
            drawn[edges] = _some_pairs(n, count, rng) + nodes.start
    return replace(graphs, node_label=ordered, attribute=None).with_edges(drawn, kinds)


def _rng_of(seed: int, *parts: np.ndarray) -> np.random.Generator:
    """Return a source of randomness that is a function of some arrays."""
    sha = hashlib.sha256(str(seed).encode())
    for part in parts:
        sha.update(part.tobytes() + b"/")
    return np.random.default_rng(int.from_bytes(sha.digest(), "little"))


def _some_pairs(n: int, count: int, rng: np.random.Generator) -> Ints:
    """Draw different pairs of n nodes, in random order."""
    return _pairs(n, rng.choice(n * (n - 1) // 2, size=count, replace=False))


def _before(n: int) -> Ints:
    """Return how many pairs of n nodes come before those that begin with each node."""
    return np.concatenate([[0], np.cumsum(np.arange(n - 1, 0, -1))])


def _pairs(n: int, number: Ints) -> Ints:
    """Return the pairs of n nodes with these numbers, in the order (0, 1), (0, 2) ... (1, 2) ..."""
    before = _before(n)
    i = np.searchsorted(before, number, side="right") - 1
    return np.column_stack([i, number - before[i] + i + 1])


def flip(target: Ints, classes: int) -> Ints:
    """Give every graph the next class (with two classes: the other one)."""
    return (target + 1) % classes


def free_places(joined: Ints, n: int, wanted: Ints) -> Ints:
    """Return the pairs of n nodes that are `wanted`, by their numbers among those not joined.

    >>> free_places(np.array([[1, 0], [0, 3]]), 4, np.array([0, 1, 3])).tolist()
    [[0, 2], [1, 2], [2, 3]]
    """
    low, high = joined.min(axis=1, initial=n), joined.max(axis=1, initial=0)
    taken = np.sort(_before(n)[low] + high - low - 1)
    # Free places before each taken one: that many are skipped by a number not larger.
    skipped = np.searchsorted(taken - np.arange(len(taken)), wanted, side="right")
    return _pairs(n, wanted + skipped)
