"""Agents with random graphs of every awkward kind, as ours and as PyG's."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from motifair.graphs.batch import Shard, make_shard
from motifair.graphs.features import Features, fit_features
from motifair.graphs.graph_set import GraphSet

CLASSES = 3
LABELS = 4
EDGE_LABELS = (2, 5, 7)
SIZES = (6, 1, 4)


def random_graphs(count: int, seed: int) -> GraphSet:
    """Sparse graphs of 1 to 9 nodes; many nodes are isolated, and one graph has no edge."""
    rng = np.random.default_rng(seed)
    nodes = rng.integers(1, 10, size=count)
    nodes[0] = 3
    edges = []
    for g in range(1, count):
        first = int(nodes[:g].sum())
        pairs = rng.integers(nodes[g], size=(nodes[g], 2))
        edges += (pairs + first).tolist()
    total = int(nodes.sum())
    # Every label occurs, so that widths agree between agents.
    label = np.concatenate([np.arange(LABELS), rng.integers(LABELS, size=total)])[:total]
    return GraphSet.build(
        "random",
        nodes=nodes,
        edges=edges,
        target=rng.integers(CLASSES, size=count),
        class_values=range(CLASSES),
        node_label=label,
        edge_label=np.random.default_rng(seed + 1).choice(EDGE_LABELS, len(edges)),
        attribute=rng.normal(size=(total, 2)) * [1, 100] + [0, 5],
    )


def random_agents(kind: str) -> tuple[Features, list[Shard]]:
    """Three agents of unequal size that agree on how nodes are encoded."""
    graphs = random_graphs(sum(SIZES), seed=8)
    features = fit_features(graphs, np.arange(len(graphs)), kind)
    parts = np.split(np.arange(len(graphs)), np.cumsum(SIZES)[:-1])
    return features, [make_shard(graphs.select(part), features) for part in parts]


def as_pyg(shard: Shard, features: Features) -> list[Data]:
    """The agent's graphs one by one, with inputs worked out from their definition."""
    graphs = shard.graphs
    if features.kind == "attributes":
        assert graphs.attribute is not None
        x = (graphs.attribute - features.mean) / features.scale
    else:
        column = graphs.degree if features.kind == "degree" else graphs.node_label
        x = np.eye(features.width)[column]
    edges, _ = graphs.edge_list()
    found = []
    for g in range(len(graphs)):
        first, stop = graphs.node_start[g], graphs.node_start[g + 1]
        own = edges[(edges[:, 0] >= first) & (edges[:, 0] < stop)] - first
        both = np.concatenate([own, own[:, ::-1]]).T
        found.append(
            Data(
                x=torch.tensor(x[first:stop]),
                edge_index=torch.tensor(both.copy()),
                y=torch.tensor([graphs.target[g]]),
            )
        )
    return found
