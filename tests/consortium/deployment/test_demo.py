"""The demo, by its command: everything a federation does, on one machine."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from consortium import motifair, motifair_here

from motifair.consortium.agent_process import state_of
from motifair.consortium.demo import RUN, graphs_of
from motifair.consortium.operator_folder import OperatorFolder
from motifair.errors import MotifairError
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


@pytest.fixture(scope="module")
def last_round(result: dict[str, object], folder: Path) -> str:
    """The hash of the last round's entry, which the audit of claims follows."""
    ledger = OperatorFolder(folder).ledger
    entries = json.loads(motifair_here("ledger", "entries", "--ledger", ledger, "--json"))
    assert [e["kind"] for e in entries] == ["terms", "round", "round", "round", "audit"]
    assert all(x["status"] == "present" for x in entries[-1]["lines"])
    assert entries[-1]["hash"] == result["head"]
    return str(entries[-2]["hash"])


def test_the_ledger_fits_and_is_the_one_that_the_same_agents_make_in_one_process(
    result: dict[str, object], folder: Path
) -> None:
    assert result["ledger fits"] is True
    assert result["same in one process"] is True
    words = ("--run", RUN, "--folder", folder, "--json")
    verdict = json.loads(motifair_here("ledger", "audit", *words))
    assert (verdict["rounds"], verdict["head"]) == (3, result["head"])


@pytest.mark.parametrize("name", [*NAMES, "server"])
def test_everybody_has_a_model_that_predicts(last_round: str, folder: Path, name: str) -> None:
    operator = OperatorFolder(folder)
    state = folder / "kits" / f"{name}.state" / RUN
    model = load_model((operator.run(RUN) if name == "server" else state) / "model")
    assert model.card["agent"] == name
    assert model.card["rounds"] == 3
    assert model.card["ledger_head"] == last_round
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


def test_a_member_sees_its_rounds_pay_and_worth_from_its_kit_and_writes_nothing(
    result: dict[str, object], last_round: str, folder: Path, tmp_path: Path
) -> None:
    operator = OperatorFolder(folder)
    kit, name = operator.kit(NAMES[1]), NAMES[1]
    before = {p: p.stat().st_mtime_ns for p in state_of(kit).rglob("*")}
    out = tmp_path / "mine.html"
    words = ("--ledger", operator.ledger, "--graphs", graphs_of(operator, name), "--out", out)
    about = json.loads(motifair_here("federation", "me", "--kit", kit, *words, "--json"))
    assert (about["member"], about["run"], about["answered"]) == (name, RUN, 3)
    assert (about["heads"][-1]["hash"], about["ledger"]["head"]) == (last_round, result["head"])
    (paid,) = [row for row in result["members"] if row["agent"] == name]  # type: ignore[attr-defined]
    assert about["statement"]["payoff"] == paid["balance"]
    # What the agent itself reported at the end, on the same test graphs.
    assert about["worth"]["together"] == pytest.approx(paid["accuracy"])
    assert name in out.read_text()
    assert {p: p.stat().st_mtime_ns for p in state_of(kit).rglob("*")} == before
    said = motifair_here("federation", "me", "--kit", kit, *words[:4])
    assert "Only you see this." in said
    assert f"You were paid {Decimal(paid['balance']):,}" in said


def test_a_member_refuses_a_ledger_that_is_not_the_one_it_was_told_of(
    last_round: str, folder: Path, tmp_path: Path
) -> None:
    kit = OperatorFolder(folder).kit(NAMES[1])
    state = tmp_path / "state"
    shutil.copytree(state_of(kit), state)
    heads = (state / "heads.jsonl").read_text()
    (state / "heads.jsonl").write_text(heads.replace(last_round, "0" * 64))
    words = ("--kit", kit, "--state", state, "--ledger", OperatorFolder(folder).ledger)
    with pytest.raises(MotifairError, match="is not the one that agent-01 was told of"):
        motifair_here("federation", "me", *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--out", "s.html"), "needs a copy of the ledger"),
        (("--state", "nowhere"), "no rounds of agent-01"),
        (("--run", "other"), "took part in demo, not in other"),
    ],
)
def test_what_a_member_asks_wrongly_is_said(
    result: dict[str, object], folder: Path, words: tuple[str, ...], said: str
) -> None:
    kit = OperatorFolder(folder).kit(NAMES[1])
    with pytest.raises(MotifairError, match=said):
        motifair_here("federation", "me", "--kit", kit, *words)
