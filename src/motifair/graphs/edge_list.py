"""Graphs as a table of edges: the columns graph, source, target and y of a CSV file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from motifair.errors import MotifairError
from motifair.graphs.csv_file import csv_stem, named, read_targets
from motifair.graphs.graph_set import NO_CLASS, GraphSet, Ints, lost_edges, whole_numbers
from motifair.graphs.targets import as_matrix

KEYS = ("graph", "source", "target")
CLASS, LABEL = "y", "label"


def is_edge_list(frame: pd.DataFrame) -> bool:
    """Whether a table has the columns of an edge list."""
    return set(KEYS) <= set(frame.columns)


def read_edge_list(path: Path, frame: pd.DataFrame, *, classes: bool = True) -> GraphSet:
    """Build graphs from a table with a row for each edge.

    `graph`, `source` and `target` may be numbers or text. `y` is the class or number of the graph,
    the same in all of its rows; `label` is the label of an edge, a whole number, and optional.

    >>> table = pd.DataFrame({"graph": ["a", "a", "b"], "source": [1, 2, 1], "target": [2, 3, 2],
    ...                       "y": [0, 0, 1]})
    >>> graphs = read_edge_list(Path("two.csv"), table)
    >>> graphs.nodes.tolist(), graphs.edges.tolist(), graphs.target.tolist()
    ([3, 2], [2, 1], [0, 1])
    """
    needed = [*KEYS, CLASS] if classes else list(KEYS)
    for name in needed:
        if name not in frame.columns or frame[name].isna().any():
            raise MotifairError(
                f"{path} has edges without a '{name}'; give each row graph, source, target and y."
            )
    graph, _ = pd.factorize(frame["graph"])
    ends = pd.concat([frame["source"].astype(str), frame["target"].astype(str)])
    pair = pd.MultiIndex.from_arrays([np.tile(graph, 2), ends])
    node, distinct = pd.factorize(pair, sort=True)  # sorted by graph, so that each has a range
    edges = node.reshape(2, -1).T
    low_high = np.sort(edges, axis=1)  # a row is an undirected edge
    used = {*KEYS, CLASS, LABEL}
    unknown = np.full(graph.max() + 1, NO_CLASS)
    target, class_values = _targets(path, frame, graph) if classes else (unknown, ())
    return GraphSet.build(
        csv_stem(path),
        nodes=np.bincount(distinct.get_level_values(0)),
        edges=edges,
        target=target,
        class_values=class_values,
        edge_label=_labels(path, frame) if LABEL in frame.columns else None,
        ignored=[
            *(f"column {c}" for c in named(frame) if c not in used),
            *(w for w in lost_edges(low_high, len(distinct)) if w != "direction of edges"),
        ],
    )


def _targets(path: Path, frame: pd.DataFrame, graph: Ints) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the target of each graph and the names of its classes, none if it is a number."""
    values = read_targets(frame, [CLASS], path)[:, 0]
    first = np.unique(graph, return_index=True)[1]
    of_graph: np.ndarray = values[first]
    differs = np.flatnonzero(values != of_graph[graph])
    if len(differs):
        raise MotifairError(
            f"Line {differs[0] + 2} of {path} gives its graph another y than an earlier line; "
            "give all rows of a graph the same."
        )
    if as_matrix(of_graph) is not None:
        return of_graph, ()
    called, target = np.unique(of_graph.astype(np.int64), return_inverse=True)
    return target, tuple(called.tolist())


def _labels(path: Path, frame: pd.DataFrame) -> Ints:
    try:
        return whole_numbers(read_targets(frame, [LABEL], path)[:, 0])
    except ValueError as error:
        raise MotifairError(
            f"Column '{LABEL}' of {path} has edges without a whole number; give each edge one."
        ) from error
