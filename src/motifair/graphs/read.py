"""Read graphs from files, and check them against a schema."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from networkx.readwrite.graphml import GraphMLReader

from motifair.errors import MotifairError
from motifair.files import read_json
from motifair.graphs.convert import as_array, from_objects
from motifair.graphs.csv_file import BY_NAME, Columns, Table, is_csv, read_csv
from motifair.graphs.edge_list import is_edge_list, read_edge_list
from motifair.graphs.features import (
    KINDS,
    LABEL,
    AttributeSums,
    Features,
    fit_features,
    reads_attributes,
    reads_labels,
    standardisation,
)
from motifair.graphs.graph_set import NO_CLASS, GraphSet, Ints, whole_numbers
from motifair.graphs.molecules import read_molecules
from motifair.graphs.targets import default_names, is_binary
from motifair.graphs.task import BINARY, CLASSES, TargetSums, Task, fit_task, resolve_task
from motifair.graphs.tu import ZIP_ERRORS, corrupt, folder_reader, parse, zip_reader


@dataclass(frozen=True)
class Schema:
    """The format that graphs must have to be used together, or with a trained model.

    Attributes:
        features: Node inputs, one of `features.KINDS`.
        columns: The label of each input column, ascending; for labels only.
        classes: The classes as they are called in files, ascending.
        width: Number of inputs of a node: columns of labels, then attributes.
        mean: Mean of each attribute, by which it is standardised; for attributes only.
        scale: Standard deviation of each attribute.
        edges: The edge labels that a model reads, ascending; none if it reads none.
        task: What is predicted, if not classes.
    """

    features: str
    columns: tuple[int, ...]
    classes: tuple[int, ...]
    width: int
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    edges: tuple[int, ...] = ()
    task: Task | None = None

    def __post_init__(self) -> None:
        if self.features not in KINDS:
            raise MotifairError(f"features of a schema must be {' or '.join(KINDS)}; choose one.")
        for what, values in (
            ("columns", self.columns),
            ("classes", self.classes),
            ("edges", self.edges),
        ):
            if list(values) != sorted(set(values)):
                raise MotifairError(f"{what} of a schema must be ascending and unique; sort them.")
        labels = len(self.columns) if reads_labels(self.features) else 0
        if self.width < 1 or (self.features == LABEL and self.width != labels):
            raise MotifairError("width of a schema must be its number of inputs; fix it.")
        attributes = self.width - labels if reads_attributes(self.features) else 0
        if not len(self.mean) == len(self.scale) == attributes:
            raise MotifairError(
                f"mean and scale of a schema must have a number for each of its {attributes} "
                "attributes; make it again with: motifair federation init."
            )
        if not np.isfinite([*self.mean, *self.scale]).all() or min(self.scale, default=1.0) <= 0:
            raise MotifairError(
                "mean and scale of a schema must be finite, and scale more than 0; fix them."
            )

    @property
    def predicted(self) -> Task:
        """What is predicted."""
        return Task(CLASSES, len(self.classes)) if self.task is None else self.task

    @classmethod
    def of(
        cls, graphs: GraphSet, features: str, edges: str = "ignore", task: str = "auto"
    ) -> Schema:
        """Return the schema of graphs from `read_graphs`.

        `features`, `edges` and `task` may be `auto`. Attributes are standardised and numbers scaled
        by these graphs; `standardised_by` and `scaled_by` change that.

        >>> pair = GraphSet.build("pair", [1, 1], [], [-1, 1], node_label=[0, 6])
        >>> Schema.of(pair, "auto").columns
        (0, 6)
        """
        fitted = fit_features(graphs, np.arange(len(graphs)), features, edges)
        columns, mean, scale, edge_columns = (
            () if part is None else tuple(part.tolist())
            for part in (fitted.columns, fitted.mean, fitted.scale, fitted.edge_columns)
        )
        classes, predicted = _classes(graphs.target), None
        if graphs.values is not None or task not in ("auto", CLASSES):
            numbers, kind = resolve_task(_with_numbers(graphs), task)
            classes = ()
            if kind == CLASSES:
                raise MotifairError(f"{graphs.name} has numbers as targets; use task=auto.")
            predicted = fit_task(numbers, [np.arange(len(graphs))], kind)
        return cls(
            fitted.kind, columns, classes, fitted.width, mean, scale, edge_columns, predicted
        )

    def standardised_by(self, members: Sequence[AttributeSums]) -> Schema:
        """Return the schema with mean and scale of the attributes of all members.

        Raises:
            MotifairError: If the schema has no attributes, or a member has another number of them.
        """
        for number, member in enumerate(members):
            if len(member.mean) != len(self.mean):
                raise MotifairError(
                    f"Sums number {number + 1} are of {len(member.mean)} attributes, but the "
                    f"schema has {len(self.mean)}; give sums of the same attributes."
                )
        mean, scale = standardisation(members)
        return replace(self, mean=tuple(mean.tolist()), scale=tuple(scale.tolist()))

    def scaled_by(self, members: Sequence[TargetSums]) -> Schema:
        """Return the schema with mean and scale of the targets of all members."""
        return replace(self, task=self.predicted.scaled_by(members))

    def encoding(self) -> Features:
        """Return the encoding of nodes that the schema describes."""
        columns = np.array(self.columns, np.int64) if reads_labels(self.features) else None
        mean = scale = None
        if reads_attributes(self.features):
            mean, scale = np.array(self.mean), np.array(self.scale)
        edges = np.array(self.edges, np.int64) if self.edges else None
        return Features(self.features, self.width, columns, mean, scale, edges)

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary for JSON; mean, scale and edges only where there are any."""
        more = {name: list(getattr(self, name)) for name in ("mean", "scale", "edges")}
        return {
            "features": self.features,
            "columns": list(self.columns),
            "classes": list(self.classes),
            "width": self.width,
            **{name: values for name, values in more.items() if values},
            **({} if self.task is None else {"task": self.task.to_json()}),
        }

    @classmethod
    def from_json(cls, content: Any) -> Schema:
        """Build from a dictionary made by `to_json`."""
        try:
            columns, classes, edges, (width,) = (
                tuple(whole_numbers(values).tolist())
                for values in (
                    content["columns"],
                    content["classes"],
                    content.get("edges", []),
                    [content["width"]],
                )
            )
            mean, scale = (tuple(map(float, content.get(n, ()))) for n in ("mean", "scale"))
            task = Task.from_json(content["task"]) if content.get("task") else None
            return cls(str(content["features"]), columns, classes, width, mean, scale, edges, task)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise MotifairError(
                "A schema needs features, and columns, classes and width in whole numbers, and "
                "where it has them edges in whole numbers, mean and scale in numbers, and a task "
                "with kind and names; fix it."
            ) from error


