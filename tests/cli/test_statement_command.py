"""`motifair statement`: which run it reads, what it writes, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from deployed import World, away, content_of, terms_of
from typer.testing import CliRunner, Result

import motifair
from motifair.cli.statement import statement
from motifair.consortium.store.ledger import open_ledger
from motifair.errors import MotifairError

APP = typer.Typer()
APP.command()(statement)


def call(*words: object) -> Result:
    return CliRunner().invoke(APP, [str(w) for w in words])


def said(*words: object) -> str:
    result = call(*words)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words: object) -> str:
    result = call(*words)
    assert isinstance(result.exception, MotifairError), result.output
    return str(result.exception)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated")
    motifair.run("planted", out=out, rounds=3, agents=4, hidden=16, splits=2, threads=1)
    return out


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A federation whose folder is an operator's."""
    folder = tmp_path_factory.mktemp("operator")
    world = World(folder, terms_of(), away({"bank-d": {2}}))
    with world.server(f"runs/{world.run}") as drive:
        assert drive()
    (folder / "federation.toml").write_text(_toml(content_of()))
    return world


def _toml(content: dict[str, Any]) -> str:
    def section(name: str, values: dict[str, Any]) -> str:
        plain = [f"{k} = {json.dumps(v)}" for k, v in values.items() if not isinstance(v, dict)]
        inner = [section(f"{name}.{k}", v) for k, v in values.items() if isinstance(v, dict)]
        return "\n".join([f"[{name}]", *plain, *inner])

    return "\n".join(section(name, values) for name, values in content.items())


def test_a_simulated_run_in_every_format(simulated: Path, tmp_path: Path) -> None:
    text = said("--run", simulated, "--agent", "agent-01")
    content = json.loads(said("--run", simulated, "--agent", "agent-01", "--format", "json"))
    assert content["payoff"] in text
    assert content["motifs"]
    starts = {"s.html": b"<!doctype html>", "S.PDF": b"%PDF", "s.txt": b"Statement",
              "s.json": b"{", "s": b"Statement"}  # fmt: skip
    for name, start in starts.items():
        words = ("--run", simulated, "--agent", "agent-01", "--out", tmp_path / name)
        assert f"Written to {tmp_path / name}" in said(*words)
        assert (tmp_path / name).read_bytes().startswith(start)
    said("--run", simulated, "--agent", "agent-01", "--format", "html", "--out", tmp_path / "s")
    assert (tmp_path / "s").read_bytes().startswith(b"<!doctype html>")
    assert {p.name for p in tmp_path.iterdir()} == set(starts)


def test_a_file_is_written_as_it_is_named_or_not_at_all(simulated: Path, tmp_path: Path) -> None:
    words = ("--run", simulated, "--agent", "agent-01", "--out")
    assert "no format of a statement; use one of .txt, .json, .html, .pdf." in refused(
        *words, tmp_path / "s.docx"
    )
    told = refused(*words, tmp_path / "s.pdf", "--format", "text")
    assert "s.pdf has the suffix of pdf, but --format says text" in told
    assert list(tmp_path.iterdir()) == []


def test_a_pdf_without_its_extra_is_refused(
    simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motifair.extras.find_spec", lambda name: None)
    told = refused("--run", simulated, "--agent", "agent-01", "--out", tmp_path / "s.pdf")
    assert told.startswith("A PDF needs weasyprint; run pip install 'motifair[pdf]'")
    assert list(tmp_path.iterdir()) == []


def test_splits_and_rounds_can_be_chosen(simulated: Path) -> None:
    words = ("--run", simulated, "--agent", "agent-01", "--format", "json")
    first, second = (json.loads(said(*words, "--split", k)) for k in (0, 1))
    assert first["payoff"] != second["payoff"]
    assert "--split 1" in second["verification"][0]["command"]
    one = json.loads(said(*words, "--round", 2))
    assert [r["round"] for r in one["rounds"]] == [2]
    assert one["payoff"] == first["rounds"][1]["payoff"]


def test_an_operators_folder_and_the_ledger_alone_tell_the_same(deployed: World) -> None:
    words = ("--agent", "bank-d", "--format", "json")
    whole = json.loads(said("--run", deployed.folder, *words))
    ledger = deployed.folder / "ledger.sqlite"
    alone = json.loads(said("--ledger", ledger, "--name", deployed.run, *words))
    assert whole["payoff"] == alone["payoff"]
    assert whole["parts"] == alone["parts"]
    assert whole["ledger"]["head"] == alone["ledger"]["head"] == deployed.entries()[-1].hash
    assert whole["instead"]["shapley"] is not None
    assert alone["instead"]["shapley"] is None
    assert whole["motifs"]
    commands = " ".join(row["command"] for row in whole["verification"])
    assert "--ledger ledger.sqlite" in commands
    assert str(deployed.folder.parent) not in commands, "a path of the operator's machine"
    assert (whole["federation"], alone["federation"]) == (content_of()["federation"]["name"], "")
    assert 0 < whole["besides"]["received"] <= 1


def test_mistakes_end_in_a_sentence(
    simulated: Path, deployed: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = deployed.folder / "ledger.sqlite"
    assert "agent-00, agent-01" in refused("--run", simulated, "--agent", "nobody")
    assert "Name one run" in refused("--agent", "a")
    assert "Name one run" in refused("--agent", "a", "--run", simulated, "--ledger", ledger)
    assert "no format" in refused("--run", simulated, "--agent", "agent-00", "--format", "docx")
    assert "leave the name" in refused("--run", simulated, "--agent", "a", "--name", "x")
    assert "There is no run 'x'" in refused("--ledger", ledger, "--agent", "a", "--name", "x")
    assert "not a member in round 9" in refused(
        "--run", simulated, "--agent", "agent-00", "--round", 9
    )
    out = tmp_path / "no" / "file"
    assert "cannot be written" in refused("--run", simulated, "--agent", "agent-00", "--out", out)
    assert "holds no run" in refused("--run", tmp_path, "--agent", "a")


def test_a_pdf_is_not_written_to_a_terminal(
    simulated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motifair.cli.statement._is_terminal", lambda: True)
    assert "--out FILE" in refused("--run", simulated, "--agent", "agent-00", "--format", "pdf")


def test_a_ledger_that_was_changed_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, terms_of(rounds=2))
    assert world.drive()
    entries = world.entries()
    other = tmp_path / "other.sqlite"
    with open_ledger(other, write=True) as ledger:
        for entry in entries[:-1]:
            ledger.append(entry)
    assert "Statement for" in said("--ledger", other, "--agent", "bank-a")
    import sqlite3

    raw = sqlite3.connect(other)
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    raw.execute("UPDATE lines SET payoff = payoff + 1 WHERE agent = 'bank-b'")
    raw.commit()
    raw.close()
    assert "a verified ledger" in refused("--ledger", other, "--agent", "bank-a")
