"""Random graphs for property tests, and plain descriptions of a `GraphSet` to compare."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from motifair.graphs.graph_set import GraphSet

Described = tuple[int, dict[tuple[int, int], int | None], list[int] | None, list[Any] | None, int]


@st.composite
def graph_sets(
    draw: st.DrawFn,
    *,
    max_graphs: int = 4,
    max_nodes: int = 7,
    labels: st.SearchStrategy[int] | None = None,
    edge_labels: bool | None = None,
    attributes: bool = False,
) -> GraphSet:
    """Draw a few graphs of any density; `edge_labels=None` draws whether edges have labels."""
    label = st.integers(0, 2) if labels is None else labels
    nodes = draw(st.lists(st.integers(1, max_nodes), min_size=1, max_size=max_graphs))
    edges: list[tuple[int, int]] = []
    first = 0
    for n in nodes:
        places = [(first + u, first + v) for u in range(n) for v in range(u)]
        if places:
            edges += draw(st.lists(st.sampled_from(places), unique=True))
        first += n

    def several(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
        return draw(st.lists(strategy, min_size=count, max_size=count))

    marked = draw(st.booleans()) if edge_labels is None else edge_labels
    numbers = st.floats(-9, 9, width=16)
    return GraphSet.build(
        "drawn",
        nodes=nodes,
        edges=edges,
        target=several(st.integers(0, 2), len(nodes)),
        class_values=range(3),
        node_label=several(label, first),
        edge_label=several(label, len(edges)) if marked else None,
        attribute=several(st.tuples(numbers, numbers), first) if attributes else None,
    )


def described(graphs: GraphSet) -> list[Described]:
    """Say of each graph: its nodes, its edges with labels, node labels, attributes, class."""
    found: list[Described] = []
    for g in range(len(graphs)):
        first, last = int(graphs.node_start[g]), int(graphs.node_start[g + 1])
        edges: dict[tuple[int, int], int | None] = {}
        for u in range(first, last):
            for e in range(graphs.edge_start[u], graphs.edge_start[u + 1]):
                v = int(graphs.neighbour[e])
                label = None if graphs.edge_label is None else int(graphs.edge_label[e])
                edges[u - first, v - first] = label
        label, attribute = graphs.node_label, graphs.attribute
        found.append(
            (
                last - first,
                edges,
                None if label is None else label[first:last].tolist(),
                None if attribute is None else attribute[first:last].tolist(),
                int(graphs.target[g]),
            )
        )
    return found


def to_networkx(graphs: GraphSet, labels: np.ndarray | None = None) -> list[nx.Graph]:
    """Return NetworkX graphs with `label` on nodes (by default their own) and edges, and `y`."""
    made = []
    for g, (n, edges, own, attribute, y) in enumerate(described(graphs)):
        graph = nx.Graph(y=y)
        first = graphs.node_start[g]
        for v in range(n):
            graph.add_node(v)
            if labels is not None:
                graph.nodes[v]["label"] = int(labels[first + v])
            elif own is not None:
                graph.nodes[v]["label"] = own[v]
            if attribute is not None:
                graph.nodes[v]["x"] = attribute[v]
        for (u, v), label in edges.items():
            graph.add_edge(u, v, **({} if label is None else {"label": label}))
        made.append(graph)
    return made


def renumbered(graphs: GraphSet, rng: np.random.Generator) -> tuple[GraphSet, np.ndarray]:
    """Shuffle the nodes within every graph; return the old number of each new node too."""
    old = np.lexsort((rng.random(len(graphs.degree)), graphs.node_graph))
    new = np.empty_like(old)
    new[old] = np.arange(len(old))
    pairs, entry = graphs.edge_list()
    shuffled = GraphSet.build(
        graphs.name,
        nodes=graphs.nodes,
        edges=new[pairs],
        target=graphs.target,
        class_values=graphs.class_values,
        node_label=None if graphs.node_label is None else graphs.node_label[old],
        edge_label=None if graphs.edge_label is None else graphs.edge_label[entry],
        attribute=None if graphs.attribute is None else graphs.attribute[old],
    )
    return shuffled, old


def lines(rows: Iterable[Any]) -> str:
    """Write one row a line, numbers of a row separated by commas."""
    words = (", ".join(map(str, r)) if isinstance(r, list | tuple) else str(r) for r in rows)
    return "".join(f"{w}\n" for w in words)


def write_parts(folder: Path, name: str, parts: dict[str, str]) -> Path:
    """Write the files NAME_part.txt of a TU folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in parts.items():
        (folder / f"{name}_{part}.txt").write_text(text)
    return folder


def tu_parts(graphs: GraphSet) -> dict[str, str]:
    """Write a `GraphSet` in the TU text format, every edge in both directions."""
    source = np.repeat(np.arange(len(graphs.degree)), graphs.degree)
    parts = {
        "A": lines(zip((source + 1).tolist(), (graphs.neighbour + 1).tolist(), strict=True)),
        "graph_indicator": lines((graphs.node_graph + 1).tolist()),
        "graph_labels": lines(graphs.target.tolist()),
    }
    if graphs.node_label is not None:
        parts["node_labels"] = lines(graphs.node_label.tolist())
    if graphs.edge_label is not None:
        parts["edge_labels"] = lines(graphs.edge_label.tolist())
    if graphs.attribute is not None:
        parts["node_attributes"] = lines(graphs.attribute.tolist())
    return parts
