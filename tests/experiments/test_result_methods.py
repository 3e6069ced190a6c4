"""What a result can do: be saved, reported, stated, drawn, and classify graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from torch_geometric.utils import from_networkx

import motifair
from motifair.errors import MotifairError
from motifair.experiments.plan import split_data
from motifair.export import load_model, predict
from motifair.export.runs import export_run

QUICK: dict[str, Any] = {
    "rounds": 3, "agents": 4, "hidden": 16, "threads": 1, "device": "cpu", "splits": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def result() -> motifair.Result:
    """In memory."""
    return motifair.run(**QUICK)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results") / "run"
    motifair.run(out=out, **QUICK)
    return out


def ring(nodes: int = 5) -> nx.Graph:
    graph = nx.cycle_graph(nodes)
    nx.set_node_attributes(graph, 3, "label")
    return graph


def assert_equal(loaded: motifair.Result, result: motifair.Result) -> None:
    assert loaded.config == result.config
    assert repr(loaded) == repr(result)
    assert loaded.mean == pytest.approx(result.mean, rel=0, abs=0, nan_ok=True)
    for a, b in zip(loaded.splits, result.splits, strict=True):
        for column, table in b.history.columns.items():
            assert np.array_equal(a.history.columns[column], table, equal_nan=True), column
        assert np.array_equal(a.alone, b.alone)


def test_a_saved_result_loads_back_bit_for_bit(result: motifair.Result, tmp_path: Path) -> None:
    result.save(str(tmp_path / "copy"))
    loaded = motifair.load_result(tmp_path / "copy")
    assert_equal(loaded, result)
    again = tmp_path / "again"
    loaded.save(again)
    assert_equal(motifair.load_result(again), result)
    for path in ("config.json", "history.csv", "checkpoint/split-001-method.safetensors"):
        assert (again / path).read_bytes() == (tmp_path / "copy" / path).read_bytes()
    assert_equal(motifair.run(out=again, **QUICK), result)


def test_agents_with_odd_names_load_back(tmp_path: Path) -> None:
    graphs = [nx.cycle_graph(3 + k % 4, create_using=nx.Graph) for k in range(12)]
    for k, graph in enumerate(graphs):
        graph.graph["y"] = k % 2
    parties = {"NA": graphs, "1": graphs, "nan": graphs}
    options = {k: v for k, v in QUICK.items() if k not in ("agents", "splits")}
    result = motifair.run(parties, method="fedavg", **options)
    result.save(tmp_path)
    assert motifair.load_result(tmp_path).splits[0].names == ("1", "NA", "nan")


def test_a_report_of_memory_is_that_of_the_folder(
    result: motifair.Result, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motifair.report.static.FORMATS", ("svg",))  # others take seconds
    loaded = motifair.load_result(folder)
    page = result.report(str(tmp_path / "memory.html"), figures=tmp_path / "figures")
    assert page == tmp_path / "memory.html"
    assert (tmp_path / "figures" / "value.svg").exists()
    in_memory, of_folder = page.read_text(), loaded.report(tmp_path / "folder.html").read_text()
    assert "Motifs</h2>" in in_memory
    assert "Read from" not in in_memory
    assert f"Read from <code>{folder}</code>" in of_folder
    with pytest.raises(MotifairError, match="2 splits, numbered from 0; there is no 2"):
        result.report(tmp_path / "x.html", split=2)
    with pytest.raises(MotifairError, match="give a file in an existing folder"):
        result.report(tmp_path / "nowhere" / "x.html")


def test_a_statement_adds_up_and_is_written_as_its_file_is_named(
    result: motifair.Result, folder: Path, tmp_path: Path
) -> None:
    paid = result.statement("agent-01", split=1)
    assert sum(paid.totals.values()) == paid.payoff
    payoff = result.splits[1].history.columns["payoff"][:, 1].sum()
    assert paid.payoff / 10**6 == pytest.approx(payoff, abs=1e-5)
    assert paid.motifs
    assert len(result.statement("agent-01", round=2).rounds) == 1
    loaded = motifair.load_result(folder).statement("agent-01", split=1, path=tmp_path / "s.json")
    assert loaded.rounds == paid.rounds
    assert (tmp_path / "s.json").read_text().startswith("{")
    result.statement("agent-01", path=tmp_path / "s.html")
    assert "<html" in (tmp_path / "s.html").read_text()
    with pytest.raises(MotifairError, match="no format of a statement"):
        result.statement("agent-01", path=tmp_path / "s.doc")
    with pytest.raises(MotifairError, match="agent-9"):
        result.statement("agent-9")


def test_figures_are_drawn_by_name(result: motifair.Result) -> None:
    assert isinstance(result.plot(), Figure)
    drawn = result.plot("value", split=1)
    assert drawn.axes[0].get_title() == "Value of each agent"
    with pytest.raises(MotifairError, match="Did you mean value"):
        result.plot("valu")
    with pytest.raises(MotifairError, match="there is no 5"):
        result.plot(split=5)


def test_models_of_memory_classify_as_those_that_are_exported(
    result: motifair.Result, folder: Path, tmp_path: Path
) -> None:
    export_run(str(folder), tmp_path / "models")
    loaded = motifair.load_result(folder)
    graphs = split_data(result.origin.plan, 1).graphs
    for agent, place in {"server": "server", "agent-02": "agents/agent-02"}.items():
        exported = load_model(str(tmp_path / "models" / "split-001" / place))
        expected = predict(exported, graphs)
        for one in (result, loaded):
            found = one.predict(graphs, agent=agent, split=1)
            pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("kind", [list, tuple, lambda graphs: [from_labelled(g) for g in graphs]])
def test_graphs_are_objects_without_a_class(
    kind: Callable[[list[nx.Graph]], Any], result: motifair.Result
) -> None:
    found = result.predict(kind([ring(), ring(7)]))
    assert found["graph"].tolist() == [0, 1]
    columns = [c for c in found if str(c).startswith("probability")]
    assert np.allclose(found[columns].sum(axis=1), 1)
    pd.testing.assert_frame_equal(found, result.predict([ring(), ring(7)]))


def from_labelled(graph: nx.Graph) -> Any:
    """As PyG has labels: one-hot."""
    data = from_networkx(nx.Graph(graph.edges))
    data.x = torch.eye(7)[[3] * len(graph)]
    return data


def test_graphs_may_be_a_path(result: motifair.Result, tmp_path: Path) -> None:
    nx.write_graphml(ring(), tmp_path / "ring.graphml")
    pd.testing.assert_frame_equal(
        result.predict(str(tmp_path / "ring.graphml")), result.predict([ring()])
    )


def test_what_cannot_be_predicted_is_a_sentence(result: motifair.Result, folder: Path) -> None:
    for wrong in ([], 7):
        with pytest.raises(MotifairError, match="predict takes a list of graphs"):
            result.predict(wrong)
    with pytest.raises(MotifairError, match="Object 1 of the list is a int"):
        result.predict([ring(), 3])
    with pytest.raises(MotifairError, match="There is no agent bank; name one of agent-00"):
        result.predict([ring()], agent="bank")
    options = {**QUICK, "splits": 1, "rounds": 1}
    clustered = motifair.run(method="gcfl", **options)
    with pytest.raises(MotifairError, match="gcfl has no server's model; name one of agent-00"):
        clustered.predict([ring()])
    compared = motifair.compare(methods="fedavg,gcfl", **options)
    with pytest.raises(MotifairError, match="run again with out="):
        compared.results["fedavg"].predict([ring()])
    by_hand = replace(result, origin=type(result.origin)())
    with pytest.raises(MotifairError, match=r"not made by motifair\.run"):
        by_hand.predict([ring()])


def test_a_folder_without_models_is_a_sentence(result: motifair.Result, tmp_path: Path) -> None:
    result.save(tmp_path)
    for path in (tmp_path / "checkpoint").iterdir():
        path.unlink()
    loaded = motifair.load_result(tmp_path)
    with pytest.raises(MotifairError, match="has no models"):
        loaded.predict([ring()])
    assert loaded.statement("agent-01").payoff
