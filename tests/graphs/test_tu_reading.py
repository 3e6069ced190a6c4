"""The TU text format: published datasets, and a user's own folders and zips."""

from __future__ import annotations

import tempfile
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from graphs.graph_samples import described, graph_sets, tu_parts, write_parts
from hypothesis import given

from motifair.graphs.graph_set import GraphSet
from motifair.graphs.tu import KNOWN, load_tu, read_tu

# Graphs, mean nodes, mean undirected edges, classes: the table of chrsmrrs.github.io/datasets.
PUBLISHED = {
    "PROTEINS": (1113, 39.06, 72.82, 2),
    "MUTAG": (188, 17.93, 19.79, 2),
    "IMDB-BINARY": (1000, 19.77, 96.53, 2),
    "DD": (1178, 284.32, 715.66, 2),
    "DBLP_v1": (19456, 10.48, 19.65, 2),
}
OWN = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "7\n0\n7\n2\n0\n",
    "edge_labels": "5\n5\n6\n6\n5\n5\n",
    "node_attributes": "0.5, 1\n1, 2\n-3, 0\n0, 0\n1e-3, 4\n",
}


def unpack(data_dir: Path, name: str, folder: Path) -> Path:
    with zipfile.ZipFile(data_dir / f"{name}.zip") as archive:
        archive.extractall(folder)
    return folder / name


def naive_reading(data_dir: Path, name: str) -> list[tuple[int, set[tuple[int, int]], int]]:
    """Read nodes, edges and class of each graph line by line."""
    with zipfile.ZipFile(data_dir / f"{name}.zip") as archive:
        text = {
            part: archive.read(f"{name}/{name}_{part}.txt").decode().split("\n")
            for part in ("A", "graph_indicator", "graph_labels")
        }
    graph = [int(line) for line in text["graph_indicator"] if line.strip()]
    classes = [int(line) for line in text["graph_labels"] if line.strip()]
    size = Counter(graph)
    first = {g: graph.index(g) for g in size}
    edges = defaultdict(set)
    for line in text["A"]:
        if line.strip():
            u, v = (int(word) - 1 for word in line.split(","))
            edges[graph[u]].add((u - first[graph[u]], v - first[graph[u]]))
    number = {c: k for k, c in enumerate(sorted(set(classes)))}
    return [(size[g + 1], edges[g + 1], number[c]) for g, c in enumerate(classes)]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_dataset_has_its_published_statistics_and_digest(
    name: str, data_dir: Path
) -> None:
    graphs = load_tu(name, data_dir)
    seen = (
        len(graphs),
        round(float(np.mean(graphs.nodes)), 2),
        round(float(np.mean(graphs.edges)), 2),
        len(np.unique(graphs.target)),
    )
    assert seen == PUBLISHED[name]
    assert graphs.digest() == KNOWN[name].digest


@pytest.mark.parametrize("name", ["MUTAG", "PROTEINS", "IMDB-BINARY"])
def test_a_published_dataset_equals_a_reading_line_by_line(name: str, data_dir: Path) -> None:
    ours = [(n, set(edges), y) for n, edges, _, _, y in described(load_tu(name, data_dir))]
    assert ours == naive_reading(data_dir, name)


def test_labels_and_attributes_come_with_the_datasets(mutag: GraphSet, proteins: GraphSet) -> None:
    assert np.unique(mutag.node_label).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert np.unique(mutag.edge_label).tolist() == [0, 1, 2, 3]
    assert np.unique(proteins.node_label).tolist() == [0, 1, 2]
    assert proteins.edge_label is None
    assert proteins.attribute is not None
    assert proteins.attribute.shape == (43471, 1)


@pytest.mark.parametrize("name", ["MUTAG", "PROTEINS"])
def test_a_zip_equals_its_unpacked_folder(name: str, data_dir: Path, tmp_path: Path) -> None:
    folder = unpack(data_dir, name, tmp_path)
    packed = read_tu(data_dir / f"{name}.zip")
    assert described(load_tu(str(folder))) == described(packed)


def test_the_doubled_edges_of_imdb_are_counted_once(imdb: GraphSet, data_dir: Path) -> None:
    with zipfile.ZipFile(data_dir / "IMDB-BINARY.zip") as archive:
        listed = archive.read("IMDB-BINARY/IMDB-BINARY_A.txt").count(b",")
    assert listed == 4 * imdb.edges.sum()
    source = np.repeat(np.arange(len(imdb.degree)), imdb.degree)
    assert len(np.unique(source * len(imdb.degree) + imdb.neighbour)) == len(imdb.neighbour)