def read_graphs(path: str | Path, columns: Columns = BY_NAME) -> GraphSet:
    """Read graphs from a TU folder or zip, from a CSV, PyG or NetworkX file, or a folder of them.

    Args:
        path: A TU folder or zip; a `.csv` or `.csv.gz` with molecules as SMILES, or with edges; a
            `.pt` with a PyG `Data` or a list of them; a NetworkX `.graphml`, `.gml` or node-link
            `.json` (one graph, or a list); or a folder of such files other than CSV, which are
            read in the order of their names. `from_objects` says what a graph needs, but here the
            class may be missing.
        columns: Which columns of a CSV file are read.

    Returns:
        The graphs. Unlike elsewhere `target` has the classes as they are called in the files, or
        `NO_CLASS`; `conform` numbers them.

    Raises:
        MotifairError: If there is nothing to read, or a file is broken.
    """
    path = Path(path)
    if not path.exists():
        raise MotifairError(f"There is no file or folder at {path}; check the path.")
    if path.suffix == ".zip" or (path.is_dir() and any(path.glob("*_A.txt"))):
        return _read_tu(path)
    if is_csv(path):
        return _with_class_values(read_table(path, columns)[0])
    files = _graph_files(path) if path.is_dir() else [f for f in [path] if f.suffix in _READERS]
    if not files:
        raise MotifairError(
            f"{path} holds no graphs; give a TU folder or zip, a CSV with SMILES or edges, a PyG "
            ".pt, or NetworkX .graphml, .gml or node-link .json."
        )
    return _joined(path.stem, [graph for file in files for graph in _read_file(file)])


def is_graph_file(path: Path) -> bool:
    """Whether a path has the suffix of a file with graphs, other than a zip in the TU format."""
    return path.suffix in _READERS or is_csv(path)


def holds_graph_files(folder: Path) -> bool:
    """Whether a folder is not in the TU format and holds files with graphs."""
    return not any(folder.glob("*_A.txt")) and bool(_graph_files(folder))


