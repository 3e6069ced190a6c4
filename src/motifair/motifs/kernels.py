"""Compiled kernels: chordless rings of a graph set, and canonical label sequences.

Enumeration is ours: networkx's generic one needs Python objects for every graph and takes minutes
where this takes a second; it serves as the oracle in the tests.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True)
def chordless_rings(
    node_start: Any, edge_start: Any, neighbour: Any, max_ring: int
) -> tuple[Any, Any]:
    """List every triangle and chordless cycle of at most `max_ring` nodes, each once.

    Returns `(rings, length)`; ring k is `rings[k, :length[k]]`. A ring is found from its smallest
    node, in the direction of the smaller of that node's two ring neighbours. A path is extended
    only by nodes that touch no earlier node of the path but its last one.
    """
    capacity = 1024
    rings = np.empty((capacity, max_ring), np.int32)
    length = np.empty(capacity, np.int32)
    found = 0
    nodes = node_start[-1]
    touching = np.zeros(nodes, np.int32)  # how many nodes of the path touch this node
    path = np.empty(max_ring, np.int64)
    place = np.empty(max_ring, np.int64)  # where the search stands in each path node's list
    for root in range(nodes):
        for e in range(edge_start[root], edge_start[root + 1]):
            touching[neighbour[e]] += 1
        path[0] = root
        place[0] = edge_start[root]
        depth = 0
        while depth >= 0:
            v = path[depth]
            if place[depth] == edge_start[v + 1]:
                for e in range(edge_start[v], edge_start[v + 1]):
                    touching[neighbour[e]] -= 1
                depth -= 1
                continue
            w = neighbour[place[depth]]
            place[depth] += 1
            if w <= root:
                continue
            on_path = False
            for k in range(1, depth + 1):
                on_path = on_path or path[k] == w
            if on_path:
                continue
            closes = depth > 0 and _joined(edge_start, neighbour, root, w)
            # Allowed contacts of w with the path: its predecessor, and the root if it closes.
            if touching[w] != 1 + int(closes):
                continue
            if closes:
                if path[1] < w:
                    if found == capacity:
                        capacity *= 2
                        rings = _grown(rings, capacity)
                        longer = np.empty(capacity, np.int32)
                        longer[:found] = length
                        length = longer
                    for k in range(depth + 1):
                        rings[found, k] = path[k]
                    rings[found, depth + 1] = w
                    length[found] = depth + 2
                    found += 1
            elif depth + 2 < max_ring:
                depth += 1
                path[depth] = w
                place[depth] = edge_start[w]
                for e in range(edge_start[w], edge_start[w + 1]):
                    touching[neighbour[e]] += 1
    return rings[:found], length[:found]


@numba.njit(cache=True)
def _grown(rings: Any, capacity: int) -> Any:
    larger = np.empty((capacity, rings.shape[1]), np.int32)
    larger[: rings.shape[0]] = rings
    return larger


@numba.njit(cache=True)
def _joined(edge_start: Any, neighbour: Any, u: int, v: int) -> bool:
    """Look v up among the sorted neighbours of u."""
    return edge_position(edge_start, neighbour, u, v) >= 0


@numba.njit(cache=True)
def edge_position(edge_start: Any, neighbour: Any, u: int, v: int) -> int:
    """Return where the edge u-v stands in `neighbour`, or -1."""
    low, high = edge_start[u], edge_start[u + 1]
    while low < high:
        middle = (low + high) // 2
        if neighbour[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low if low < edge_start[u + 1] and neighbour[low] == v else -1


@numba.njit(cache=True)
def ring_labels(
    rings: Any, length: Any, node_label: Any, edge_label: Any, edge_start: Any, neighbour: Any
) -> tuple[Any, Any]:
    """Return each ring's canonical label sequence, and mark the edges that lie on a ring.

    The sequence interleaves node labels with the label of the edge that follows (`edge_label` is
    empty where edges have none; then zeros are interleaved); of all rotations and reflections
    the lexicographically smallest is taken. Rows are padded with -1.
    """
    widest = rings.shape[1]
    sequence = np.full((len(rings), 2 * widest), -1, np.int64)
    on_ring = np.zeros(len(neighbour), np.bool_)
    nodes = np.empty(widest, np.int64)
    edges = np.empty(widest, np.int64)
    for k in range(len(rings)):
        n = length[k]
        for j in range(n):
            u, v = rings[k, j], rings[k, (j + 1) % n]
            there = edge_position(edge_start, neighbour, u, v)
            on_ring[there] = True
            on_ring[edge_position(edge_start, neighbour, v, u)] = True
            nodes[j] = node_label[u]
            edges[j] = edge_label[there] if len(edge_label) else 0
        _smallest(nodes, edges, n, sequence[k])
    return sequence, on_ring


@numba.njit(cache=True)
def _smallest(nodes: Any, edges: Any, n: int, out: Any) -> None:
    """Write the smallest of the 2n readings of a ring: from every start, in both directions."""
    best_start, best_step = 0, 1
    for step in (1, -1):
        for start in range(n):
            for j in range(2 * n):
                new = _reading(nodes, edges, n, start, step, j)
                old = _reading(nodes, edges, n, best_start, best_step, j)
                if new != old:
                    if new < old:
                        best_start, best_step = start, step
                    break
    for j in range(2 * n):
        out[j] = _reading(nodes, edges, n, best_start, best_step, j)


@numba.njit(cache=True)
def _reading(nodes: Any, edges: Any, n: int, start: int, step: int, j: int) -> int:
    """Item j of the sequence node, edge, node, edge, ... read from `start` in direction `step`."""
    k = j // 2
    if j % 2 == 0:
        return nodes[(start + step * k) % n]
    # Going backwards, the edge that follows a node is the one stored with the node before it.
    return edges[(start + step * k + (0 if step == 1 else -1)) % n]
