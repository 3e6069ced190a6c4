"""How graphs are wired, compared with the same graphs with random edges.

Made-up and damaged graphs are wired as by chance; what real ones have beyond chance depends on the
field (rings of six in molecules, cliques among actors), so many measures are compared, and which
of them matter comes from the agents' graphs (`mechanism.trust.wiring_trust`).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from motifair.graphs.graph_set import Floats, GraphSet, Ints
from motifair.graphs.perturb import randomise_edges

MOST_GRAPHS = 300  # their means are exact enough
RINGS, DEGREES = 4, 7
PAIRS, LABELS = 64, 16  # buckets of hashed labels, so that members need not agree on a list
SEED = 20_261_116


def wiring(graphs: GraphSet) -> Floats:
    """Return how consistently graphs differ from their random copies in each measure, `(K,)`.

    That is Σd / √(n Σd²) over the differences d of n graphs: 1 if all differ alike, 0 if they
    differ by chance. The copies have as many edges, and nodes with the same labels.
    """
    if len(graphs) == 0:
        return np.zeros(measure_count(labels=graphs.node_label is not None))
    some = graphs.select(np.arange(len(graphs))[:: -(-len(graphs) // MOST_GRAPHS)])
    difference = measures(some) - measures(randomise_edges(some, some.node_label, SEED))
    size = np.sqrt(len(some) * (difference**2).sum(axis=0))
    consistency: Floats = difference.sum(axis=0) / np.maximum(size, 1e-12)
    return consistency


def measure_count(*, labels: bool) -> int:
    """Return the number K of measures, of graphs with or without node labels."""
    return RINGS + DEGREES + 2 + (PAIRS + LABELS if labels else 0)


def measures(graphs: GraphSet) -> Floats:
    """Return for each graph, `(graphs, K)`: closed walks of length 3 to 6 (rings), shares of nodes
    by degree, variance of degrees, components, and edges by labels.
    """
    from scipy.sparse.csgraph import connected_components  # it takes long to import

    count, nodes = len(graphs), np.maximum(graphs.nodes, 1)
    degree = graphs.degree.astype(np.float64)
    ends = np.maximum(_by_graph(graphs, degree), 1)
    adjacency = _adjacency(graphs)
    _, part = connected_components(adjacency, directed=False)
    _, first = np.unique(part, return_index=True)
    of_nodes = [(degree == k).astype(np.float64) for k in range(DEGREES)]
    columns = [_by_graph(graphs, walks) / ends for walks in _closed_walks(adjacency, degree)]
    columns += [_by_graph(graphs, x) / nodes for x in of_nodes]
    columns.append(_by_graph(graphs, degree**2) / nodes - (ends / nodes) ** 2)
    columns.append(np.bincount(graphs.node_graph[first], minlength=count) / nodes)
    return np.column_stack([*columns, *_by_labels(graphs, degree, ends)])


def _closed_walks(adjacency: sparse.csr_array, degree: Floats) -> list[Floats]:
    """Return for each node the closed walks of length 3 to 6 from it, of two parts of at most 3
    steps that never turn back. Where both parts meet they may: at length 4 and 6 also paths count.
    """
    one, inner = adjacency, sparse.diags_array(degree - 1)
    two = sparse.csr_array(one @ one - sparse.diags_array(degree))
    three = sparse.csr_array(two @ one - one @ inner)
    pairs = ((one, two), (two, two), (two, three), (three, three))
    return [np.asarray((a * b.T).sum(axis=1)).ravel() for a, b in pairs]


def _by_labels(graphs: GraphSet, degree: Floats, ends: Ints | Floats) -> list[Floats]:
    """Return the shares of edges between nodes of two labels, and at nodes of one, in buckets."""
    if graphs.node_label is None:
        return []
    label = graphs.node_label
    node = np.repeat(np.arange(len(label)), graphs.degree)
    low = np.minimum(label[node], label[graphs.neighbour])
    high = np.maximum(label[node], label[graphs.neighbour])
    pair = (low * 7919 + high * 104_729) % PAIRS
    ones = np.ones(len(node))
    edges = sparse.coo_array((ones, (graphs.node_graph[node], pair)), (len(graphs), PAIRS))
    at = sparse.coo_array((degree, (graphs.node_graph, label % LABELS)), (len(graphs), LABELS))
    return [c for table in (edges, at) for c in (table.toarray() / ends[:, None]).T]


def _by_graph(graphs: GraphSet, values: Floats) -> Floats:
    return np.bincount(graphs.node_graph, weights=values, minlength=len(graphs)).astype(np.float64)


def _adjacency(graphs: GraphSet) -> sparse.csr_array:
    nodes = len(graphs.degree)
    ones = np.ones(len(graphs.neighbour))
    return sparse.csr_array((ones, graphs.neighbour, graphs.edge_start), shape=(nodes, nodes))