def _graph_files(folder: Path) -> list[Path]:
    files = sorted(folder.iterdir())
    return [f for f in files if f.suffix in _READERS and not f.name.startswith(".")]


def read_table(path: Path, columns: Columns) -> tuple[GraphSet, Table | None]:
    """Read a CSV file: molecules as SMILES, or edges with the columns graph, source and target."""
    frame = read_csv(path)
    if not is_edge_list(frame):
        return read_molecules(path, frame, columns)
    if columns.smiles or columns.targets or columns.group:
        raise MotifairError(
            f"{path} has edges, whose columns are graph, source, target and y; leave --smiles, "
            "--targets and a partition by column out."
        )
    return read_edge_list(path, frame, classes=columns.targets is not None), None


def from_unclassed(objects: Sequence[Any]) -> GraphSet:
    """Make one set of PyG or NetworkX graphs, whose classes may be missing, as `read_graphs` does.

    >>> from_unclassed([nx.cycle_graph(3)]).target.tolist() == [NO_CLASS]
    True
    """
    from torch_geometric.data import Data

    for number, graph in enumerate(objects):
        if not isinstance(graph, Data | nx.Graph):
            raise MotifairError(
                f"Object {number} of the list is a {type(graph).__name__}, not a graph; give PyG "
                "Data or NetworkX graphs."
            )
    return _joined(
        "The list",
        [_with_class(g.copy()) if isinstance(g, nx.Graph) else _plain(g) for g in objects],
    )


def check_inputs(graphs: GraphSet, schema: Schema) -> None:
    """Raise, naming the first such graph, if labels or attributes of nodes violate the schema."""
    if reads_labels(schema.features):
        _check_labels(graphs, schema)
    if reads_attributes(schema.features):
        _check_attributes(graphs, schema)
    if schema.edges:
        _check_edge_labels(graphs, schema)


def check_schema(graphs: GraphSet, schema: Schema) -> None:
    """Raise, naming the first such graph, if graphs of `read_graphs` violate the schema."""
    check_inputs(graphs, schema)
    if schema.task is not None:
        _check_targets(_with_numbers(graphs), schema.task)
        return
    if graphs.values is not None:
        raise MotifairError(
            f"{graphs.name} has numbers as targets, but the classes are "
            f"{format_values(schema.classes)}; give each graph one of them."
        )
    other = np.flatnonzero(~np.isin(graphs.target, schema.classes))
    if len(other):
        target = int(graphs.target[other[0]])
        has = "no class" if target == NO_CLASS else f"class {target}"
        raise MotifairError(
            f"Graph {other[0]} of {graphs.name} has {has}, but the classes are "
            f"{format_values(schema.classes)}; give it one of them, or remove it."
        )


def conform(graphs: GraphSet, schema: Schema) -> GraphSet:
    """Check graphs of `read_graphs` against a schema, and number their classes as it does.

    Targets that are not classes stay as they are.

    >>> one = GraphSet.build("one", [1], [], [7], node_label=[0])
    >>> conform(one, Schema("label", (0,), (5, 7), 1)).target.tolist()
    [1]
    """
    check_schema(graphs, schema)
    if schema.task is not None:
        return replace(_with_numbers(graphs), target_names=schema.task.names)
    target = np.searchsorted(np.array(schema.classes), graphs.target)
    return replace(graphs, target=target, class_values=schema.classes)


def _check_targets(graphs: GraphSet, task: Task) -> None:
    """Raise if targets are not those of a task: as many, of the same names, and answers 0 or 1."""
    assert graphs.values is not None
    count, names = graphs.values.shape[1], graphs.target_names
    named = names != default_names(count)
    if count != task.outputs or (named and names != task.names):
        has, agreed = format_values(names) if named else count, format_values(task.names)
        raise MotifairError(
            f"{graphs.name} has other targets ({has}) than were agreed ({agreed}); give every "
            "graph these in this order, NaN where it has no label."
        )
    if task.kind == BINARY and not is_binary(graphs.values):
        other = ~(np.isnan(graphs.values) | np.isin(graphs.values, (0.0, 1.0)))
        g, t = np.argwhere(other)[0]
        raise MotifairError(
            f"Graph {g} of {graphs.name} answers {task.names[t]} by {graphs.values[g, t]:g}; give "
            "0 or 1, or NaN where it has no label."
        )


