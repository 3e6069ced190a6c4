"""The demo, by its command: everything a federation does, on one machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from consortium import motifair, motifair_here

from motifair.consortium.agent_process import state_of
from motifair.consortium.demo import RUN, graphs_of
from motifair.consortium.operator_folder import OperatorFolder
from motifair.export import load_model, predict
from motifair.graphs.read import read_graphs

pytestmark = pytest.mark.federation
NAMES = ("agent-00", "agent-01", "agent-02")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "operator"


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, object]:
    words = ("--agents", 3, "--rounds", 3, "--out", folder, "--json")
    ended = motifair("federation", "demo", *words, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "round 3 of 3" in ended.stderr
    shown: dict[str, object] = json.loads(ended.stdout)
    return shown


def test_the_ledger_fits_and_is_the_one_that_the_same_agents_make_in_one_process(
    result: dict[str, object], folder: Path
) -> None:
    assert result["ledger fits"] is True
    assert result["same in one process"] is True
    words = ("--run", RUN, "--folder", folder, "--json")
    verdict = json.loads(motifair_here("ledger", "audit", *words))
    assert (verdict["rounds"], verdict["head"]) == (3, result["head"])


@pytest.mark.parametrize("name", [*NAMES, "server"])
def test_everybody_has_a_model_that_predicts(
    result: dict[str, object], folder: Path, name: str
) -> None:
    operator = OperatorFolder(folder)
    state = folder / "kits" / f"{name}.state" / RUN
    model = load_model((operator.run(RUN) if name == "server" else state) / "model")
    assert model.card["agent"] == name
    assert model.card["rounds"] == 3
    assert model.card["ledger_head"] == result["head"]
    graphs = read_graphs(graphs_of(operator, NAMES[0]))
    rows = predict(model, graphs)
    assert len(rows) == len(graphs)
    assert set(rows["label"]) <= {0, 1}


def test_the_command_predicts_with_a_members_model(result: dict[str, object], folder: Path) -> None:
    operator = OperatorFolder(folder)
    model = state_of(operator.kit(NAMES[1])) / RUN / "model"
    graphs = graphs_of(operator, NAMES[1])
    said = motifair_here("predict", "--model", model, "--graphs", graphs, "--json")
    for row in json.loads(said):
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_all_processes_of_the_demo_are_gone(result: dict[str, object], folder: Path) -> None:
    words = ("--run", RUN, "--folder", folder, "--json")
    about = json.loads(motifair_here("federation", "status", *words))
    assert about["finished"] is True
    assert about["running here"] == []
    assert about["members"] == dict.fromkeys(NAMES, "present")