@pytest.mark.parametrize("place", ["MUTAG", "MUTAG/raw"])
def test_a_dataset_is_found_by_name_in_an_unpacked_folder(
    place: str, data_dir: Path, tmp_path: Path, mutag: GraphSet
) -> None:
    folder = unpack(data_dir, "MUTAG", tmp_path / "unpacked")
    target = tmp_path / "data" / place
    target.parent.mkdir(parents=True)
    folder.rename(target)
    assert load_tu("MUTAG", tmp_path / "data").digest() == mutag.digest()


def test_the_data_folder_of_the_environment_is_used_where_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, label in (("environment", "1"), ("argument", "2")):
        parts = {**OWN, "node_labels": f"{label}\n" * 5}
        write_parts(tmp_path / place / "OWN", "OWN", parts)
    monkeypatch.setenv("MOTIFAIR_DATA", str(tmp_path / "environment"))
    monkeypatch.chdir(tmp_path)
    assert load_tu("OWN").node_label.tolist() == [1] * 5
    assert load_tu("OWN", tmp_path / "argument").node_label.tolist() == [2] * 5


def test_what_is_not_read_of_a_folder_is_named(tmp_path: Path) -> None:
    parts = {
        "A": "1, 2\n2, 1\n1, 2\n3, 4\n",
        "graph_indicator": "1\n1\n2\n2\n",
        "graph_labels": "0\n1\n",
        "node_labels": "0, 5\n1, 6\n0, 7\n1, 8\n",
        "edge_labels": "0\n0\n0\n1\n",
        "edge_attributes": "0.5\n" * 4,
        "graph_attributes": "1.5\n2.5\n",
    }
    assert read_tu(write_parts(tmp_path, "OWN", parts)).ignored == (
        "node labels beyond the first column",
        "edge attributes",
        "graph attributes",
        "direction of edges",
        "repeated edges",
    )


def test_a_dataset_already_downloaded_by_pyg_is_read_from_its_cache(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutag: GraphSet
) -> None:
    folder = unpack(data_dir, "MUTAG", tmp_path / "unpacked")
    (tmp_path / "cache/tu/MUTAG").mkdir(parents=True)
    folder.rename(tmp_path / "cache/tu/MUTAG/raw")
    monkeypatch.setenv("MOTIFAIR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MOTIFAIR_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert load_tu("MUTAG").digest() == mutag.digest()


def test_a_users_own_folder_is_read_with_all_it_has(tmp_path: Path) -> None:
    graphs = load_tu(str(write_parts(tmp_path, "OWN", OWN)))
    assert graphs.name == "OWN"
    assert graphs.classes == 2
    path = {(0, 1): 5, (1, 0): 5, (1, 2): 6, (2, 1): 6}
    bond = {(0, 1): 5, (1, 0): 5}
    assert described(graphs) == [
        (3, path, [7, 0, 7], [[0.5, 1], [1, 2], [-3, 0]], 1),
        (2, bond, [2, 0], [[0, 0], [1e-3, 4]], 0),
    ]


@pytest.mark.parametrize("inside", ["OWN/", ""])
def test_a_users_own_zip_is_read_with_or_without_a_folder_in_it(
    inside: str, tmp_path: Path
) -> None:
    packed = tmp_path / "mine.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for part, text in OWN.items():
            archive.writestr(f"{inside}OWN_{part}.txt", text)
    folder = write_parts(tmp_path / "folder", "OWN", OWN)
    assert described(load_tu(str(packed))) == described(load_tu(str(folder)))


def test_class_names_may_be_any_whole_numbers(tmp_path: Path) -> None:
    graphs = load_tu(str(write_parts(tmp_path, "OWN", {**OWN, "graph_labels": "40\n7\n"})))
    assert graphs.target.tolist() == [1, 0]


@given(graph_sets(attributes=True).filter(lambda graphs: graphs.edges.sum() > 0))
def test_graphs_written_as_tu_text_are_read_back_the_same(graphs: GraphSet) -> None:
    with tempfile.TemporaryDirectory() as folder:
        read = read_tu(write_parts(Path(folder), "DRAWN", tu_parts(graphs)))
    values = np.unique(graphs.target).tolist()
    expected = [(*rest, values.index(y)) for *rest, y in described(graphs)]
    assert described(read) == expected
