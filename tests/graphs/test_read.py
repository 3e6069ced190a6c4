"""Graphs from files of every kind, and the schema they must fit."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from graphs.graph_samples import described, graph_sets, to_networkx, tu_parts, write_parts
from hypothesis import given
from torch_geometric.data import Data

from motifair.errors import MotifairError
from motifair.graphs.features import AttributeSums
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.read import NO_CLASS, read_graphs
from motifair.graphs.schema import Schema, check_inputs, check_schema, conform
from motifair.graphs.tu import load_tu

WIDTH = 3


def write_tu(folder: Path, graphs: GraphSet) -> Path:
    return write_parts(folder, "OWN", tu_parts(graphs))


def write_zip(folder: Path, graphs: GraphSet) -> Path:
    with zipfile.ZipFile(folder / "own.zip", "w") as archive:
        for part, text in tu_parts(graphs).items():
            archive.writestr(f"OWN/OWN_{part}.txt", text)
    return folder / "own.zip"


def to_pyg(graphs: GraphSet) -> list[Data]:
    return [
        Data(
            x=torch.eye(WIDTH)[torch.tensor(labels)],
            edge_index=torch.tensor(list(edges), dtype=torch.long).reshape(-1, 2).T,
            y=torch.tensor([y]),
        )
        for _, edges, labels, _, y in described(graphs)
    ]


def write_pt(folder: Path, graphs: GraphSet) -> Path:
    torch.save(to_pyg(graphs), folder / "own.pt")
    return folder / "own.pt"


def write_pt_folder(folder: Path, graphs: GraphSet) -> Path:
    for g, data in enumerate(to_pyg(graphs)):
        torch.save(data, folder / f"{g}.pt")
    return folder


def write_graphml(folder: Path, graphs: GraphSet) -> Path:
    for g, graph in enumerate(to_networkx(graphs)):
        for _, node in graph.nodes(data=True):
            if "x" in node:
                node["x"] = json.dumps(node["x"])
        nx.write_graphml(graph, folder / f"{g}.graphml")
    return folder


def write_gml(folder: Path, graphs: GraphSet) -> Path:
    for g, graph in enumerate(to_networkx(graphs)):
        for _, node in graph.nodes(data=True):
            node["node_label"] = node.pop("label")
        nx.write_gml(graph, folder / f"{g}.gml")
    return folder


def write_node_link(folder: Path, graphs: GraphSet) -> Path:
    made = [nx.node_link_data(graph, edges="edges") for graph in to_networkx(graphs)]
    (folder / "own.json").write_text(json.dumps(made))
    return folder / "own.json"


def write_old_node_link(folder: Path, graphs: GraphSet) -> Path:
    for g, graph in enumerate(to_networkx(graphs)):
        text = json.dumps(nx.node_link_data(graph, edges="links"))
        (folder / f"{g}.json").write_text(text)
    return folder


Writer = Callable[[Path, GraphSet], Path]
NETWORKX = [write_graphml, write_gml, write_node_link, write_old_node_link]
WRITERS = [write_tu, write_zip, write_pt, write_pt_folder, *NETWORKX]
with_edges = graph_sets(edge_labels=False).filter(lambda g: g.edges.sum() > 0)


@pytest.mark.parametrize("write", WRITERS)
@given(graphs=with_edges)
def test_graphs_come_back_from_every_kind_of_file(
    write: Writer, graphs: GraphSet, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = read_graphs(write(tmp_path_factory.mktemp("own"), graphs))
    # PyG inputs count as attributes, too, so attributes are not compared here.
    expected = [(*rest, None, y) for *rest, _, y in described(graphs)]
    assert [(*rest, None, y) for *rest, _, y in described(found)] == expected
    assert found.classes == len(np.unique(graphs.target))


@pytest.mark.parametrize("write", [write_tu, *NETWORKX])
@given(graphs=graph_sets(edge_labels=True, attributes=True).filter(lambda g: g.edges.sum() > 0))
def test_attributes_and_edge_labels_come_back(
    write: Writer, graphs: GraphSet, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = read_graphs(write(tmp_path_factory.mktemp("own"), graphs))
    assert described(found) == described(graphs)


@pytest.mark.parametrize("write", WRITERS)
def test_classes_stay_as_the_file_calls_them(write: Writer, tmp_path: Path) -> None:
    graphs = GraphSet.build("own", [2, 2, 2], [[0, 1]], [7, -1, 7], node_label=[0, 1, 2] * 2)
    assert read_graphs(write(tmp_path, graphs)).target.tolist() == [7, -1, 7]


def test_mutag_read_here_is_mutag_with_its_own_classes(data_dir: Path, mutag: GraphSet) -> None:
    found = read_graphs(data_dir / "MUTAG.zip")
    assert set(found.target.tolist()) == {-1, 1}
    assert Schema.of(found, "auto") == Schema("label", tuple(range(7)), (-1, 1), 7)
    again = conform(found, Schema.of(found, "auto"))
    assert again.digest() == mutag.digest() == load_tu("MUTAG", data_dir).digest()


def without_class(graph: Any) -> Any:
    if isinstance(graph, nx.Graph):
        del graph.graph["y"]
    else:
        del graph.y
    return graph


TRIANGLE = GraphSet.build("own", [3, 3], [[0, 1], [1, 2], [3, 4]], [0, 1], node_label=[0, 1, 2] * 2)


def test_graphs_without_a_class_can_be_read(tmp_path: Path) -> None:
    torch.save([without_class(d) for d in to_pyg(TRIANGLE)], tmp_path / "a.pt")
    made = [nx.node_link_data(without_class(g), edges="edges") for g in to_networkx(TRIANGLE)]
    (tmp_path / "a.json").write_text(json.dumps(made))
    parts = tu_parts(TRIANGLE)
    del parts["graph_labels"]
    write_parts(tmp_path / "tu", "OWN", parts)
    for place in ("a.pt", "a.json", "tu"):
        found = read_graphs(tmp_path / place)
        assert found.target.tolist() == [NO_CLASS] * 2
        assert found.classes == 0
        assert found.nodes.tolist() == [3, 3]
        check_inputs(found, Schema("label", (0, 1, 2), (0, 1), 3))
        with pytest.raises(MotifairError, match=r"Graph 0 of .* has no class.* give it one"):
            check_schema(found, Schema("label", (0, 1, 2), (0, 1), 3))


@pytest.mark.parametrize("text", [b"", b"1\n1\nx\n", b"1\n1\n99999999999999\n", b"2\n1\n"])
def test_a_bad_indicator_without_classes_is_refused_in_a_sentence(
    text: bytes, tmp_path: Path
) -> None:
    parts = {**tu_parts(TRIANGLE), "graph_indicator": text.decode()}
    del parts["graph_labels"]
    with pytest.raises(MotifairError, match=r"OWN_graph_indicator\.txt"):
        read_graphs(write_parts(tmp_path, "OWN", parts))


def test_a_class_of_some_graphs_only_is_kept(tmp_path: Path) -> None:
    first, second = to_pyg(TRIANGLE)
    torch.save([without_class(first), second], tmp_path / "a.pt")
    assert read_graphs(tmp_path / "a.pt").target.tolist() == [NO_CLASS, 1]


def test_several_graphs_in_one_graphml_are_all_read(tmp_path: Path) -> None:
    text = "\n".join(nx.generate_graphml(to_networkx(TRIANGLE)[0]))
    start, stop = text.index("<graph "), text.index("</graph>") + len("</graph>")
    (tmp_path / "a.graphml").write_text(text[:stop] + text[start:stop] + text[stop:])
    assert len(read_graphs(tmp_path / "a.graphml")) == 2


def test_in_gml_a_nodes_name_is_no_label(tmp_path: Path) -> None:
    nx.write_gml(nx.path_graph(3), tmp_path / "a.gml")
    assert read_graphs(tmp_path / "a.gml").node_label is None


def test_tensors_that_were_trained_on_are_read(tmp_path: Path) -> None:
    data = to_pyg(TRIANGLE)[0]
    data.x.requires_grad_()
    torch.save(data, tmp_path / "a.pt")
    assert read_graphs(tmp_path / "a.pt").node_label.tolist() == [0, 1, 2]


def test_what_is_not_read_of_a_pyg_file_is_named(tmp_path: Path) -> None:
    data = to_pyg(TRIANGLE)[0]
    data.z, data.edge_attr = torch.ones(3), torch.rand(data.num_edges, 4)
    torch.save(data, tmp_path / "a.pt")
    named = ("edge_attr (read only where it is one-hot)", "z")
    assert read_graphs(tmp_path / "a.pt").ignored == named


class Trap:
    """What it is asked to do when it is unpickled leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(
    wrapped: bool, tmp_path: Path
) -> None:
    trap, trace = Trap(tmp_path / "trace"), tmp_path / "trace"
    content = Data(edge_index=torch.tensor([[0], [1]]), y=trap) if wrapped else trap
    torch.save(content, tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(trap, protocol=2))
    for name in ("a.pt", "b.pt"):
        with pytest.raises(MotifairError, match=r"\.pt cannot be read as PyG Data without code"):
            read_graphs(tmp_path / name)
    assert not trace.exists()


