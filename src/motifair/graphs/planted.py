"""The `planted` dataset: generated graphs with planted motifs, and agents with known roles.

A graph is a random tree with a few extra edges, plus rings that depend on its class: two of the
class's own kind and, with probability ½, one of the other's. Most agents hold *common* rings; a
*late* agent holds mostly *rare* ones, with node labels that no other agent has. Harmful and noisy
agents have only their training graphs perturbed, after the split (`perturb.py`): test sets are
always clean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from motifair.graphs.graph_set import GraphSet, Ints

ROLES = ("good", "good", "harmful", "late", "noisy", "good", "good", "noisy", "good", "good")
GRAPHS_PER_AGENT = 120
TREE_NODES = (12, 20)
EXTRA_EDGES = 2
BACKGROUND_LABELS = 3
COMMON = ((3, 4, 3, 4), (3, 3, 4))  # the ring of class 0 and of class 1, as node labels
RARE = ((5, 6, 5, 6), (5, 5, 6))
RARE_SHARE = 0.7
NOISE = 0.7


@dataclass(frozen=True)
class Planted:
    """The generated graphs, the agent that holds each graph, and the role of each agent."""

    graphs: GraphSet
    owner: Ints
    roles: tuple[str, ...]


@lru_cache(maxsize=8)  # runs that are compared share their graphs
def planted(agents: int, seed: int) -> Planted:
    """Generate 120 graphs for each agent; an agent's graphs do not depend on the others.

    >>> data = planted(agents=3, seed=0)
    >>> data.roles, len(data.graphs)
    (('good', 'good', 'harmful'), 360)
    """
    roles = tuple(ROLES[a % len(ROLES)] for a in range(agents))
    nodes: list[int] = []
    edges: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    target: list[int] = []
    total = 0
    for agent, role in enumerate(roles):
        rng = np.random.default_rng([seed, agent])
        for number in range(GRAPHS_PER_AGENT):
            y = number % 2
            rare = role == "late" and rng.random() < RARE_SHARE
            graph_edges, graph_labels = _graph(rng, y, RARE if rare else COMMON)
            nodes.append(len(graph_labels))
            edges.append(graph_edges + total)
            labels.append(graph_labels)
            target.append(y)
            total += len(graph_labels)
    graphs = GraphSet.build(
        "planted",
        nodes=nodes,
        edges=np.concatenate(edges),
        target=target,
        node_label=np.concatenate(labels),
    )
    return Planted(graphs, np.repeat(np.arange(agents), GRAPHS_PER_AGENT), roles)


def _graph(
    rng: np.random.Generator, y: int, rings: tuple[tuple[int, ...], tuple[int, ...]]
) -> tuple[np.ndarray, np.ndarray]:
    """Draw one graph: a tree, extra edges, and rings each attached to a random tree node."""
    n = int(rng.integers(TREE_NODES[0], TREE_NODES[1] + 1))
    edges = [(int(rng.integers(v)), v) for v in range(1, n)]
    edges += [(int(a), int(b)) for a, b in rng.integers(n, size=(EXTRA_EDGES, 2))]
    labels = rng.integers(BACKGROUND_LABELS, size=n).tolist()
    for kind in [y, y] + [1 - y] * int(rng.random() < 0.5):
        ring, first = rings[kind], len(labels)
        labels += ring
        edges += [(first + k, first + (k + 1) % len(ring)) for k in range(len(ring))]
        edges.append((int(rng.integers(n)), first + int(rng.integers(len(ring)))))
    return np.array(edges, dtype=np.int64), np.array(labels, dtype=np.int64)
