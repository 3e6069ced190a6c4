"""Fingerprints of graphs: equal for graphs that a graph neural network cannot tell apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from motifair.graphs.graph_set import Floats, GraphSet

Words = NDArray[np.uint64]

REFINEMENTS = 3
CLASS_BYTE = np.uint64(0xFF)


def fingerprints(graphs: GraphSet, key: int = 0, *, edges: bool = False) -> Words:
    """Return a 64-bit hash of each graph with its targets, `(graphs,)`; node numbers do not matter.

    The last byte is that of the class (`class_bytes`). The rest is a hash of the nodes' colours
    after three refinements (Weisfeiler-Leman), from labels and attributes and, with `edges`, edge
    labels. Hashes with different keys cannot be compared.

    >>> edges = [[0, 1], [1, 2], [5, 3], [3, 4]]
    >>> paths = GraphSet.build("paths", [3, 3], edges, target=[0, 0])
    >>> len(set(fingerprints(paths).tolist()))
    1
    """
    colour = _mix(np.full(len(graphs.degree), np.uint64(key), dtype=np.uint64))
    if graphs.node_label is not None:
        colour = _mix(colour + graphs.node_label.astype(np.uint64))
    if graphs.attribute is not None:
        for column in _words(graphs.attribute):
            colour = _mix(colour + _mix(column))
    end = graphs.edge_start[1:]
    for _ in range(REFINEMENTS):
        sent = _mix(colour)[graphs.neighbour]
        if edges and graphs.edge_label is not None:
            sent = _mix(sent + _mix(graphs.edge_label.astype(np.uint64)))
        around = np.concatenate([[np.uint64(0)], np.cumsum(sent)])
        colour = _mix(_mix(colour) + (around[end] - around[graphs.edge_start[:-1]]))
    total = np.concatenate([[np.uint64(0)], np.cumsum(_mix(colour))])
    summed = total[graphs.node_start[1:]] - total[graphs.node_start[:-1]]
    shown = np.zeros(len(graphs), dtype=np.uint64)
    if graphs.values is None:
        classes = np.array(graphs.class_values, dtype=np.int64).astype(np.uint64)
        shown = classes[graphs.target]
        summed = summed + _mix(shown)
    else:
        for column in _words(graphs.values):
            summed = _mix(summed + _mix(column))
    return _mix(summed) & ~CLASS_BYTE | shown & CLASS_BYTE


def class_bytes(words: Words) -> Words:
    """Return the last byte of each fingerprinted graph's class, `(graphs,)`; 0 without classes.

    >>> pair = GraphSet.build("pair", [1, 1], [], target=[0, 1], class_values=[-1, 7])
    >>> class_bytes(fingerprints(pair)).tolist()
    [255, 7]
    """
    return words & CLASS_BYTE


def last_bytes(classes: Sequence[int]) -> Words:
    """Return the last byte of each class, as fingerprints have it.

    >>> last_bytes([-1, 7]).tolist()
    [255, 7]
    """
    return np.array(classes, dtype=np.int64).astype(np.uint64) & CLASS_BYTE


def _words(rows: Floats) -> Words:
    """Return each column of numbers as words, equal for equal numbers (0 and −0, NaN and NaN)."""
    columns = np.ascontiguousarray(rows.T) + 0.0
    columns[np.isnan(columns)] = np.nan
    return columns.view(np.uint64)


def _mix(words: Words) -> Words:
    """Return well-mixed words (the finaliser of SplitMix64)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
