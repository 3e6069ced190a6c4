"""Perturb training data: whose it is, and how: edges, classes, duplicates."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from motifair.graphs.graph_set import Floats, GraphSet, Ints
from motifair.graphs.partition import stratified
from motifair.graphs.planted import NOISE
from motifair.graphs.targets import is_binary
from motifair.graphs.task import TargetSums

TIERS = {"low": (0.7, 1.0), "medium": (0.3, 0.7), "high": (0.0, 0.3)}


@dataclass(frozen=True)
class Damage:
    """Perturbation of an agent's training graphs.

    Attributes:
        rewired: Share of edges that are moved, see `rewire`.
        flipped: Whether every graph has the next class, see `flip`.
        noise: Share of graphs with another class, drawn at random.
        guessed: Whether all classes are drawn at random.
        copies: How often each graph is there; of c copies, a c-th of the graphs is kept.
        twin: Index of the agent whose training graphs it has instead of its own, or None.
    """

    rewired: float = 0.0
    flipped: bool = False
    noise: float = 0.0
    guessed: bool = False
    copies: int = 1
    twin: int | None = None


Assigned = tuple[tuple[str, ...], tuple[Damage, ...]]  # role and perturbation of each agent
Assignment = Callable[[int, np.random.Generator], Assigned]


def role_damage(role: str) -> Damage:
    """Return the perturbation of an agent with this role in the `planted` dataset."""
    return Damage(rewired=NOISE if role == "noisy" else 0.0, flipped=role == "harmful")


def tiers(agents: int, rng: np.random.Generator) -> Assigned:
    """Draw the paper's tiers: 3/10 of the agents low, 3/10 medium, the rest high quality.

    Agents are assigned to tiers at random: a fixed assignment would confound the quality of an
    agent's data with the data itself.
    """
    low = medium = round(0.3 * agents)
    names = np.array(["low"] * low + ["medium"] * medium + ["high"] * (agents - low - medium))
    rng.shuffle(names)
    damage = tuple(Damage(rewired=float(rng.uniform(*TIERS[n]))) for n in names)
    return tuple(str(n) for n in names), damage


def label_noise(agents: int, rng: np.random.Generator) -> Assigned:
    """Draw the tiers, with wrong classes instead of rewired edges: half the ratio of a tier.

    Half, since with two classes a ratio above one half would bring information back.
    """
    names, damage = tiers(agents, rng)
    return names, tuple(Damage(noise=d.rewired / 2) for d in damage)


def twins(agents: int, rng: np.random.Generator) -> Assigned:
    """Give the second of two random agents the training graphs of the first."""
    first, second = (int(k) for k in rng.choice(agents, size=2, replace=False))
    roles = tuple("twin" if k in (first, second) else "single" for k in range(agents))
    damage = tuple(Damage(twin=first if k == second else None) for k in range(agents))
    return roles, damage


def _some(share: float, role: str, rest: str, damage: Damage) -> Assignment:
    """Return a function that gives a share of agents, at least one, a role and a perturbation."""

    def assign(agents: int, rng: np.random.Generator) -> Assigned:
        chosen = set(rng.choice(agents, size=max(1, round(share * agents)), replace=False).tolist())
        roles = tuple(role if k in chosen else rest for k in range(agents))
        return roles, tuple(damage if k in chosen else Damage() for k in range(agents))

    return assign


PERTURBATIONS: dict[str, Assignment] = {
    "tiers": tiers,
    "label-noise": label_noise,
    "inverted": _some(0.2, "inverted", "honest", Damage(flipped=True)),
    "duplicates": _some(0.3, "duplicates", "distinct", Damage(copies=3)),
    "twins": twins,
    "free-riders": _some(0.2, "free-rider", "honest", Damage(rewired=1.0, guessed=True)),
}


def perturb_classes(target: Ints, damage: Damage, classes: int, rng: np.random.Generator) -> Ints:
    """Return an agent's classes, perturbed; nothing is drawn where nothing is random."""
    if damage.flipped:
        target = flip(target, classes)
    if damage.noise:
        wrong = rng.choice(len(target), size=round(damage.noise * len(target)), replace=False)
        target = target.copy()
        target[wrong] += rng.integers(1, max(2, classes), size=len(wrong))
        target %= classes
    if damage.guessed:
        target = rng.integers(classes, size=len(target))
    return target


