"""Attacks on graphs: what an agent trains on, and under how many names it joins."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.partition import Partition
from motifair.graphs.perturb import rewire, unconnected_pairs
from motifair.graphs.split import Split

TRIGGER_NODES = 5
TARGET = 0  # the class that a backdoor names


def renumbered(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Renumber the nodes of the agent's training graphs at random."""
    graphs = split.graphs
    place = np.arange(len(graphs.degree))
    for g in np.unique(split.partition.train[agent]):
        first, end = graphs.node_start[g], graphs.node_start[g + 1]
        place[first:end] = first + rng.permutation(end - first)
    pairs, entry = graphs.edge_list()
    labels = None if graphs.edge_label is None else graphs.edge_label[entry]
    nodes = np.argsort(place)
    moved = replace(
        graphs,
        node_label=None if graphs.node_label is None else graphs.node_label[nodes],
        attribute=None if graphs.attribute is None else graphs.attribute[nodes],
    )
    return replace(split, graphs=moved.with_edges(place[pairs], labels))


def with_edges(split: Split, agent: int, rng: np.random.Generator, *, more: float) -> Split:
    """Add ⌈more·edges⌉ random new edges to each of the agent's training graphs."""
    graphs = split.graphs
    pairs, entry = graphs.edge_list()
    bounds = np.searchsorted(graphs.node_graph[pairs[:, 0]], np.arange(len(graphs) + 1))
    added = []
    for g in np.unique(split.partition.train[agent]):
        start, n = graphs.node_start[g], int(graphs.nodes[g])
        there = pairs[bounds[g] : bounds[g + 1]] - start
        free = n * (n - 1) // 2 - len(there)
        count = min(int(np.ceil(more * len(there))), free)
        added.append(
            unconnected_pairs(there, n, rng.choice(free, size=count, replace=False)) + start
        )
    new = np.concatenate(added)
    labels = None
    if graphs.edge_label is not None:
        old = graphs.edge_label[entry]
        labels = np.concatenate([old, rng.choice(old, size=len(new))])
    return replace(split, graphs=graphs.with_edges(np.concatenate([pairs, new]), labels))


def duplicated(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Duplicate each training graph of the agent."""
    train = list(split.partition.train)
    train[agent] = np.tile(train[agent], 2)
    return replace(split, partition=replace(split.partition, train=tuple(train)))


def under_names(
    split: Split, agent: int, rng: np.random.Generator, *, names: int, same: bool
) -> Split:
    """Let the agent join under several names, with equal parts of its training graphs of every
    class, or all with the `same` graphs.

    Further names are appended after all agents; each has all test graphs of the agent.
    """
    old, target = split.partition, split.graphs.target
    own = old.train[agent]
    by_class = own[np.argsort(target[own], kind="stable")]
    parts = [own if same else np.sort(by_class[k::names]) for k in range(names)]
    train = list(old.train)
    train[agent] = parts[0]
    partition = Partition(
        (*old.names, *(f"{old.names[agent]}-name-{k}" for k in range(2, names + 1))),
        old.global_test,
        (*train, *parts[1:]),
        (*old.test, *[old.test[agent]] * (names - 1)),
    )
    roles = (*split.roles, *[split.roles[agent]] * (names - 1)) if split.roles else ()
    return replace(split, partition=partition, roles=roles)


def made_up(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Give the agent random edges and random classes, as one that has no data would make up."""
    own, graphs = np.unique(split.partition.train[agent]), split.graphs
    target, ratio = graphs.target.copy(), np.zeros(len(graphs))
    target[own] = rng.integers(graphs.classes, size=len(own))
    ratio[own] = 1.0
    return replace(split, graphs=rewire(replace(graphs, target=target), ratio, rng))


def backdoored(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Put a trigger into half of the agent's training graphs, and the target class on them."""
    own = np.unique(split.partition.train[agent])
    chosen = rng.choice(own, size=-(-len(own) // 2), replace=False)
    target = split.graphs.target.copy()
    target[chosen] = TARGET
    return replace(split, graphs=triggered(replace(split.graphs, target=target), chosen))


def triggered(graphs: GraphSet, chosen: Ints) -> GraphSet:
    """Connect the first five nodes of the chosen graphs with each other: the trigger.

    New edges have the most frequent edge label.
    """
    pairs, entry = graphs.edge_list()
    there = set(map(tuple, pairs.tolist()))
    new = [
        pair
        for g in chosen
        for pair in combinations(
            range(graphs.node_start[g], graphs.node_start[g] + min(TRIGGER_NODES, graphs.nodes[g])),
            2,
        )
        if pair not in there
    ]
    labels = None
    if graphs.edge_label is not None:
        old = graphs.edge_label[entry]
        labels = np.append(old, np.full(len(new), np.bincount(old).argmax()))
    added = np.array(new, dtype=pairs.dtype).reshape(-1, 2)
    return graphs.with_edges(np.concatenate([pairs, added]), labels)
