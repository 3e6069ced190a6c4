"""`motifair predict`: labels and probabilities for new graphs, or a sentence."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from export.samples import CARD, as_pyg, saved, trained
from graphs.graph_samples import tu_parts, write_parts
from models.random_graphs import random_graphs

from motifair.cli import main
from motifair.cli import predict as commands
from motifair.export import load_model, predict, save_model
from motifair.export.model import NETWORKS
from motifair.export.predict import AT_ONCE
from motifair.export.pyg import load_module
from motifair.graphs.graph_set import GraphSet

GRAPHS = random_graphs(12, seed=1)


@pytest.fixture(autouse=True)
def mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(commands.predict)
    app.command()(commands.export)
    monkeypatch.setattr("motifair.cli.app.app", app)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_parts(tmp_path / "tu", "OWN", tu_parts(GRAPHS))


def call(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> int:
    monkeypatch.setattr("sys.argv", ["motifair", "predict", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.mark.parametrize("kind", ["label", "degree", "attributes"])
@pytest.mark.parametrize("network", NETWORKS)
def test_probabilities_are_those_of_the_plain_module(
    network: str, kind: str, tmp_path: Path
) -> None:
    exported = load_model(saved(tmp_path / "m", GRAPHS, network, kind))
    found = predict(exported, GRAPHS)
    data = as_pyg(GRAPHS, exported.features)
    with torch.no_grad():
        plain = (
            load_module(tmp_path / "m")(data.x, data.edge_index, data.batch, data.edge_attr)
            .exp()
            .numpy()
        )
    assert np.allclose(found.iloc[:, 2:], plain, rtol=0, atol=1e-5)
    assert found["label"].tolist() == plain.argmax(axis=1).tolist()
    assert plain.std(axis=0).max() > 1e-3
    assert np.allclose(found.iloc[:, 2:].sum(axis=1), 1)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("own_weight", [0.4, 0.95])
def test_an_agent_predicts_with_the_mixture_of_both_its_models(
    network: str, own_weight: float, tmp_path: Path
) -> None:
    exported = load_model(saved(tmp_path / "m", GRAPHS, network, own_weight=own_weight))
    assert exported.own is not None
    found = predict(exported, GRAPHS)
    parts = []
    for weights in (exported.weights, exported.own):
        save_model(tmp_path / "one", weights, exported.model, exported.features, CARD)
        one = predict(load_model(tmp_path / "one"), GRAPHS)
        parts.append(one.iloc[:, 2:].to_numpy())
    together, alone = parts
    mixed = (1 - own_weight) * together + own_weight * alone
    assert np.allclose(found.iloc[:, 2:], mixed, rtol=0, atol=1e-7)
    assert found["label"].tolist() == mixed.argmax(axis=1).tolist()
    assert not np.allclose(together, alone, rtol=0, atol=1e-2)
    data = as_pyg(GRAPHS, exported.features)
    with torch.no_grad():
        plain = (
            load_module(tmp_path / "m")(data.x, data.edge_index, data.batch, data.edge_attr)
            .exp()
            .numpy()
        )
    assert np.allclose(found.iloc[:, 2:], plain, rtol=0, atol=1e-5)


def test_more_graphs_than_go_at_once_come_in_their_order(tmp_path: Path) -> None:
    graphs = random_graphs(AT_ONCE + 30, seed=2)
    exported = load_model(saved(tmp_path / "m", graphs))
    found = predict(exported, graphs)
    assert found["graph"].tolist() == list(range(AT_ONCE + 30))
    alone = predict(exported, graphs.select([AT_ONCE + 3]))
    assert np.allclose(alone.iloc[0, 2:].astype(float), found.iloc[AT_ONCE + 3, 2:].astype(float))


def test_csv_json_and_table_say_the_same_in_the_words_of_the_card(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, weights, features = trained(GRAPHS, "gin", "label")
    card = {**CARD, "classes": [-1, 4, 9]}
    save_model(tmp_path / "m", weights, model, features, card)
    words: list[str | Path] = ["--model", tmp_path / "m", "--graphs", folder]
    expected = predict(load_model(tmp_path / "m"), GRAPHS)
    assert set(expected["label"]) <= {-1, 4, 9}
    assert len(set(expected["label"])) > 1

    assert call(monkeypatch, *words, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["graph"] for row in rows] == list(range(12))
    assert [row["label"] for row in rows] == expected["label"].tolist()
    assert [row["probabilities"]["4"] for row in rows] == expected["probability 4"].tolist()

    assert call(monkeypatch, *words, "--out", tmp_path / "p.json") == 0
    assert "p.json" in capsys.readouterr().out
    assert json.loads((tmp_path / "p.json").read_text()) == rows
    assert call(monkeypatch, *words, "--out", tmp_path / "p.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out) == rows
    table = list(csv.DictReader(io.StringIO((tmp_path / "p.csv").read_text())))
    assert [int(row["label"]) for row in table] == expected["label"].tolist()
    assert float(table[3]["probability -1"]) == pytest.approx(rows[3]["probabilities"]["-1"])

    assert call(monkeypatch, *words) == 0
    shown = capsys.readouterr().out
    assert "agent-01" in shown
    assert f"{expected['probability 9'][11]:.4f}" in shown


def test_graphs_without_classes_are_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path / "m", GRAPHS)
    parts = tu_parts(GRAPHS)
    del parts["graph_labels"]
    write_parts(tmp_path / "tu", "OWN", parts)
    assert call(monkeypatch, "--model", tmp_path / "m", "--graphs", tmp_path / "tu", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == 12


def one_node(**more: object) -> GraphSet:
    return GraphSet.build("x", [1, 1], [], [0, 0], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "graphs", "sentence"),
    [
        ("label", one_node(node_label=[0, 77]), "Graph 1 of OWN has a node with label 77"),
        ("label", one_node(), "Graph 0 of OWN has no node labels"),
        ("attributes", one_node(attribute=[[1.0], [2.0]]), "there must be 2; give every node 2"),
    ],
)
def test_graphs_that_the_model_cannot_read_end_in_a_sentence_and_code_2(
    kind: str,
    graphs: GraphSet,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved(tmp_path / "m", GRAPHS, kind=kind)
    parts = {**tu_parts(graphs), "A": "1, 1\n"}
    write_parts(tmp_path / "tu", "OWN", parts)
    assert call(monkeypatch, "--model", tmp_path / "m", "--graphs", tmp_path / "tu") == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--model", "gone"], "gone holds no model"),
        (["--graphs", "gone"], "There is no file or folder at gone"),
        (["--out", "p.xlsx"], "--out p.xlsx must end in .csv or .json"),
        (["--out", "no/p.csv"], "no/p.csv cannot be written (No such file"),
    ],
)
def test_a_wrong_word_ends_in_a_sentence_and_code_2(
    words: list[str],
    sentence: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved(tmp_path / "m", GRAPHS)
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "--model", "m", "--graphs", folder, *words) == 2
    assert sentence in capsys.readouterr().err