def _with_numbers(graphs: GraphSet) -> GraphSet:
    """Return graphs of `read_graphs` with their classes as numbers, NaN for those without."""
    if graphs.values is not None:
        return graphs
    target = graphs.target.astype(np.float64)
    return graphs.with_values(np.where(graphs.target == NO_CLASS, np.nan, target)[:, None])


def _check_labels(graphs: GraphSet, schema: Schema) -> None:
    known = f"the labels are {format_values(schema.columns)}"
    if graphs.node_label is None:
        # One-hot PyG inputs are labels: name the first graph whose inputs are not one-hot.
        x = np.zeros((len(graphs.degree), 1)) if graphs.attribute is None else graphs.attribute
        hot = ((x == 0) | (x == 1)).all(axis=1) & (x.sum(axis=1) == 1)
        g = graphs.node_graph[hot.argmin()]
        raise MotifairError(
            f"Graph {g} of {graphs.name} has no node labels, but {known}; "
            "give every node its label (in PyG as a one-hot x)."
        )
    unknown = np.flatnonzero(~np.isin(graphs.node_label, schema.columns))
    if len(unknown):
        v = unknown[0]
        raise MotifairError(
            f"Graph {graphs.node_graph[v]} of {graphs.name} has a node with label "
            f"{graphs.node_label[v]}, but {known}; relabel the node, or remove the graph."
        )


def _check_edge_labels(graphs: GraphSet, schema: Schema) -> None:
    known = f"the edge labels are {format_values(schema.edges)}"
    if graphs.edge_label is None:
        raise MotifairError(
            f"{graphs.name} has no edge labels, but {known}; give every edge its label (in PyG as "
            "a one-hot edge_attr)."
        )
    unknown = np.flatnonzero(~np.isin(graphs.edge_label, schema.edges))
    if len(unknown):
        node = np.searchsorted(graphs.edge_start, unknown[0], side="right") - 1
        raise MotifairError(
            f"Graph {graphs.node_graph[node]} of {graphs.name} has an edge with label "
            f"{graphs.edge_label[unknown[0]]}, but {known}; relabel the edge, or remove the graph."
        )


def _check_attributes(graphs: GraphSet, schema: Schema) -> None:
    width = 0 if graphs.attribute is None else graphs.attribute.shape[1]
    wanted = len(schema.mean)
    if graphs.attribute is None or width != wanted:
        raise MotifairError(
            f"Graph 0 of {graphs.name} has {width or 'no'} attributes at each node, but there "
            f"must be {wanted}; give every node {wanted} numbers."
        )
    finite = np.isfinite(graphs.attribute).all(axis=1)
    if not finite.all():
        raise MotifairError(
            f"Graph {graphs.node_graph[finite.argmin()]} of {graphs.name} has attributes that are "
            "not all finite; replace NaN and infinities."
        )


def format_values(values: Sequence[int | str]) -> str:
    """Join labels, classes or names by commas; of more than 12 the first 12 and the last.

    >>> format_values([1, 2]), format_values(range(100))
    ('1, 2', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... 99')
    """
    some = ", ".join(map(str, values[:12]))
    return f"{some}, ... {values[-1]}" if len(values) > 12 else some


def _classes(target: Ints) -> tuple[int, ...]:
    return tuple(np.unique(target[target != NO_CLASS]).tolist())


def _with_classes(graphs: GraphSet, target: Ints) -> GraphSet:
    return replace(graphs, target=target, class_values=_classes(target))


def _with_class_values(graphs: GraphSet) -> GraphSet:
    """Return graphs whose `target` has the classes as they are called in the files."""
    if graphs.values is not None or not graphs.class_values:
        return graphs
    return _with_classes(graphs, np.array(graphs.class_values, np.int64)[graphs.target])


def _read_tu(path: Path) -> GraphSet:
    with contextlib.ExitStack() as stack:
        name, read = zip_reader(path, stack) if path.is_file() else folder_reader(path)

        def completed(part: str) -> bytes | None:
            content = read(part)
            if part == "graph_labels" and content is None and read("graph_attributes") is None:
                return _one_class(read("graph_indicator") or b"")
            return content

        try:
            graphs, labels = parse(name, completed), read("graph_labels")
        except ZIP_ERRORS as error:
            raise corrupt(path) from error
    if labels is None and graphs.values is None:
        return _with_classes(graphs, np.full(len(graphs), NO_CLASS))
    return _with_class_values(graphs)