@pytest.mark.parametrize("name", ["a.pt", "a.graphml", "a.gml", "a.json", "a.zip"])
@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 50, b"{}", b"[1]", b"<a/>", b"graph"])
def test_a_broken_file_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(MotifairError, match=r"a\.|a holds no graph"):
        read_graphs(tmp_path / name)


def refused(sentence: str) -> Any:
    return pytest.raises(MotifairError, match=sentence)


def test_what_is_no_graphs_at_all_is_refused(tmp_path: Path) -> None:
    with refused("There is no file or folder at .*gone; check the path"):
        read_graphs(tmp_path / "gone")
    with refused("holds no graphs; give a TU folder or zip"):
        read_graphs(tmp_path)
    torch.save({"x": torch.eye(2)}, tmp_path / "a.pt")
    with refused(r"a\.pt contains objects other than Data; write it with torch.save"):
        read_graphs(tmp_path)
    write_pt(tmp_path, TRIANGLE)
    (tmp_path / "a.pt").unlink()
    write_node_link(tmp_path, TRIANGLE)
    with refused("holds PyG and NetworkX files; keep them in two folders"):
        read_graphs(tmp_path)


def test_a_graph_unlike_the_first_is_named(tmp_path: Path) -> None:
    first, second = to_pyg(TRIANGLE)
    second.x = torch.zeros(3, 5)
    torch.save([first, first, second], tmp_path / "a.pt")
    with refused("Graph 2 of a has 5 attributes at its nodes, but graph 0 has 3 attributes; give"):
        read_graphs(tmp_path / "a.pt")
    one, other = to_networkx(TRIANGLE)
    del other.nodes[2]["label"]
    made = [nx.node_link_data(g, edges="edges") for g in (one, other)]
    (tmp_path / "b.json").write_text(json.dumps(made))
    with refused("Graph 1 of b has no label and 0 attributes .* graph 0 has a label"):
        read_graphs(tmp_path / "b.json")


