"""Ring and bond motifs of a labelled graph, and the TF-IDF choice of a vocabulary."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import networkx as nx

Motif = tuple[str, tuple[Any, ...]]

SHORTEST_RING = 3


def has_edge_labels(graph: nx.Graph) -> bool:
    """Whether the edges carry labels (then all of them must)."""
    return any("label" in attributes for _, _, attributes in graph.edges(data=True))


def ring_key(graph: nx.Graph, ring: Sequence[Any]) -> Motif:
    """("ring", s) with s the smallest sequence over all starts and both directions.

    The sequence is (node_0, edge_01, node_1, ..., node_{L-1}, edge_{L-1,0}) in labels, or the
    node labels alone where edges have none.
    """
    length = len(ring)
    labelled = has_edge_labels(graph)
    sequences = []
    for start in range(length):
        for direction in (1, -1):
            walk = [ring[(start + direction * step) % length] for step in range(length)]
            sequence = []
            for here, there in zip(walk, walk[1:] + walk[:1], strict=True):
                sequence.append(graph.nodes[here]["label"])
                if labelled:
                    sequence.append(graph.edges[here, there]["label"])
            sequences.append(tuple(sequence))
    return ("ring", min(sequences))


def bond_key(graph: nx.Graph, u: Any, v: Any) -> Motif:
    """("bond", (lower label, higher label)), with the edge label as third entry if it exists."""
    low, high = sorted((graph.nodes[u]["label"], graph.nodes[v]["label"]))
    if has_edge_labels(graph):
        return ("bond", (low, high, graph.edges[u, v]["label"]))
    return ("bond", (low, high))


def motif_counts(graph: nx.Graph, max_ring: int) -> Counter[Motif]:
    """Count the motifs of a simple undirected graph without self-loops.

    Rings are the chordless cycles of length 3..max_ring; every edge on none of them is a bond.
    """
    counts: Counter[Motif] = Counter()
    on_ring: set[frozenset[Any]] = set()
    for ring in nx.chordless_cycles(graph, length_bound=max_ring):
        if len(ring) >= SHORTEST_RING:
            counts[ring_key(graph, ring)] += 1
            on_ring |= {frozenset(e) for e in zip(ring, ring[1:] + ring[:1], strict=True)}
    for u, v in graph.edges:
        if frozenset((u, v)) not in on_ring:
            counts[bond_key(graph, u, v)] += 1
    return counts


def tfidf_scores(per_graph_counts: Sequence[Counter[Motif]], form: str) -> dict[Motif, float]:
    """T_k = mean over the df graphs that contain k of T_{k,G}.

    paper:  T_{k,G} = C(k)_G * log((1 + n) / (1 + df)) + 1
    smooth: T_{k,G} = C(k)_G * (log((1 + n) / (1 + df)) + 1)

    Both are affine in C(k)_G, so the mean is taken over the integer counts: motifs with the same
    total count and the same df then tie exactly.
    """
    occurrences: Counter[Motif] = Counter()
    containing: Counter[Motif] = Counter()
    for counts in per_graph_counts:
        occurrences.update(counts)
        containing.update(counts.keys())
    scores = {}
    for motif, df in containing.items():
        mean_count = occurrences[motif] / df
        idf = math.log((1 + len(per_graph_counts)) / (1 + df))
        if form == "paper":
            scores[motif] = mean_count * idf + 1
        elif form == "smooth":
            scores[motif] = mean_count * (idf + 1)
        else:
            raise ValueError(f"unknown TF-IDF form {form!r}")
    return scores


def tfidf_vocabulary(
    per_graph_counts: Sequence[Counter[Motif]], fraction: float, form: str
) -> set[Motif]:
    """The max(1, floor(fraction * V)) motifs of highest T_k, ties by the smaller key."""
    scores = tfidf_scores(per_graph_counts, form)
    ranked = sorted(scores, key=lambda motif: (-scores[motif], motif))
    return set(ranked[: max(1, math.floor(fraction * len(ranked)))])
