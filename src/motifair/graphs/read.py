"""Read graphs from files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
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
from motifair.graphs.graph_set import NO_CLASS, GraphSet, Ints
from motifair.graphs.molecules import read_molecules
from motifair.graphs.schema import class_values_of
from motifair.graphs.tu import ZIP_ERRORS, corrupt, folder_reader, parse, zip_reader


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


def _with_classes(graphs: GraphSet, target: Ints) -> GraphSet:
    return replace(graphs, target=target, class_values=class_values_of(target))


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
