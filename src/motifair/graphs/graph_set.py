"""`GraphSet`: a set of undirected graphs, stored in flat arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motifair.errors import MotifairError
from motifair.graphs.targets import Floats as Floats
from motifair.graphs.targets import Ints as Ints
from motifair.graphs.targets import as_matrix, default_names, strata

NO_CLASS = int(np.iinfo(np.int64).min)  # the target of a graph without a class


@dataclass(frozen=True)
class GraphSet:
    """A set of undirected graphs without self-loops or repeated edges.

    Make one with `GraphSet.build`, `motifair.graphs.convert.from_objects` (PyG, NetworkX) or
    `motifair.graphs.read.read_graphs` (files).

    Attributes:
        name: Name of the dataset, used in results and error messages.
        node_start: Graph g has the nodes `node_start[g]:node_start[g+1]`, `(graphs + 1,)`.
        edge_start: Node v has the neighbours `neighbour[edge_start[v]:edge_start[v+1]]`,
            `(nodes + 1,)`.
        neighbour: Neighbours of each node, numbered within the whole set and sorted; every edge
            is stored in both directions, `(2·edges,)`.
        target: Class of each graph, `0..classes-1`, `(graphs,)`; of graphs with `values` a stratum
            by which they are shared out (`targets.strata`).
        class_values: The classes as they are called in the source, in ascending order.
        node_label: Label of each node, `(nodes,)`, or None.
        edge_label: Label of each entry of `neighbour`, or None.
        attribute: Attributes of each node, `(nodes, width)`, or None.
        ignored: What the source has and a `GraphSet` cannot represent, in words.
        values: Targets that are not classes, `(graphs, T)`, NaN where a label is missing; or None.
        target_names: Name of each column of `values`.

    >>> graphs = GraphSet.build("two", nodes=[3, 2], edges=[[0, 1], [1, 2], [3, 4]], target=[0, 1])
    >>> graphs, graphs.nodes.tolist(), graphs.edges.tolist()
    (GraphSet(two: 2 graphs, 2 classes), [3, 2], [2, 1])
    >>> GraphSet.build("tasks", nodes=[1, 1], edges=[], target=[[0, np.nan], [1, 0]])
    GraphSet(tasks: 2 graphs, 2 targets)
    """

    name: str
    node_start: Ints
    edge_start: Ints
    neighbour: Ints
    target: Ints
    class_values: tuple[int, ...]
    node_label: Ints | None = None
    edge_label: Ints | None = None
    attribute: Floats | None = None
    ignored: tuple[str, ...] = ()
    values: Floats | None = None
    target_names: tuple[str, ...] = ()

    @classmethod
    def build(
        cls,
        name: str,
        nodes: ArrayLike,
        edges: ArrayLike,
        target: ArrayLike,
        *,
        class_values: Sequence[int] | None = None,
        node_label: ArrayLike | None = None,
        edge_label: ArrayLike | None = None,
        attribute: ArrayLike | None = None,
        ignored: Sequence[str] = (),
        target_names: Sequence[str] = (),
    ) -> GraphSet:
        """Build from the number of nodes of each graph and a list of edges.

        Self-loops are dropped; repeated edges and the two directions of an edge are merged (the
        first edge label is kept).

        Args:
            name: Name of the dataset.
            nodes: Number of nodes of each graph, `(graphs,)`.
            edges: Pairs of nodes, numbered within the whole set, `(E, 2)`.
            target: Class of each graph, `0..classes-1`, `(graphs,)`; or several binary tasks or
                values to regress, `(graphs, T)`, NaN where a label is missing (`as_matrix`).
            class_values: Names of the classes, by default their numbers.
            node_label: Label of each node, `(nodes,)`.
            edge_label: Label of each of the listed edges, `(E,)`.
            attribute: Attributes of each node, `(nodes, width)`.
            ignored: What the source has and is not represented, in words.
            target_names: Names of the columns of `target`, by default y0, y1 and so on.

        Raises:
            MotifairError: If lengths do not match, a graph has no node, or an edge joins nodes that
                do not exist or belong to two graphs.

        >>> edges = [[0, 1], [1, 0], [1, 2], [2, 2]]
        >>> path = GraphSet.build("path", nodes=[3], edges=edges, target=[0])
        >>> path.neighbour.tolist(), path.degree.tolist()
        ([1, 0, 2, 1], [1, 2, 1])
        """
        node_start = _starts(np.asarray(nodes, dtype=np.int64))
        values = as_matrix(target)
        pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
        _check(name, node_start, pairs, len(np.asarray(target)), node_label, edge_label, attribute)
        classes = np.zeros(len(node_start) - 1, np.int64)
        if values is None:
            classes = np.asarray(target, dtype=np.int64).reshape(-1)
        labels = None if edge_label is None else np.asarray(edge_label, dtype=np.int64)
        pairs, labels = _both_ways(pairs, labels, int(node_start[-1]))
        count = np.bincount(pairs[:, 0], minlength=int(node_start[-1]))
        if class_values is None:
            class_values = range(int(classes.max(initial=-1)) + 1)
        made = cls(
            name=name,
            node_start=node_start,
            edge_start=_starts(count),
            neighbour=pairs[:, 1].copy(),
            target=classes,
            class_values=tuple(class_values),
            node_label=None if node_label is None else np.asarray(node_label, dtype=np.int64),
            edge_label=labels,
            attribute=None if attribute is None else np.asarray(attribute, dtype=np.float64),
            ignored=tuple(ignored),
        )
        return made if values is None else made.with_values(values, target_names)

    def with_values(self, values: Floats, names: Sequence[str] = ()) -> GraphSet:
        """Return the same graphs with targets `(graphs, T)`, NaN where a label is missing.

        Raises:
            MotifairError: If a value is infinite, or there are not as many names as columns.
        """
        names = tuple(names) or default_names(values.shape[1])
        if values.ndim != 2 or len(names) != values.shape[1] or len(set(names)) < len(names):
            raise MotifairError(
                f"The targets of {self.name} have the shape {values.shape} and {len(names)} "
                "different names; give a row for each graph and a name for each column."
            )
        if np.isinf(values).any():
            g, t = np.argwhere(np.isinf(values))[0]
            raise MotifairError(
                f"Graph {g} of {self.name} has an infinite {names[t]}; give a number, or NaN "
                "where it is not known."
            )
        stratum, count = strata(values)
        return replace(
            self,
            target=stratum,
            class_values=tuple(range(count)),
            values=values,
            target_names=names,
        )

    def __len__(self) -> int:
        return len(self.target)

    def __repr__(self) -> str:
        of = f"{self.classes} classes"
        if self.values is not None:
            of = f"{self.values.shape[1]} targets"
        return f"GraphSet({self.name}: {len(self)} graphs, {of})"

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.class_values)

    @property
    def nodes(self) -> Ints:
        """Number of nodes of each graph, `(graphs,)`."""
        return np.diff(self.node_start)

    @cached_property
    def degree(self) -> Ints:
        """Degree of each node, `(nodes,)`."""
        return np.diff(self.edge_start)

    @property
    def edges(self) -> Ints:
        """Number of undirected edges of each graph, `(graphs,)`."""
        return np.diff(self.edge_start[self.node_start]) // 2

    @cached_property
    def node_graph(self) -> Ints:
        """Number of the graph that each node belongs to, `(nodes,)`."""
        return np.repeat(np.arange(len(self)), self.nodes)

    def edge_list(self) -> tuple[Ints, Ints]:
        """Return every edge once, `(E, 2)` with first < second, and its index in `neighbour`."""
        source = np.repeat(np.arange(len(self.degree)), self.degree)
        once = np.flatnonzero(source < self.neighbour)
        return np.stack([source[once], self.neighbour[once]], axis=1), once

    def with_edges(self, edges: ArrayLike, edge_label: ArrayLike | None) -> GraphSet:
        """Return the same graphs with other edges, given as in `build`.

        >>> pair = GraphSet.build("pair", nodes=[2, 2], edges=[[0, 1]], target=[0, 1])
        >>> pair.with_edges([[2, 3]], None).degree.tolist()
        [0, 0, 1, 1]
        """
        made = GraphSet.build(
            self.name,
            nodes=self.nodes,
            edges=edges,
            target=self.target,
            class_values=self.class_values,
            node_label=self.node_label,
            edge_label=edge_label,
            attribute=self.attribute,
            ignored=self.ignored,
        )
        return replace(made, values=self.values, target_names=self.target_names)

    def select(self, graphs: ArrayLike) -> GraphSet:
        """Return the graphs with the given numbers, in the given order."""
        chosen = np.asarray(graphs, dtype=np.int64)
        node_start = _starts(self.nodes[chosen])
        nodes = ranges(self.node_start[chosen], self.nodes[chosen])
        edge_start = _starts(self.degree[nodes])
        entries = ranges(self.edge_start[nodes], self.degree[nodes])
        shift = np.repeat(node_start[:-1] - self.node_start[chosen], np.diff(node_start))
        return replace(
            self,
            node_start=node_start,
            edge_start=edge_start,
            neighbour=self.neighbour[entries] + np.repeat(shift, self.degree[nodes]),
            target=self.target[chosen],
            node_label=None if self.node_label is None else self.node_label[nodes],
            edge_label=None if self.edge_label is None else self.edge_label[entries],
            attribute=None if self.attribute is None else self.attribute[nodes],
            values=None if self.values is None else self.values[chosen],
        )

    @classmethod
    def concatenate(cls, name: str, sets: Sequence[GraphSet]) -> GraphSet:
        """Concatenate sets; labels and attributes that not all of them have are dropped.

        Classes are matched by `class_values`; those of the result are the union. Where one set has
        a single target with numbers, classes of the others are numbers, too.

        >>> first = GraphSet.build("a", [1, 1], [], [0, 1], class_values=[0, 2])
        >>> second = GraphSet.build("b", [1, 1], [], [0, 1], class_values=[1, 2])
        >>> joined = GraphSet.concatenate("both", [first, second])
        >>> joined.class_values, joined.target.tolist()
        ((0, 1, 2), [0, 2, 1, 2])
        """
        sets, names = _same_targets(sets)
        values = sorted({value for s in sets for value in s.class_values})

        def join(field: str) -> NDArray[np.generic] | None:
            parts = [getattr(s, field) for s in sets]
            return None if any(p is None for p in parts) else np.concatenate(parts)

        shift = np.cumsum([0] + [len(s.degree) for s in sets])
        if len({None if s.attribute is None else s.attribute.shape[1] for s in sets}) > 1:
            sets = [replace(s, attribute=None) for s in sets]
        joined = cls(
            name=name,
            node_start=_starts(np.concatenate([s.nodes for s in sets])),
            edge_start=_starts(np.concatenate([s.degree for s in sets])),
            neighbour=np.concatenate(
                [s.neighbour + k for s, k in zip(sets, shift[:-1], strict=True)]
            ),
            target=np.concatenate([s.numbered(values) for s in sets]),
            class_values=tuple(values),
            node_label=join("node_label"),  # type: ignore[arg-type]
            edge_label=join("edge_label"),  # type: ignore[arg-type]
            attribute=join("attribute"),  # type: ignore[arg-type]
            ignored=tuple(dict.fromkeys(words for s in sets for words in s.ignored)),
        )
        targets = join("values")
        return joined if targets is None else joined.with_values(targets.astype(np.float64), names)

    def numbers(self) -> Floats:
        """Return `values`, or the classes as they are called in the source, `(graphs, T)`."""
        if self.values is not None:
            return self.values
        called = np.array(self.class_values, np.float64)[self.target]
        return called[:, None]

    def numbered(self, class_values: Sequence[int]) -> Ints:
        """Return the index of each graph's class in `class_values`, which contains all classes."""
        return np.searchsorted(class_values, self.class_values)[self.target]

    def digest(self) -> str:
        """Return the SHA-256 of structure, labels and targets, without attributes."""
        sha = hashlib.sha256()
        for part in (self.node_start, self.edge_start, self.neighbour, self.target):
            sha.update(np.ascontiguousarray(part, dtype="<i8").tobytes())
        for label in (self.node_label, self.edge_label):
            sha.update(b"-" if label is None else np.asarray(label, dtype="<i8").tobytes())
        if self.values is not None:
            sha.update(np.ascontiguousarray(self.values, dtype="<f8").tobytes())
        return sha.hexdigest()


