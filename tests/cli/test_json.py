"""Every command that prints a table prints it as JSON, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from motifair.cli import main
from motifair.cli.app import app

# What these print is a sentence, a path or a file's name: there is no table.
NO_TABLE = {
    "ledger export", "federation init", "federation provision", "federation add",
    "federation request", "federation renew", "federation remove", "federation readmit",
    "federation stop", "federation server start",
    "federation terms", "federation sums", "federation agent start", "federation backup",
    "federation restore", "federation ask", "federation settle", "federation members-key",
    "report", "statement", "dashboard",
}  # fmt: skip
# These take a federation of real processes or minutes; their own tests read their JSON.
ELSEWHERE = {
    "federation run", "federation status", "federation privacy", "federation demo", "federation me",
    "federation answer",
    "ledger audit", "ledger verify", "ledger balance", "ledger entries", "bench", "paper",
    "predict", "report", "statement", "dashboard", "check",
}  # fmt: skip
QUICK = ["--rounds", "2", "--agents", "3", "--set", "hidden=16", "--threads", "1", "--quiet"]


def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Walk all commands, those of groups by both names."""
    for name, command in group.commands.items():
        path = f"{above} {name}".strip()
        if hasattr(command, "commands"):
            yield from commands(command, path)
        else:
            yield path, command


def has_json(command: Any) -> bool:
    return any("--json" in parameter.opts for parameter in command.params)


ALL = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_command_that_prints_a_table_has_json(name: str) -> None:
    assert has_json(ALL[name]) or name in NO_TABLE, f"give {name} --json"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import motifair

    out = tmp_path_factory.mktemp("finished") / "run"
    motifair.run(out=out, rounds=2, agents=3, hidden=16, threads=1)
    return out


PRINTS = {
    "run": [*QUICK, "--out", "OUT"],
    "compare": [*QUICK, "--splits", "1", "--methods", "fedavg,self-train", "--out", "OUT"],
    "methods": [],
    "options": [],
    "resume": ["RUN", "--quiet"],
    "show": ["RUN"],
    "runs": ["RUNS"],
    "export": ["RUN", "--out", "OUT"],
    "doctor": [],
    "data list": [],
    "data info": ["planted", "--agents", "3"],
    "data check": ["planted"],
}


def test_the_json_of_every_command_is_read_here_or_where_it_is_tested() -> None:
    with_json = {name for name, command in ALL.items() if has_json(command)}
    assert with_json <= set(PRINTS) | ELSEWHERE
    assert set(PRINTS) <= with_json


@pytest.mark.parametrize("name", PRINTS)
def test_json_parses_and_is_all_there_is_on_the_output(
    name: str,
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"RUN": str(finished), "RUNS": str(finished.parent), "OUT": str(tmp_path / "out")}
    words = [places.get(word, word) for word in PRINTS[name]]
    monkeypatch.setattr("sys.argv", ["motifair", *name.split(), *words, "--json"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code in (0, None)
    found = json.loads(capsys.readouterr().out)
    assert found, "nothing was printed"


def test_walking_finds_the_commands_of_groups() -> None:
    assert {"run", "data list", "federation server start", "ledger audit"} <= set(ALL)
    assert all(isinstance(command, click.Command) or command.params for command in ALL.values())
