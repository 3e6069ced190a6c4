"""Convert PyG `Data` objects and NetworkX graphs to a `GraphSet`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import networkx as nx
import numpy as np

from motifair.errors import MotifairError
from motifair.graphs.graph_set import NO_CLASS, GraphSet, lost_edges, whole_numbers
from motifair.graphs.targets import Floats, as_matrix


def from_objects(name: str, graphs: Sequence[Any]) -> GraphSet:
    """Build a `GraphSet` from PyG `Data` objects or NetworkX graphs.

    A PyG graph needs `y`; `x` is read as node attributes, and as node labels if it is one-hot;
    a one-hot `edge_attr` is read as edge labels. A NetworkX graph needs the graph attribute `y`;
    the node attribute `label`, the edge attribute `label` and the node attribute `x` (a list of
    numbers) are read if every node or edge has them.

    `y` is a class, a number to regress, or a row of several targets (PyG: of shape `(1, T)`), NaN
    where a label is missing.

    Args:
        name: Name of the dataset, used in results and error messages.
        graphs: Graphs of one of the two types.

    Returns:
        The graphs, with all data that was not read named in `ignored`.

    Raises:
        MotifairError: If a graph has no target, or targets, labels or attributes that cannot be
            used; the sentence names the graph.

    >>> triangle = nx.cycle_graph(3, create_using=nx.Graph)
    >>> triangle.graph["y"] = 0
    >>> from_objects("mine", [triangle, triangle])
    GraphSet(mine: 2 graphs, 1 classes)
    """
    if not graphs:
        raise MotifairError(f"{name} holds no graph; give at least one.")
    parts = _read_each(name, graphs)
    nodes = [p["nodes"] for p in parts]
    shift = np.cumsum([0, *nodes])[:-1]
    target, class_values = _targets(name, [p["y"] for p in parts])

    def join(key: str) -> np.ndarray | None:
        arrays = [p[key] for p in parts]
        if any(a is None for a in arrays):
            return None
        if len({a.shape[1:] for a in arrays}) > 1:
            raise MotifairError(f"The graphs of {name} differ in their number of attributes.")
        return np.concatenate(arrays)

    def numbered(key: str) -> np.ndarray:
        return np.concatenate([p[key] + k for p, k in zip(parts, shift, strict=True)])

    joined = {key: join(key) for key in ("node_label", "edge_label", "attribute")}
    return GraphSet.build(
        name,
        nodes=nodes,
        edges=numbered("edges"),
        target=target,
        class_values=class_values,
        ignored=[*_unused(parts, joined), *lost_edges(numbered("listed"), sum(nodes))],
        **joined,  # type: ignore[arg-type]
    )


# Optional data: its field in a `GraphSet`, and the reason if it could not be read.
_READ = {
    "x": ("attribute", "some graphs have none"),
    "edge_attr": ("edge_label", "read only where it is one-hot"),
    "label of nodes": ("node_label", "some nodes have none"),
    "x of nodes": ("attribute", "some nodes have none"),
    "label of edges": ("edge_label", "some edges have none"),
}


def _unused(parts: Sequence[dict[str, Any]], joined: dict[str, Any]) -> Iterator[str]:
    """Name the data of nodes, edges and graphs that was not read."""
    for key in dict.fromkeys(key for p in parts for key in p["data"]):
        field, reason = _READ.get(key, ("", ""))
        if joined.get(field) is None:
            yield f"{key} ({reason})" if reason else key


def _read_each(name: str, graphs: Sequence[Any]) -> list[dict[str, Any]]:
    read = _networkx if isinstance(graphs[0], nx.Graph) else _pyg
    parts = []
    for number, graph in enumerate(graphs):
        try:
            parts.append(read(name, number, graph))
        except (ValueError, TypeError, AttributeError) as error:
            raise MotifairError(
                f"Graph {number} of {name} cannot be used: classes and labels must be whole "
                f"numbers, attributes lists of numbers ({error})."
            ) from error
    return parts


def _pyg(name: str, number: int, graph: Any) -> dict[str, Any]:
    if getattr(graph, "edge_index", None) is None or getattr(graph, "y", None) is None:
        raise MotifairError(
            f"Graph {number} of {name} is neither a NetworkX graph with graph['y'] nor a PyG Data "
            "with edge_index and y; give it a class."
        )
    listed = as_array(graph.edge_index)
    if listed.size and (listed.dtype.kind not in "iu" or listed.ndim != 2 or len(listed) != 2):
        raise MotifairError(
            f"Graph {number} of {name} has an edge_index of type {listed.dtype} and shape "
            f"{listed.shape}; give it two rows of whole numbers."
        )
    edges = listed.T.astype(np.int64)
    nodes = int(graph.num_nodes)
    _within(name, number, edges, nodes)
    x = None if graph.x is None else _columns(as_array(graph.x))
    edge_attr = None if graph.edge_attr is None else as_array(graph.edge_attr)
    # A graph without edges has no edge labels, which must not drop those of other graphs.
    edge_label = one_hot(edge_attr) if len(edges) else np.zeros(0, np.int64)
    edges = edges.reshape(-1, 2)
    known = {"edge_index", "y", "num_nodes", "batch", "ptr"}
    return {
        "nodes": nodes,
        "edges": edges,
        "listed": edges,
        "data": [k for k, value in graph.to_dict().items() if k not in known and value is not None],
        "y": _row(name, number, graph.y, flat=False),
        "node_label": one_hot(x),
        "edge_label": edge_label,
        "attribute": x,
    }


def _networkx(name: str, number: int, graph: nx.Graph[Any]) -> dict[str, Any]:
    if "y" not in graph.graph:
        raise MotifairError(f"Graph {number} of {name} has no class; set graph.graph['y'].")
    place = {node: k for k, node in enumerate(graph)}
    edges = np.array([(place[u], place[v]) for u, v in graph.edges()], dtype=np.int64)
    edges = edges.reshape(-1, 2)

    def read(items: Any, key: str) -> np.ndarray | None:
        values = [attributes.get(key) for attributes in items]
        return None if not values or any(v is None for v in values) else np.asarray(values)

    node_data = [graph.nodes[n] for n in graph]
    edge_data = [d for _, _, d in graph.edges(data=True)]
    node_label, x = read(node_data, "label"), read(node_data, "x")
    edge_label = read(edge_data, "label") if edge_data else np.zeros(0, np.int64)
    defaults = {"node_default", "edge_default"}  # added by NetworkX's GraphML reader
    data = [f"{key} of nodes" for attributes in node_data for key in attributes]
    data += [f"{key} of edges" for attributes in edge_data for key in attributes]
    data += [f"{key} of graphs" for key in graph.graph if key not in {"y", *defaults}]
    return {
        "nodes": len(place),
        "edges": edges,
        "listed": edges if graph.is_directed() else np.concatenate([edges, edges[:, ::-1]]),
        "data": dict.fromkeys(data),
        "y": _row(name, number, graph.graph["y"], flat=True),
        "node_label": None if node_label is None else _labels(node_label),
        "edge_label": None if edge_label is None else _labels(edge_label),
        "attribute": None if x is None else _columns(x),
    }


def as_array(value: Any) -> np.ndarray:
    """Convert a tensor (on any device, with or without gradient) or numbers to an array."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _row(name: str, number: int, y: Any, *, flat: bool) -> Floats:
    """Return the targets of a graph, `(T,)`; with `flat` they may be a list without a first axis.

    None is a missing label, as in JSON. PyG joins the `y` of graphs along their first axis, where a
    vector has a number for each node.
    """
    given = as_array(y)
    row = given.shape[0] == 1 if given.ndim == 2 else given.ndim == 1 and flat
    if given.size and (row or given.size == 1) and given.dtype.kind in "iufbO":
        values = given.astype(np.float64).ravel()
        if not np.isinf(values).any():
            return values
    shown = f"y of shape {given.shape}" if given.size != 1 else f"y = {given.item()!r}"
    raise MotifairError(
        f"Graph {number} of {name} has {shown}; give each graph one class or number, or the same "
        "number of targets, NaN where one is not known"
        + (": a list." if flat else ": y of shape (1, T).")
    )


