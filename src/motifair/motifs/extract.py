"""Extract the motifs of each graph: bonds and rings, with keys independent of node numbering."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from motifair.files import cache_folder, write_atomic
from motifair.graphs.graph_set import GraphSet, Ints, ranges
from motifair.graphs.kernels import number_sparse_rows
from motifair.motifs.kernels import basis_rings, chordless_rings, ring_labels

FORMAT = 3  # part of the cache key: increase it when extraction changes
# Where every edge is on dozens of rings, as in a clique of 50 nodes, there are millions of them and
# they say no more than the degrees.
MOST_RINGS = 16  # of one length for each edge of a graph; shorter rings alone are counted beyond
EDGES_AT_ONCE = 2**19  # entries of neighbour lists; bounds the memory for the list of rings


@dataclass(frozen=True)
class MotifCounts:
    """How often each motif occurs in each graph, `(graphs, motifs)`, and the keys of the motifs.

    A key is text with node labels: `bond 0 2`, `ring 0 0 1`; edge labels follow after a slash:
    `bond 0 2/1`, `ring 0/1 0/1 1/0`. `longest` is the length up to which rings were counted in
    each graph, `(graphs,)`.
    """

    counts: sparse.csr_array
    keys: tuple[str, ...]
    longest: Ints


def count_motifs(graphs: GraphSet, labels: Ints, *, rings: str, max_ring: int) -> MotifCounts:
    """Count bonds and rings in each graph, or read the counts from the cache.

    Args:
        graphs: The graphs.
        labels: Label of each node, see `motif_labels`.
        rings: `chordless` for triangles and chordless cycles of at most `max_ring` nodes (fewer
            in a graph with more than 16 rings of a length for each edge), or `basis` for a cycle
            basis grown from the smallest node of each component.
        max_ring: Longer rings are dropped; for a basis 0 keeps all. Bonds are the edges on no kept
            ring.

    >>> square = GraphSet.build("s", [5], [[0, 1], [1, 2], [2, 3], [3, 0], [3, 4]], [0])
    >>> motifs = count_motifs(square, np.array([7, 8, 7, 9, 9]), rings="chordless", max_ring=4)
    >>> motifs.keys
    ('bond 9 9', 'ring 7 8 7 9')
    """
    return cached(
        lambda: extract_motifs(graphs, labels, rings=rings, max_ring=max_ring),
        graphs, labels, rings, max_ring,
    )  # fmt: skip


def cached(
    count: Callable[[], MotifCounts], graphs: GraphSet, labels: Ints, *settings: int | str
) -> MotifCounts:
    """Return the result of `count` from the file cache, or call it and store the result."""
    path = cache_folder("motifs") / f"{_digest(graphs, labels, *settings)}.npz"
    motifs = _stored(path, len(graphs))
    if motifs is None:
        motifs = count()
        _store(path, motifs)
    return motifs


def extract_motifs(graphs: GraphSet, labels: Ints, *, rings: str, max_ring: int) -> MotifCounts:
    """Count motifs as `count_motifs` does, without the cache."""
    part = graphs.edge_start[graphs.node_start[:-1]] // EDGES_AT_ONCE
    cuts = np.flatnonzero(np.diff(part)) + 1
    return _concatenate(
        [
            _extract(
                graphs.select(chosen),
                labels[ranges(graphs.node_start[chosen], graphs.nodes[chosen])],
                rings,
                max_ring,
            )
            for chosen in np.split(np.arange(len(graphs)), cuts)
        ]
    )


def _concatenate(parts: Sequence[MotifCounts]) -> MotifCounts:
    """Put the graphs of several parts one after another, with keys in order."""
    keys = sorted({key for part in parts for key in part.keys})
    column = {key: k for k, key in enumerate(keys)}
    entries = [part.counts.tocoo() for part in parts]
    first = np.cumsum([0, *(len(part.longest) for part in parts)])
    row = np.concatenate([e.row + f for e, f in zip(entries, first[:-1], strict=True)])
    new = [np.array([column[key] for key in part.keys], dtype=np.int64) for part in parts]
    where = np.concatenate([n[e.col] for e, n in zip(entries, new, strict=True)])
    counted = (np.concatenate([e.data for e in entries]), (row, where))
    counts = sparse.coo_array(counted, shape=(first[-1], len(keys)))
    longest = np.concatenate([part.longest for part in parts])
    return MotifCounts(sparse.csr_array(counts.tocsr()), tuple(keys), longest)


def _extract(graphs: GraphSet, labels: Ints, rings: str, max_ring: int) -> MotifCounts:
    """Count the motifs of graphs whose rings fit into the memory."""
    edge_label = np.zeros(0, np.int64) if graphs.edge_label is None else graphs.edge_label
    ring, length, longest = (_chordless if rings == "chordless" else _basis)(graphs, max_ring)
    start = np.concatenate([[0], np.cumsum(length, dtype=np.int64)])
    ring_graph = graphs.node_graph[ring[start[:-1]]]
    nodes, edges, on_ring = ring_labels(
        ring, start, labels, edge_label, graphs.edge_start, graphs.neighbour
    )
    ring_code, ring_keys = _ring_codes(nodes, edges, start, graphs.edge_label is not None)
    bond_code, bond_graph, bond_keys = _bonds(graphs, labels, on_ring)
    column = np.concatenate([bond_code, ring_code + len(bond_keys)])
    row = np.concatenate([bond_graph, ring_graph])
    keys = (*bond_keys, *ring_keys)
    counts = sparse.coo_array(
        (np.ones(len(row), np.int64), (row, column)), shape=(len(graphs), len(keys))
    )
    return MotifCounts(sparse.csr_array(counts.tocsr()), keys, longest)


def _chordless(graphs: GraphSet, max_ring: int) -> tuple[np.ndarray, np.ndarray, Ints]:
    """Return the concatenated nodes of all chordless rings, the length of each, and the greatest
    that was listed in each graph.
    """
    rings, length, longest = chordless_rings(
        graphs.node_start, graphs.edge_start, graphs.neighbour, max_ring, MOST_RINGS
    )
    return rings[np.arange(max_ring) < length[:, None]], length, longest


def _basis(graphs: GraphSet, max_ring: int) -> tuple[np.ndarray, np.ndarray, Ints]:
    """Return the same for the rings of a cycle basis."""
    nodes, length = basis_rings(graphs.edge_start, graphs.neighbour)
    longest = max_ring or int(length.max(initial=0))
    kept = length <= longest
    return nodes[np.repeat(kept, length)], length[kept], np.full(len(graphs), longest)


def _ring_codes(nodes: Ints, edges: Ints, start: Ints, edge_labels: bool) -> tuple[Ints, list[str]]:
    """Number the distinct sequences of labels, and return their keys."""
    code, first = number_sparse_rows(start, nodes, edges)

    def key(k: int) -> str:
        here = slice(start[k], start[k + 1])
        words = map(str, nodes[here].tolist())
        if edge_labels:
            words = map("{}/{}".format, nodes[here].tolist(), edges[here].tolist())
        return "ring " + " ".join(words)

    return code, [key(k) for k in first]


def _bonds(graphs: GraphSet, labels: Ints, on_ring: np.ndarray) -> tuple[Ints, Ints, list[str]]:
    pairs, entry = graphs.edge_list()
    free = ~on_ring[entry]
    pairs, entry = pairs[free], entry[free]
    ends = np.sort(labels[pairs], axis=1)
    edge = np.zeros(len(pairs), np.int64) if graphs.edge_label is None else graphs.edge_label[entry]
    code, first = number_rows(np.column_stack([ends, edge]))
    keys = [f"bond {ends[k, 0]} {ends[k, 1]}" for k in first]
    if graphs.edge_label is not None:
        keys = [f"{key}/{edge[k]}" for key, k in zip(keys, first, strict=True)]
    return code, graphs.node_graph[pairs[:, 0]], keys


def number_rows(rows: Ints) -> tuple[Ints, Ints]:
    """Number the distinct rows; return the number of each row, and the first row of each number.

    Columns are added one at a time and renumbered each time, so that no product of label ranges can
    overflow.

    >>> code, first = number_rows(np.array([[5, 1], [2, 9], [5, 1]]))
    >>> bool(code[0] == code[2] != code[1]), sorted(first.tolist())
    (True, [0, 1])
    """
    code = np.zeros(len(rows), np.int64)
    for column in rows.T:
        _, value = np.unique(column, return_inverse=True)
        _, code = np.unique(code * (value.max(initial=0) + 1) + value, return_inverse=True)
    _, first = np.unique(code, return_index=True)
    return code, first


def _digest(graphs: GraphSet, labels: Ints, *settings: int | str) -> str:
    """Hash everything that the counts depend on."""
    sha = hashlib.sha256(json.dumps([FORMAT, *settings]).encode())
    for part in (graphs.node_start, graphs.edge_start, graphs.neighbour, labels):
        sha.update(np.ascontiguousarray(part, dtype="<i8").tobytes())
    if graphs.edge_label is not None:
        sha.update(np.ascontiguousarray(graphs.edge_label, dtype="<i8").tobytes())
    return sha.hexdigest()


def _stored(path: Path, graphs: int) -> MotifCounts | None:
    """Read counts from the cache, or return None if the file is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            matrix = (stored["data"], stored["indices"], stored["indptr"])
            keys = tuple(stored["keys"].tobytes().decode().splitlines())
            longest = stored["longest"]
        return MotifCounts(sparse.csr_array(matrix, shape=(graphs, len(keys))), keys, longest)
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error):
        return None


def _store(path: Path, motifs: MotifCounts) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        data=motifs.counts.data,
        indices=motifs.counts.indices,
        indptr=motifs.counts.indptr,
        longest=motifs.longest,
        # As one text: an array of strings would pad every key to the length of the longest.
        keys=np.frombuffer("\n".join(motifs.keys).encode(), dtype=np.uint8),
    )
    write_atomic(path, buffer.getvalue())
