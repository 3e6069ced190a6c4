"""What was made last of some graphs, for as long as the very same graphs are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from motifair.graphs.graph_set import GraphSet

T = TypeVar("T")


class Last(Generic[T]):
    """Keeps one thing that takes long to make of graphs.

    Splits of a dataset whose edges are not rewired share their arrays, and so do the runs of a
    study: what was made for the first of them serves all. (Arrays cannot be keys of a cache of
    `functools`; that they are the very same is all that is asked here.)

    >>> graphs, made = GraphSet.build("g", [2], [[0, 1]], [0]), Last[int]()
    >>> made.of(graphs, "nodes", lambda: 2), made.of(graphs, "nodes", lambda: 3)
    (2, 2)
    >>> made.of(graphs, "edges", lambda: 1)
    1
    """

    def __init__(self) -> None:
        self.kept: tuple[tuple[object, ...], object, T] | None = None

    def of(self, graphs: GraphSet, how: object, make: Callable[[], T]) -> T:
        """Return what `make` made last, if that was of the same arrays and in the same way."""
        arrays = (graphs.node_start, graphs.neighbour, graphs.node_label, graphs.edge_label)
        if (
            self.kept is None
            or self.kept[1] != how
            or any(a is not b for a, b in zip(arrays, self.kept[0], strict=True))
        ):
            self.kept = arrays, how, make()
        return self.kept[2]
