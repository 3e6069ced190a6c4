"""`twitter-like`: a generated dataset of 144,033 graphs with four nodes on average.

A substitute for TWITTER-Real-Graph-Partial, which this project cannot redistribute, with the same
published statistics: number of graphs, mean nodes, mean edges, node labels, classes. Nothing else
is copied from it: run time and memory are comparable, accuracies are not.
"""

from __future__ import annotations

import numpy as np

from motifair.graphs.graph_set import GraphSet, Ints, ranges

TWITTER_LIKE = "twitter-like"
GRAPHS, MEAN_NODES, MEAN_EDGES, LABELS = 144_033, 4.03, 4.98, 1_323
SIZES = np.arange(2, 9)
SIZE_SHARES = (0.10, 0.27, 0.32, 0.18, 0.09, 0.03, 0.01)
TILT = 0.25  # standard deviation of the log ratio of a label's frequency in a class to the mean


def twitter_like(seed: int = 0) -> GraphSet:
    """Generate connected graphs of 2 to 8 nodes, in two classes of equal size.

    Label frequencies follow Zipf's law and depend on the class of the graph; the best classifier
    is right in about two of three cases.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.choice(SIZES, size=GRAPHS, p=SIZE_SHARES)
    nodes = _with_sum(drawn, round(MEAN_NODES * GRAPHS), 2 + 0 * drawn, 8 + 0 * drawn, rng)
    tree, complete = nodes - 1, nodes * (nodes - 1) // 2
    drawn = tree + rng.binomial(complete - tree, 0.5)
    edges = _with_sum(drawn, round(MEAN_EDGES * GRAPHS), tree, complete, rng)
    target = rng.permutation(GRAPHS) % 2
    return GraphSet.build(
        TWITTER_LIKE,
        nodes=nodes,
        edges=_edges(nodes, edges, rng),
        target=target,
        node_label=_labels(np.repeat(target, nodes), rng),
    )


def _with_sum(counts: Ints, total: int, least: Ints, most: Ints, rng: np.random.Generator) -> Ints:
    """Change random counts by one, within their limits, until they sum to `total`."""
    counts = counts.copy()
    while missing := total - int(counts.sum()):
        room = np.flatnonzero(counts < most if missing > 0 else counts > least)
        counts[rng.permutation(room)[: abs(missing)]] += np.sign(missing)
    return counts


def _edges(nodes: Ints, edges: Ints, rng: np.random.Generator) -> Ints:
    """Draw the edges of every graph: a random spanning tree, then other random pairs."""
    first = np.repeat(np.cumsum(nodes) - nodes, nodes)
    place = ranges(np.zeros_like(nodes), nodes)  # position of each node in its graph
    # Every pair once: a node with each earlier node of its graph.
    high = np.repeat(np.arange(len(place)), place)
    low = ranges(first, place)
    parent = first + (rng.random(len(place)) * place).astype(np.int64)
    rank = np.where(parent[high] == low, -1.0, rng.random(len(low)))
    pairs = nodes * (nodes - 1) // 2
    order = np.lexsort((rank, np.repeat(np.arange(len(nodes)), pairs)))
    kept = order[ranges(np.cumsum(pairs) - pairs, edges)]
    return np.stack([low[kept], high[kept]], axis=1)


def _labels(target: Ints, rng: np.random.Generator) -> Ints:
    """Draw the label of every node given the class of its graph; every label occurs."""
    lean = TILT * rng.standard_normal(LABELS)
    labels = np.empty(len(target), dtype=np.int64)
    for c, sign in enumerate((-1, 1)):
        share = np.exp(sign * lean) / np.arange(1, LABELS + 1)
        members = np.flatnonzero(target == c)
        labels[members] = rng.choice(LABELS, size=len(members), p=share / share.sum())
    labels[rng.choice(len(labels), size=LABELS, replace=False)] = np.arange(LABELS)
    return labels