def _one_class(indicator: bytes) -> bytes:
    """Return a file that gives all graphs class 0; `parse` reports a malformed indicator."""
    lines = indicator.split()
    last = lines[-1].decode(errors="replace") if lines else ""
    graphs = min(int(last), len(lines)) if last.isdecimal() else 1
    return b"0\n" * max(graphs, 1)


def _read_file(path: Path) -> list[Any]:
    read = _READERS[path.suffix]
    try:
        return read(path)
    except MotifairError:
        raise
    except Exception as error:  # parsers raise many types of exceptions for a broken file
        raise MotifairError(
            f"{path} cannot be read as {_KINDS[path.suffix]} ({type(error).__name__}); "
            "write it again."
        ) from error


def _read_pyg(path: Path) -> list[Any]:
    """Load `Data` objects; the file cannot load any other class."""
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    graphs = loaded if isinstance(loaded, list | tuple) else [loaded]
    if any(type(graph) is not Data for graph in graphs):
        raise MotifairError(
            f"{path} contains objects other than Data; write it with "
            "torch.save(list(dataset), path)."
        )
    return [_plain(graph) for graph in graphs]


def _plain(graph: Any) -> Any:
    """Copy a `Data`, with `NO_CLASS` if it has no class."""
    from torch_geometric.data import Data

    y = graph.get("y")
    y = NO_CLASS if y is None or not as_array(y).size else y
    return Data(**{**graph.to_dict(), "y": y, "num_nodes": graph.num_nodes})


def _read_graphml(path: Path) -> list[Any]:
    graphs = list(GraphMLReader()(path=str(path)))
    for graph in graphs:
        for _, node in graph.nodes(data=True):
            if isinstance(node.get("x"), str):  # GraphML has no lists
                words = node["x"].strip("[]").replace(",", " ").split()
                node["x"] = [float(word) for word in words]
    return [_with_class(graph) for graph in graphs]


def _read_gml(path: Path) -> list[Any]:
    graph = nx.read_gml(path, label="id")
    for _, node in graph.nodes(data=True):
        node.pop("label", None)  # in GML that is the node's name
        if "node_label" in node:
            node["label"] = node.pop("node_label")
    return [_with_class(graph)]


def _read_node_link(path: Path) -> list[Any]:
    content = read_json(path)
    graphs = content if isinstance(content, list) else [content]
    return [
        _with_class(nx.node_link_graph(g, edges="links" if "links" in g else "edges"))
        for g in graphs
    ]


def _with_class(graph: nx.Graph[Any]) -> nx.Graph[Any]:
    """Set `NO_CLASS` if a graph has no class."""
    if graph.graph.get("y") is None:
        graph.graph["y"] = NO_CLASS
    return graph


_KINDS = {
    ".pt": "PyG Data without code",
    ".graphml": "GraphML",
    ".gml": "GML",
    ".json": "node-link JSON",
}
_READERS: dict[str, Callable[[Path], list[Any]]] = {
    ".pt": _read_pyg,
    ".graphml": _read_graphml,
    ".gml": _read_gml,
    ".json": _read_node_link,
}


def _joined(name: str, objects: list[Any]) -> GraphSet:
    """Make one set of PyG or NetworkX graphs, with the classes as they are called in the files."""
    if len({isinstance(o, nx.Graph) for o in objects}) > 1:
        raise MotifairError(f"{name} holds PyG and NetworkX files; keep them in two folders.")
    node_data = [_node_data(o) for o in objects]
    for g, data in enumerate(node_data):
        if data != node_data[0]:
            raise MotifairError(
                f"Graph {g} of {name} has {data} at its nodes, but graph 0 has {node_data[0]}; "
                "give all graphs the same."
            )
    return _with_class_values(from_objects(name, objects))


def _node_data(graph: Any) -> str:
    """Describe labels and attributes of a graph's nodes, to compare graphs."""
    if isinstance(graph, nx.Graph):
        nodes = [node for _, node in graph.nodes(data=True)]
        widths = {np.size(node["x"]) if "x" in node else 0 for node in nodes}
        labels = all("label" in node for node in nodes)
        return f"{'a label' if labels else 'no label'} and {max(widths, default=0)} attributes"
    x = graph.x
    return f"{0 if x is None else x.shape[1] if x.dim() == 2 else 1} attributes"
