"""One-entry cache keyed by the identity of a GraphSet's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from motifair.graphs.graph_set import GraphSet

T = TypeVar("T")


class GraphCache(Generic[T]):
    """Cache of the last value computed from a `GraphSet`.

    Splits of a dataset whose edges are not rewired share their arrays, and so do the runs of a
    study: the value computed for the first of them serves all. (`functools.cache` cannot be used:
    arrays are not hashable, and here they need only be compared by identity.)

    >>> graphs, cache = GraphSet.build("g", [2], [[0, 1]], [0]), GraphCache[int]()
    >>> cache.get(graphs, "nodes", lambda: 2), cache.get(graphs, "nodes", lambda: 3)
    (2, 2)
    >>> cache.get(graphs, "edges", lambda: 1)
    1
    """

    def __init__(self) -> None:
        self.entry: tuple[tuple[object, ...], object, T] | None = None

    def get(self, graphs: GraphSet, settings: object, compute: Callable[[], T]) -> T:
        """Return the cached value, or compute it if arrays or settings changed."""
        arrays = (graphs.node_start, graphs.neighbour, graphs.node_label, graphs.edge_label)
        if (
            self.entry is None
            or self.entry[1] != settings
            or any(a is not b for a, b in zip(arrays, self.entry[0], strict=True))
        ):
            self.entry = arrays, settings, compute()
        return self.entry[2]