LABELS = Schema("label", (0, 1, 2), (0, 1), 3)
ATTRIBUTES = Schema("attributes", (), (0, 1), 4, mean=(0.0,) * 4, scale=(1.0,) * 4)


def test_what_fits_the_schema_is_let_pass() -> None:
    check_schema(TRIANGLE, LABELS)
    check_schema(TRIANGLE, Schema("label", (0, 1, 2, 9), (-1, 0, 1), 4))
    check_schema(TRIANGLE, Schema("degree", (), (0, 1), 2))
    check_schema(replace(TRIANGLE, attribute=np.zeros((6, 4))), ATTRIBUTES)
    both = replace(TRIANGLE, attribute=np.zeros((6, 4)))
    check_schema(both, replace(ATTRIBUTES, features="label+attributes", columns=(0, 1, 2), width=7))


def test_unknown_labels_classes_and_widths_are_refused_with_the_first_such_graph() -> None:
    with refused("Graph 1 of own has a node with label 8, but the labels are 0, 1, 2; relabel"):
        check_schema(replace(TRIANGLE, node_label=np.array([0, 1, 2, 0, 8, 9])), LABELS)
    with refused("Graph 1 of own has class 4, but the classes are 0, 1; give it one of them"):
        check_schema(replace(TRIANGLE, target=np.array([0, 4])), LABELS)
    with refused("Graph 0 of own has no node labels, but the labels are 0, 1, 2; give every"):
        check_schema(replace(TRIANGLE, node_label=None), LABELS)
    hot = np.eye(3)[[0, 1, 2, 0, 1, 2]]
    hot[4] = 0.5
    with refused("Graph 1 of own has no node labels"):
        check_schema(replace(TRIANGLE, node_label=None, attribute=hot), LABELS)
    wide = ATTRIBUTES
    with refused("Graph 0 of own has no attributes at each node, but there must be 4; give every"):
        check_schema(TRIANGLE, wide)
    with refused("Graph 0 of own has 3 attributes at each node, but there must be 4; give every"):
        check_schema(replace(TRIANGLE, attribute=hot), wide)
    bad = np.zeros((6, 4))
    bad[3, 1] = np.nan
    with refused("Graph 1 of own has attributes that are not all finite; replace"):
        check_schema(replace(TRIANGLE, attribute=bad), wide)