def ranges(start: Ints, length: Ints) -> Ints:
    """Concatenate `start[i], start[i]+1, ..., start[i]+length[i]-1`.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(start - ends + length, length)


def lost_edges(pairs: Ints, nodes: int) -> list[str]:
    """Name what is lost when listed edges become undirected and simple.

    An undirected edge is listed in both directions.

    >>> lost_edges(np.array([[0, 1], [1, 0]]), 2), lost_edges(np.array([[0, 1], [1, 1]]), 2)
    ([], ['direction of edges', 'self-loops'])
    """
    loop = pairs[:, 0] == pairs[:, 1]
    there, back = pairs[~loop] @ [nodes, 1], pairs[~loop] @ [1, nodes]
    once = np.unique(there)
    lost = {
        "direction of edges": not np.array_equal(once, np.unique(back)),
        "repeated edges": len(once) < len(there),
        "self-loops": bool(loop.any()),
    }
    return [words for words, true in lost.items() if true]


def whole_numbers(values: ArrayLike) -> Ints:
    """Convert values to integers; raise ValueError unless all are whole numbers.

    >>> whole_numbers([1.0, 2.0]).tolist()
    [1, 2]
    """
    given = np.asarray(values)
    whole = given.astype(np.int64)
    if not np.array_equal(whole, given):
        raise ValueError("a class, label or node number is not a whole number")
    return whole


def _same_targets(sets: Sequence[GraphSet]) -> tuple[list[GraphSet], tuple[str, ...]]:
    """Return sets whose targets are all classes or all the same numbers, and the targets' names.

    Raises:
        MotifairError: If their targets differ.
    """
    measured = [s for s in sets if s.values is not None]
    if not measured:
        return list(sets), ()
    names = measured[0].target_names
    for s in sets:
        alike = s.target_names == names if s.values is not None else len(names) == 1
        if not alike:
            has = f"the targets {', '.join(s.target_names)}" if s.target_names else "classes"
            raise MotifairError(
                f"{s.name} has {has}, but {measured[0].name} the targets {', '.join(names)}; give "
                "all agents the same targets in the same order, NaN where they have no label."
            )
    return [s if s.values is not None else s.with_values(s.numbers(), names) for s in sets], names


def _starts(count: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(count)]).astype(np.int64)


def _both_ways(pairs: Ints, labels: Ints | None, nodes: int) -> tuple[Ints, Ints | None]:
    """Drop self-loops and repetitions, list every edge in both directions, sort."""
    keep = pairs[:, 0] != pairs[:, 1]
    low, high = pairs[keep].min(axis=1), pairs[keep].max(axis=1)
    code, first = np.unique(low * nodes + high, return_index=True)
    low, high = np.divmod(code, max(nodes, 1))
    source, other = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((other, source))
    both = np.stack([source[order], other[order]], axis=1)
    if labels is None:
        return both, None
    once = labels[keep][first]
    return both, np.concatenate([once, once])[order]


def _check(
    name: str,
    node_start: Ints,
    pairs: Ints,
    targets: int,
    node_label: ArrayLike | None,
    edge_label: ArrayLike | None,
    attribute: ArrayLike | None,
) -> None:
    """Raise unless lengths match, every graph has a node, and edges stay within graphs."""
    total = int(node_start[-1])
    if targets != len(node_start) - 1:
        raise MotifairError(
            f"{name} has {len(node_start) - 1} graphs but {targets} graph labels; "
            "give one label for each graph."
        )
    if len(empty := np.flatnonzero(np.diff(node_start) == 0)):
        raise MotifairError(f"Graph {empty[0]} of {name} has no node; remove it.")
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= total):
        bad = pairs[(pairs < 0).any(axis=1) | (pairs >= total).any(axis=1)][0]
        raise MotifairError(
            f"An edge of {name} joins nodes {bad[0]} and {bad[1]}, but its nodes are numbered "
            f"0 to {total - 1}; remove the edge or add the node."
        )
    graph = np.repeat(np.arange(targets), np.diff(node_start))
    if len(pairs) and (crossing := graph[pairs[:, 0]] != graph[pairs[:, 1]]).any():
        bad = pairs[crossing][0]
        raise MotifairError(
            f"An edge of {name} joins nodes {bad[0]} and {bad[1]} of two different graphs; "
            "remove it."
        )
    for what, wanted, values in (
        ("nodes but {} node labels", total, node_label),
        ("edges but {} edge labels", len(pairs), edge_label),
        ("nodes but {} rows of node attributes", total, attribute),
    ):
        if values is not None and (given := len(np.asarray(values))) != wanted:
            raise MotifairError(f"{name} has {wanted} {what.format(given)}; give one for each.")
