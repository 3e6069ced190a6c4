"""Small graphs with planted binary tasks or numbers, some of whose labels are missing."""

from __future__ import annotations

import numpy as np

from motifair.graphs.graph_set import GraphSet

NAMES = ("ones", "twos", "size")
LABELS = 3


def planted_tasks(count: int = 80, *, holes: float = 0.3, seed: int = 3) -> GraphSet:
    """Paths whose tasks ask whether labels 1 and 2, and nodes, are more than usual."""
    graphs, numbers = _paths(count, seed)
    answers = (numbers > np.median(numbers, axis=0)).astype(float)
    return graphs.with_values(_with_holes(answers, holes, seed), NAMES)


def planted_numbers(count: int = 80, *, holes: float = 0.0, seed: int = 3) -> GraphSet:
    """Paths whose targets are numbers of labels, which sum pooling can tell, far from 0."""
    graphs, numbers = _paths(count, seed)
    return graphs.with_values(_with_holes(1000 + 7 * numbers[:, :2], holes, seed), NAMES[:2])


def _paths(count: int, seed: int) -> tuple[GraphSet, np.ndarray]:
    """Paths with random labels, and how often each of `NAMES` occurs in them."""
    rng = np.random.default_rng(seed)
    nodes = rng.integers(3, 10, size=count)
    graph = np.repeat(np.arange(count), nodes)
    step = np.flatnonzero(graph[1:] == graph[:-1])
    label = rng.integers(LABELS, size=len(graph))
    made = GraphSet.build(
        "paths", nodes, np.stack([step, step + 1], axis=1), np.zeros(count, int), node_label=label
    )
    counts = [np.bincount(graph, label == c, count) for c in (1, 2)]
    return made, np.stack([*counts, nodes], axis=1).astype(float)


def _with_holes(values: np.ndarray, holes: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 1])
    return np.where(rng.random(values.shape) < holes, np.nan, values)