def test_many_labels_are_not_all_listed() -> None:
    with refused(r"the labels are 10, 11, .*, 21, \.\.\. 99; relabel"):
        check_inputs(TRIANGLE, Schema("label", tuple(range(10, 100)), (0,), 90))


def test_a_member_with_one_class_of_three_gets_its_number_among_all() -> None:
    only = replace(TRIANGLE, target=np.array([9, 9]))
    numbered = conform(only, Schema("label", (0, 1, 2), (-1, 4, 9), 3))
    assert numbered.target.tolist() == [2, 2]
    assert numbered.classes == 3


@given(graph_sets(attributes=True))
def test_a_schema_survives_json_and_fits_the_graphs_it_is_of(graphs: GraphSet) -> None:
    for kind in ("auto", "first", "degree", "attributes"):
        schema = Schema.of(graphs, kind)
        assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
        check_schema(graphs, schema)


@pytest.mark.parametrize(
    "change",
    [
        {"features": "colour"},
        {"columns": [1, 0, 2]},
        {"columns": [0, 1]},
        {"columns": ["a", "b", "c"]},
        {"columns": 3},
        {"classes": [0, 0]},
        {"classes": [0.5, 1]},
        {"classes": None},
        {"width": 0},
        {"width": "wide"},
        {"mean": [0.0], "scale": [1.0]},
        {"features": "attributes", "columns": []},
        {"features": "attributes", "columns": [], "mean": [0, 0, 0], "scale": [1, 1, 0]},
        {"features": "attributes", "columns": [], "mean": [0, 0, "nan"], "scale": [1, 1, 1]},
        {"features": "label+attributes", "width": 4, "mean": [0, 0], "scale": [1, 1]},
        {"mean": 3},
    ],
)
def test_a_schema_that_is_none_is_refused(change: dict[str, Any]) -> None:
    with refused("schema"):
        Schema.from_json({**LABELS.to_json(), **change})


@pytest.mark.parametrize("content", [None, [], {}, "label"])
def test_a_schema_that_lacks_parts_is_refused(content: Any) -> None:
    with refused("A schema needs features, and columns, classes and width"):
        Schema.from_json(content)


def test_edge_labels_that_a_model_does_not_know_are_refused() -> None:
    edges = TRIANGLE.edge_list()[0]
    labels = np.arange(len(edges)) % 2
    bonded = TRIANGLE.with_edges(edges, labels)
    schema = Schema.of(bonded, "label", "auto")
    assert schema.edges == (0, 1)
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    check_schema(bonded, schema)
    with refused("own has no edge labels, but the edge labels are 0, 1; give every edge"):
        check_schema(TRIANGLE, schema)
    labels[-1] = 4
    with refused("Graph 1 of own has an edge with label 4, but the edge labels are 0, 1; relabel"):
        check_schema(TRIANGLE.with_edges(edges, labels), schema)


def test_members_sums_standardise_a_schema_as_their_graphs_together_would() -> None:
    rng = np.random.default_rng(0)
    graphs = replace(TRIANGLE, node_label=None, attribute=rng.normal(3, 2, (6, 2)))
    halves = [graphs.select([g]) for g in range(2)]
    sums = [AttributeSums.of(np.asarray(half.attribute)) for half in halves]
    sent = [AttributeSums.from_json(json.loads(json.dumps(s.to_json()))) for s in sums]
    alone, together = Schema.of(halves[0], "auto"), Schema.of(graphs, "auto")
    found = alone.standardised_by(sent)
    assert alone.mean != together.mean
    assert np.allclose([found.mean, found.scale], [together.mean, together.scale], rtol=1e-12)
    with refused("Sums number 1 are of 2 attributes, but the schema has 0"):
        LABELS.standardised_by(sent)


@pytest.mark.parametrize(
    "change",
    [{"count": 0}, {"mean": [1]}, {"squares": [-1, 0]}, {"mean": ["inf", 0]}, {"squares": None}],
)
def test_sums_that_cannot_be_are_refused(change: dict[str, Any]) -> None:
    sums = {"count": 2, "mean": [0.0, 1.0], "squares": [0.0, 1.0]}
    assert AttributeSums.from_json(sums).count == 2
    with pytest.raises(ValueError, match=r"not|cannot|could"):
        AttributeSums.from_json({**sums, **change})