def _targets(name: str, rows: Sequence[Floats]) -> tuple[np.ndarray, list[int] | None]:
    """Return the targets of all graphs as `GraphSet.build` takes them, and the classes' names."""
    width = max(len(row) for row in rows)
    if width == 1 and as_matrix(single := np.concatenate(rows)) is None:
        values, target = np.unique(single.astype(np.int64), return_inverse=True)
        return target, values.tolist()
    matrix = np.full((len(rows), width), np.nan)
    for g, row in enumerate(rows):
        if len(row) == 1 and row[0] == NO_CLASS:
            continue
        if len(row) != width:
            raise MotifairError(
                f"Graph {g} of {name} has {len(row)} targets, but others have {width}; give each "
                "graph the same number, NaN where one is not known."
            )
        matrix[g] = row
    return matrix, None


def _labels(values: np.ndarray) -> np.ndarray:
    """Convert labels, also numbers as text, to integers; raise unless they are whole numbers."""
    return values.astype(np.int64) if values.dtype.kind == "U" else whole_numbers(values)


def _columns(values: np.ndarray) -> np.ndarray:
    """Return attributes as `(nodes, width)`; a single number per node becomes one column."""
    rows = values.astype(float)
    if rows.ndim > 2:
        raise ValueError(f"x has {rows.ndim} dimensions")
    return rows[:, None] if rows.ndim == 1 else rows


def one_hot(rows: np.ndarray | None) -> np.ndarray | None:
    """Return the position of the 1 in each row if every row is one-hot, else None."""
    if rows is None or rows.ndim != 2:
        return None
    hot = ((rows == 0) | (rows == 1)).all() and (rows.sum(axis=1) == 1).all()
    return rows.argmax(axis=1).astype(np.int64) if hot else None


def _within(name: str, number: int, edges: np.ndarray, nodes: int) -> None:
    if edges.size and (edges.min() < 0 or edges.max() >= nodes):
        raise MotifairError(
            f"Graph {number} of {name} has {nodes} nodes, but an edge names node "
            f"{int(edges.max() if edges.max() >= nodes else edges.min())}; "
            "remove the edge or add the node."
        )