def perturb_values(values: Floats, damage: Damage, rng: np.random.Generator) -> Floats:
    """Return an agent's targets, perturbed as `perturb_classes` does classes; holes stay.

    Wrong answers to binary tasks are the other ones, and guessed ones drawn. Wrong numbers are
    inverted about the agent's mean, and guessed ones drawn from the agent's own.
    """
    values, known = values.copy(), ~np.isnan(values)
    binary = is_binary(values)
    wrong = 1 - values if binary else 2 * TargetSums.of(values).mean - values
    if damage.flipped:
        values = wrong
    if damage.noise:
        size = round(damage.noise * len(values))
        chosen = rng.choice(len(values), size=size, replace=False)
        values[chosen] = wrong[chosen]
    if damage.guessed:
        drawn = rng.integers(2, size=values.shape) if binary else _drawn(values, rng)
        values = np.where(known, drawn, np.nan)
    return values


def _drawn(values: Floats, rng: np.random.Generator) -> Floats:
    """Draw numbers for all graphs from the known ones of each target."""
    drawn = np.full(values.shape, np.nan)
    for t, column in enumerate(values.T):
        if len(known := column[~np.isnan(column)]):
            drawn[:, t] = rng.choice(known, size=len(column))
    return drawn


def repeat(target: Ints, copies: int, rng: np.random.Generator) -> Ints:
    """Draw ⌈n/copies⌉ of n graphs, at least two; return their indices, `copies` times each.

    Classes stay in proportion, and an agent with two classes to train on keeps two.

    >>> repeat(np.array([0, 0, 0, 0, 1]), 3, np.random.default_rng(0)).tolist()
    [2, 4, 2, 4, 2, 4]
    """
    order = rng.permutation(len(target))
    kept = order[stratified(target[order])][: max(2, -(-len(target) // copies))]
    return np.tile(np.sort(kept), copies)


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
    of_node, of_edge = graphs.node_graph, graphs.node_graph[pairs[:, 0]]
    known = [graphs.degree] if labels is None else [graphs.degree, labels]
    rows = np.stack(known, axis=1)[np.lexsort((*reversed(known), of_node))]
    ordered = None if labels is None else _sorted_within(labels, of_node)
    kinds = None if graphs.edge_label is None else _sorted_within(graphs.edge_label[entry], of_edge)
    # Pairs of nodes are numbered through all graphs: how many are before the first of each node.
    later = graphs.node_start[1:][of_node] - 1 - np.arange(len(of_node))
    before = np.cumsum(later) - later
    number = np.empty(len(pairs), np.int64)
    bounds = np.searchsorted(of_edge, np.arange(len(graphs) + 1))
    for g in np.flatnonzero(np.diff(bounds)):
        first, last = graphs.node_start[g : g + 2].tolist()
        edges = slice(*bounds[g : g + 2].tolist())
        of_edges = b"" if kinds is None else kinds[edges].tobytes()
        rng = _keyed_rng(seed, rows[first:last].tobytes(), of_edges)
        possible, count = (last - first) * (last - first - 1) // 2, edges.stop - edges.start
        number[edges] = before[first] + rng.choice(possible, size=count, replace=False)
    low = np.searchsorted(before, number, side="right") - 1
    drawn = np.column_stack([low, low + 1 + number - before[low]])
    return replace(graphs, node_label=ordered, attribute=None).with_edges(drawn, kinds)


def _sorted_within(values: Ints, group: Ints) -> Ints:
    """Sort values within each group; groups are in order."""
    return values[np.lexsort((values, group))]


def _keyed_rng(seed: int, *parts: bytes) -> np.random.Generator:
    """Return a random number generator seeded by some bytes."""
    sha = hashlib.sha256(str(seed).encode())
    for part in parts:
        sha.update(part + b"/")
    return np.random.default_rng(int.from_bytes(sha.digest(), "little"))


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
