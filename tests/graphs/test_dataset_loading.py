"""A dataset by name, by several names, or from a mapping: who holds which graph."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from graphs.graph_samples import described, write_parts

from motifair.errors import MotifairError
from motifair.graphs.dataset import agent_names, load_dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.planted import planted

OWN = {"A": "1, 2\n3, 4\n", "graph_indicator": "1\n1\n2\n2\n", "graph_labels": "0\n1\n"}


def ring(nodes: int, y: int) -> nx.Graph:
    graph = nx.cycle_graph(nodes)
    graph.graph["y"] = y
    return graph


def test_one_name_is_a_dataset_that_nobody_holds_yet(mutag: GraphSet, data_dir: Path) -> None:
    data = load_dataset("MUTAG", agents=3, seed=0, data_dir=data_dir)
    assert data.graphs.digest() == mutag.digest()
    assert data.name == "MUTAG"
    assert data.owner is None
    assert data.roles == ()


def test_the_embedded_dataset_comes_with_owners_and_roles() -> None:
    data = load_dataset("planted", agents=3, seed=5)
    made = planted(3, 5)
    assert data.graphs.digest() == made.graphs.digest()
    assert data.owner is not None
    assert data.owner.tolist() == made.owner.tolist()
    assert data.owners == ("agent-00", "agent-01", "agent-02")
    assert data.roles == ("good", "good", "harmful")


def test_names_joined_by_commas_give_each_agent_its_own_dataset(
    mutag: GraphSet, imdb: GraphSet, data_dir: Path
) -> None:
    data = load_dataset("MUTAG,IMDB-BINARY", agents=9, seed=0, data_dir=data_dir)
    assert data.owners == ("IMDB-BINARY", "MUTAG")
    assert data.name == "IMDB-BINARY+MUTAG"
    assert data.owner is not None
    assert np.bincount(data.owner).tolist() == [1000, 188]
    for agent, whole in enumerate((imdb, mutag)):
        part = data.graphs.select(np.flatnonzero(data.owner == agent))
        assert np.array_equal(part.neighbour, whole.neighbour)
        assert np.array_equal(part.target, whole.target)
    assert data.graphs.node_label is None


def test_paths_may_be_joined_too(data_dir: Path, tmp_path: Path) -> None:
    mine = write_parts(tmp_path / "mine", "OWN", OWN)
    data = load_dataset(f"{mine},{data_dir / 'MUTAG.zip'}", agents=2, seed=0)
    assert data.owners == ("MUTAG", "mine")
    assert len(data.graphs) == 190


def test_a_mapping_gives_each_agent_its_graphs() -> None:
    hospital = [ring(3, 0), ring(4, 1), ring(5, 0)]
    bank = [ring(6, 1), ring(7, 0)]
    data = load_dataset({"hospital": hospital, "bank": bank}, agents=9, seed=0)
    assert data.owners == ("bank", "hospital")
    assert data.owner is not None
    assert data.owner.tolist() == [0, 0, 1, 1, 1]
    assert data.graphs.nodes.tolist() == [6, 7, 3, 4, 5]
    assert data.graphs.target.tolist() == [1, 0, 0, 1, 0]


@pytest.mark.parametrize("kind", ["objects", "folders"])
def test_classes_of_agents_own_graphs_are_joined_by_value(kind: str, tmp_path: Path) -> None:
    held = {"bank-a": (0, 1), "bank-b": (1, 2), "lab": (0, 2)}
    if kind == "objects":
        data = load_dataset(
            {a: [ring(3, y) for y in ys] for a, ys in held.items()}, agents=9, seed=0
        )
    else:
        folders = [
            write_parts(tmp_path / a, "OWN", {**OWN, "graph_labels": "{}\n{}\n".format(*ys)})
            for a, ys in held.items()
        ]
        data = load_dataset(",".join(f"{folder}/" for folder in folders), agents=9, seed=0)
    assert data.owners == ("bank-a", "bank-b", "lab")
    assert data.graphs.class_values == (0, 1, 2)
    assert data.graphs.target.tolist() == [0, 1, 1, 2, 0, 2]


def test_classes_of_different_published_datasets_are_joined_by_position(
    data_dir: Path, tmp_path: Path
) -> None:
    # MUTAG calls its classes -1 and 1, IMDB-MULTI (found by name) 1, 2 and 3.
    data = load_dataset("MUTAG,IMDB-MULTI", agents=9, seed=0, data_dir=data_dir)
    assert data.schemas == ("IMDB-MULTI", "MUTAG")
    assert [s.class_values for s in data.sources] == [(1, 2, 3), (-1, 1)]
    assert data.graphs.class_values == (0, 1, 2)
    assert set(data.graphs.target[data.owner == 1].tolist()) == {0, 1}
    # Own graphs are joined by value among themselves, whoever else is there.
    mine = [
        write_parts(tmp_path / name, "OWN", {**OWN, "graph_labels": labels})
        for name, labels in {"a": "0\n1\n", "b": "1\n2\n"}.items()
    ]
    mixed = load_dataset(",".join([*map(str, mine), "MUTAG"]), agents=9, seed=0, data_dir=data_dir)
    assert mixed.schemas == ("MUTAG", "own graphs")
    own = mixed.graphs.target[np.isin(mixed.owner, [1, 2])]
    assert own.tolist() == [0, 1, 1, 2]


def test_a_list_of_graphs_is_a_dataset_that_nobody_holds_yet() -> None:
    data = load_dataset([ring(3, 0), ring(4, 1)], agents=2, seed=0)
    assert data.owner is None
    assert [n for n, *_ in described(data.graphs)] == [3, 4]


def test_one_dataset_alone_is_not_each_agent_its_own(data_dir: Path) -> None:
    for lonely in ({"only": [ring(3, 0)]}, "MUTAG,MUTAG"):
        with pytest.raises(MotifairError, match="at least two, under different names"):
            load_dataset(lonely, agents=2, seed=0, data_dir=data_dir)


def test_an_agent_of_a_mapping_without_graphs_is_named() -> None:
    with pytest.raises(MotifairError, match="bank holds no graph; give at least one"):
        load_dataset({"hospital": [ring(3, 0)], "bank": []}, agents=2, seed=0)


def test_joined_datasets_of_one_name_are_refused_rather_than_dropped(
    data_dir: Path, tmp_path: Path
) -> None:
    twins = [write_parts(tmp_path / place / "OWN", "OWN", OWN) for place in ("here", "there")]
    names = ",".join([*map(str, twins), str(data_dir / "MUTAG.zip")])
    with pytest.raises(MotifairError, match="different names"):
        load_dataset(names, agents=3, seed=0)


def test_the_embedded_dataset_joined_to_another_is_not_called_unknown(data_dir: Path) -> None:
    with pytest.raises(MotifairError) as refused:
        load_dataset("planted,MUTAG", agents=2, seed=0, data_dir=data_dir)
    assert "No dataset is called 'planted'" not in str(refused.value)


@pytest.mark.parametrize("agents", [2, 10, 11, 100, 101, 1001])
def test_agents_sorted_by_name_are_sorted_by_number(agents: int) -> None:
    names = agent_names(agents)
    assert list(names) == sorted(names)
    assert [int(n.removeprefix("agent-")) for n in names] == list(range(agents))


def test_graphs_of_files_are_a_dataset(tmp_path: Path) -> None:
    ring, path = nx.cycle_graph(3), nx.path_graph(4)
    ring.graph["y"], path.graph["y"] = 3, 7
    links = [nx.node_link_data(g, edges="edges") for g in (ring, path)]
    (tmp_path / "both.json").write_text(json.dumps(links))
    folder = tmp_path / "each"
    folder.mkdir()
    nx.write_graphml(ring, folder / "ring.graphml")
    nx.write_graphml(path, folder / "tail.graphml")
    rows = [
        (name, u, v, g.graph["y"]) for name, g in (("r", ring), ("p", path)) for u, v in g.edges
    ]
    pd.DataFrame(rows, columns=["graph", "source", "target", "y"]).to_csv(
        tmp_path / "edges.csv", index=False
    )
    digests = {
        load_dataset(str(file), agents=2, seed=0).graphs.digest()
        for file in (tmp_path / "both.json", folder, tmp_path / "edges.csv")
    }
    assert len(digests) == 1
    named = load_dataset("edges.csv", agents=2, seed=0, data_dir=tmp_path).graphs
    assert (named.class_values, named.target.tolist()) == ((3, 7), [0, 1])


EDGES = "graph,source,target,y\n"


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("none.json", None, "There is no file"),
        ("a.json", json.dumps(nx.node_link_data(nx.path_graph(2), edges="edges")), "has no class"),
        ("a.csv", EDGES + "0,0,1,0\n0,1,2,1\n", "Line 3 of .* another y than an earlier line"),
        ("a.csv", EDGES + "0,0,,0\n", "edges without a 'target'"),
        ("a.csv", EDGES.replace(",y", "") + "0,0,1\n", "edges without a 'y'"),
        ("a.csv", "graph,source,target,y,label\n0,0,1,0,x\n", "'x', which is not a number"),
        ("a.csv", "graph,source,target,y,label\n0,0,1,0,.5\n", "without a whole number"),
    ],
)
def test_mistakes_of_files_are_one_sentence(
    tmp_path: Path, name: str, text: str | None, sentence: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(MotifairError, match=sentence):
        load_dataset(str(tmp_path / name), agents=2, seed=0)


def test_an_edge_list_says_what_it_ignores(tmp_path: Path) -> None:
    text = "graph,source,target,y,label,when\na,x,y,0.5,1,9\na,y,x,0.5,1,9\na,z,z,0.5,2,9\n"
    (tmp_path / "a.csv").write_text(text)
    graphs = load_dataset(str(tmp_path / "a.csv"), agents=2, seed=0).graphs
    assert graphs.ignored == ("column when", "repeated edges", "self-loops")
    assert (graphs.nodes.tolist(), graphs.edges.tolist()) == ([3], [1])
    assert graphs.values is not None
    assert graphs.values.tolist() == [[0.5]]
