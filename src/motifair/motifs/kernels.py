"""Compiled kernels: chordless rings, rings of a cycle basis, and canonical label sequences.

networkx enumerates the same rings, but needs Python objects for every graph and takes minutes
instead of a second; it is the oracle in the tests.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True)
def chordless_rings(
    node_start: Any, edge_start: Any, neighbour: Any, max_ring: int, most: int
) -> tuple[Any, Any, Any]:
    """List every triangle and chordless cycle of at most `max_ring` nodes, each once.

    A graph with more than `most` rings of one length for each of its edges has none of that length
    or longer in the list. Returns `(rings, length, longest)`; ring k is `rings[k, :length[k]]`, and
    `longest` is the greatest length that was listed in each graph.

    Depth-first search: a ring starts at its smallest node, in the direction of the smaller of that
    node's two ring neighbours. A path is extended only by nodes that are adjacent to no node of the
    path but its last one.
    """
    capacity = 1024
    rings = np.empty((capacity, max_ring), np.int32)
    length = np.empty(capacity, np.int32)
    count = 0
    touching = np.zeros(node_start[-1], np.int32)  # number of path nodes adjacent to each node
    path = np.empty(max_ring, np.int64)
    place = np.empty(max_ring, np.int64)  # next entry in the neighbour list of each path node
    found = np.zeros(max_ring + 1, np.int64)  # rings of each length in a graph
    longest = np.full(len(node_start) - 1, max_ring, np.int64)
    for graph in range(len(longest)):
        first, found[:] = count, 0
        begin, end = node_start[graph], node_start[graph + 1]
        limit = most * (edge_start[end] - edge_start[begin]) // 2
        for root in range(begin, end):
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
                # w may be adjacent to its predecessor on the path, and to the root if it closes.
                if w <= root or touching[w] > 2 or depth + 2 > longest[graph]:
                    continue
                on_path = False
                for k in range(1, depth + 1):
                    on_path = on_path or path[k] == w
                if on_path:
                    continue
                closes = touching[w] == 2
                if closes and (depth == 0 or not _adjacent(edge_start, neighbour, root, w)):
                    continue
                if closes:
                    if path[1] < w:
                        found[depth + 2] += 1
                        if found[depth + 2] > limit:
                            longest[graph] = depth + 1
                            continue
                        if count == capacity:
                            capacity *= 2
                            rings = _grown(rings, capacity)
                            longer = np.empty(capacity, np.int32)
                            longer[:count] = length
                            length = longer
                        for k in range(depth + 1):
                            rings[count, k] = path[k]
                        rings[count, depth + 1] = w
                        length[count] = depth + 2
                        count += 1
                elif depth + 2 < longest[graph]:
                    depth += 1
                    path[depth] = w
                    place[depth] = edge_start[w]
                    for e in range(edge_start[w], edge_start[w + 1]):
                        touching[neighbour[e]] += 1
        if longest[graph] < max_ring:
            count = _without_longer(rings, length, first, count, longest[graph])
    return rings[:count], length[:count], longest


@numba.njit(cache=True)
def _without_longer(rings: Any, length: Any, first: int, count: int, longest: int) -> int:
    """Remove the rings from `first` on that are longer; return the number that is left."""
    kept = first
    for k in range(first, count):
        if length[k] <= longest:
            rings[kept] = rings[k]
            length[kept] = length[k]
            kept += 1
    return kept


@numba.njit(cache=True)
def _grown(rings: Any, capacity: int) -> Any:
    larger = np.empty((capacity, rings.shape[1]), np.int32)
    larger[: rings.shape[0]] = rings
    return larger


@numba.njit(cache=True)
def basis_rings(edge_start: Any, neighbour: Any) -> tuple[Any, Any]:
    """List a cycle basis of every component, grown from its smallest node by Paton's algorithm.

    The rings are those of networkx (`cycle_basis` with nodes and neighbours in order). Returns the
    concatenated nodes of all rings, and the length of each ring.
    """
    nodes = len(edge_start) - 1
    ring_nodes = np.empty(1024, np.int32)
    length = np.empty(len(neighbour) // 2, np.int32)
    filled = count = 0
    before = np.full(nodes, -1, np.int64)  # predecessor of each node in the spanning tree
    stack = np.empty(nodes, np.int64)
    used = np.zeros(len(neighbour), np.bool_)  # directed edges that were processed
    for root in range(nodes):
        if before[root] >= 0:
            continue
        before[root] = stack[0] = root
        depth = 1
        while depth > 0:
            depth -= 1
            z = stack[depth]
            for e in range(edge_start[z], edge_start[z + 1]):
                w = neighbour[e]
                if before[w] < 0:
                    before[w] = z
                    stack[depth] = w
                    depth += 1
                elif not used[e]:
                    ring_nodes, end = _closed_ring(
                        edge_start, neighbour, before, used, w, z, ring_nodes, filled
                    )
                    length[count] = end - filled
                    filled, count = end, count + 1
                else:
                    continue
                used[edge_position(edge_start, neighbour, w, z)] = True
    return ring_nodes[:filled], length[:count]


@numba.njit(cache=True)
def _closed_ring(
    edge_start: Any, neighbour: Any, before: Any, used: Any, w: int, z: int, out: Any, filled: int
) -> tuple[Any, int]:
    """Append the ring w, z, and the tree path from z back to the first used neighbour of w."""
    v, last = z, False
    out = _with_room(out, filled)
    out[filled] = w
    filled += 1
    while not last:
        out = _with_room(out, filled)
        out[filled] = v
        filled += 1
        there = edge_position(edge_start, neighbour, w, v)
        last = there >= 0 and used[there]
        v = before[v]
    return out, filled


@numba.njit(cache=True)
def _with_room(values: Any, filled: int) -> Any:
    if filled < len(values):
        return values
    larger = np.empty(2 * len(values), values.dtype)
    larger[:filled] = values
    return larger


@numba.njit(cache=True)
def _adjacent(edge_start: Any, neighbour: Any, u: int, v: int) -> bool:
    """Whether u and v are adjacent."""
    return edge_position(edge_start, neighbour, u, v) >= 0


@numba.njit(cache=True)
def edge_position(edge_start: Any, neighbour: Any, u: int, v: int) -> int:
    """Return the index of v in `neighbour` among the sorted neighbours of u, or -1."""
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
    rings: Any, start: Any, node_label: Any, edge_label: Any, edge_start: Any, neighbour: Any
) -> tuple[Any, Any, Any]:
    """Return the labels of each ring in canonical order, and mark the edges that are on a ring.

    Ring k is `rings[start[k]:start[k+1]]`, and its labels have the same indices: those of its
    nodes, and those of the edges that follow them (zeros if `edge_label` is empty). The canonical
    order is the lexicographically smallest of all rotations and reflections of node, edge, node,
    edge, ...
    """
    nodes = np.empty(len(rings), np.int64)
    edges = np.zeros(len(rings), np.int64)
    on_ring = np.zeros(len(neighbour), np.bool_)
    for k in range(len(start) - 1):
        first, end = start[k], start[k + 1]
        for j in range(first, end):
            u, v = rings[j], rings[j + 1 if j + 1 < end else first]
            there = edge_position(edge_start, neighbour, u, v)
            on_ring[there] = True
            on_ring[edge_position(edge_start, neighbour, v, u)] = True
            nodes[j] = node_label[u]
            if len(edge_label):
                edges[j] = edge_label[there]
        _rewrite_smallest(nodes[first:end], edges[first:end])
    return nodes, edges, on_ring


@numba.njit(cache=True)
def _rewrite_smallest(nodes: Any, edges: Any) -> None:
    """Replace a ring by the smallest of its 2n label sequences: n rotations, two directions."""
    n = len(nodes)
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
    old_nodes, old_edges = nodes.copy(), edges.copy()
    for j in range(n):
        nodes[j] = _reading(old_nodes, old_edges, n, best_start, best_step, 2 * j)
        edges[j] = _reading(old_nodes, old_edges, n, best_start, best_step, 2 * j + 1)


@numba.njit(cache=True)
def _reading(nodes: Any, edges: Any, n: int, start: int, step: int, j: int) -> int:
    """Return item j of the sequence node, edge, ... from `start` in direction `step`."""
    k = j // 2
    if j % 2 == 0:
        return nodes[(start + step * k) % n]
    # Backwards, the edge that follows a node is the one stored with the preceding node.
    return edges[(start + step * k + (0 if step == 1 else -1)) % n]
