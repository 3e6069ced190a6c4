"""Perturb training data: rewired edges, flipped classes, and the paper's quality tiers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.planted import NOISE

TIERS = {"low": (0.7, 1.0), "medium": (0.3, 0.7), "high": (0.0, 0.3)}


@dataclass(frozen=True)
class Damage:
    """Perturbation of an agent's training graphs: share of rewired edges, and flipped classes."""

    rewired: float = 0.0
    flipped: bool = False


def role_damage(role: str) -> Damage:
    """Return the perturbation of an agent with this role in the `planted` dataset."""
    return Damage(rewired=NOISE if role == "noisy" else 0.0, flipped=role == "harmful")


def tiers(agents: int, rng: np.random.Generator) -> tuple[tuple[str, ...], tuple[Damage, ...]]:
    """Draw the paper's tiers: 3/10 of the agents low, 3/10 medium, the rest high quality.

    Agents are assigned to tiers at random: a fixed assignment would confound the quality of an
    agent's data with the data itself.
    """
    low = medium = round(0.3 * agents)
    names = np.array(["low"] * low + ["medium"] * medium + ["high"] * (agents - low - medium))
    rng.shuffle(names)
    damage = tuple(Damage(rewired=float(rng.uniform(*TIERS[n]))) for n in names)
    return tuple(str(n) for n in names), damage


def rewire(graphs: GraphSet, ratio: np.ndarray, rng: np.random.Generator) -> GraphSet:
    """Move ⌊ratio[g]·edges⌋ random edges of graph g to random unconnected pairs of nodes.

    The number of edges stays the same, without self-loops or repeated edges. If a graph has fewer
    unconnected pairs than edges to move, only that many are moved. Node labels and attributes stay;
    edge labels move with their edge.
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
        chosen = rng.choice(free, size=count, replace=False)
        moved[out] = unconnected_pairs(there, n, chosen) + start
    return graphs.with_edges(moved, labels)


def randomise_edges(graphs: GraphSet, labels: Ints | None, seed: int) -> GraphSet:
    """Replace the edges of every graph by as many random ones (Erdős–Rényi with fixed edge count).

    There are no self-loops or repeated edges. The draw is a function of the seed and of the
    multisets of a graph's node degrees and labels and edge labels: renumbered copies of a graph get
    the same edges. Node `labels` (optional) and edge labels are kept, in sorted order; attributes
    are dropped.

    >>> ring = GraphSet.build("ring", [4], [[0, 1], [1, 2], [2, 3], [3, 0]], [0])
    >>> len(randomise_edges(ring, None, seed=0).edge_list()[0])
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
            rng = _keyed_rng(seed, np.sort(np.rec.fromarrays(known)), of_edges)
            count, n = edges.stop - edges.start, int(graphs.nodes[g])
            drawn[edges] = _random_pairs(n, count, rng) + nodes.start
    return replace(graphs, node_label=ordered, attribute=None).with_edges(drawn, kinds)


def _keyed_rng(seed: int, *parts: np.ndarray) -> np.random.Generator:
    """Return a random number generator seeded by the contents of some arrays."""
    sha = hashlib.sha256(str(seed).encode())
    for part in parts:
        sha.update(part.tobytes() + b"/")
    return np.random.default_rng(int.from_bytes(sha.digest(), "little"))


def _random_pairs(n: int, count: int, rng: np.random.Generator) -> Ints:
    """Draw distinct pairs of n nodes, in random order."""
    return _pairs(n, rng.choice(n * (n - 1) // 2, size=count, replace=False))


def _before(n: int) -> Ints:
    """Return the number of pairs of n nodes before the first pair that begins with each node."""
    return np.concatenate([[0], np.cumsum(np.arange(n - 1, 0, -1))])


def _pairs(n: int, number: Ints) -> Ints:
    """Return the pairs of n nodes with these numbers, in the order (0, 1), (0, 2) ... (1, 2) ..."""
    before = _before(n)
    i = np.searchsorted(before, number, side="right") - 1
    return np.column_stack([i, number - before[i] + i + 1])


def flip(target: Ints, classes: int) -> Ints:
    """Give every graph the next class (with two classes: the other one)."""
    return (target + 1) % classes


def unconnected_pairs(edges: Ints, n: int, chosen: Ints) -> Ints:
    """Return the chosen unconnected pairs of n nodes, by their numbers among all unconnected pairs.

    >>> unconnected_pairs(np.array([[1, 0], [0, 3]]), 4, np.array([0, 1, 3])).tolist()
    [[0, 2], [1, 2], [2, 3]]
    """
    low, high = edges.min(axis=1, initial=n), edges.max(axis=1, initial=0)
    taken = np.sort(_before(n)[low] + high - low - 1)
    # `taken[k] - k` unconnected pairs come before edge k: larger numbers are shifted past it.
    skipped = np.searchsorted(taken - np.arange(len(taken)), chosen, side="right")
    return _pairs(n, chosen + skipped)
