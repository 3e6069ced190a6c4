"""Options on the command line are those of the configuration: text, values and checks."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from motifair.cli import main
from motifair.cli.app import app
from motifair.config import OPTIONS, Config
from motifair.methods import find_method

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
NAMED = {
    "run": {
        "dataset", "smiles", "targets", "method", "agents", "rounds", "splits", "seed",
        "fixed_split", "partition", "scenario", "profile", "eval_every", "task", "metric", "model",
    },
    "compare": {
        "dataset", "smiles", "targets", "agents", "rounds", "splits", "seed", "partition",
        "scenario", "profile", "task", "metric", "model",
    },
}  # fmt: skip


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["motifair", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.mark.parametrize("command", NAMED)
def test_help_is_that_of_the_configuration(command: str) -> None:
    found = {p.name: p for p in COMMANDS[command].params if p.name in OPTIONS}
    assert set(found) == NAMED[command]
    for name, parameter in found.items():
        text = OPTIONS[name].metadata["help"]
        assert parameter.help == f"{text[0].upper()}{text[1:]}."
        assert parameter.opts == [f"--{name.replace('_', '-')}"]


def test_defaults_are_the_configurations_but_for_the_splits_of_a_comparison() -> None:
    for command in NAMED:
        defaults = {p.name: p.default for p in COMMANDS[command].params if p.name in OPTIONS}
        set_here = {name: value for name, value in defaults.items() if value is not None}
        assert set_here == ({"splits": 5} if command == "compare" else {})


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rounds", "many"], "rounds takes a whole number, not 'many'."),
        (["--agents", "1"], "agents must be at least 2, not 1."),
        (["--seed", "2147483648"], "less than 2147483648, not 2147483648."),
        (["--partition", "heaps"], "partition takes chunks or iid"),
        (["--scenario", "free-rider"], "There is no scenario 'free-rider'. Did you mean free-rid"),
    ],
)
@pytest.mark.parametrize("command", NAMED)
def test_a_value_is_checked_by_the_configuration(
    command: str,
    words: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(monkeypatch, command, *words) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("motifair: ")
    assert sentence in printed
    assert printed.count("\n") == 1


def test_every_option_is_listed_with_all_there_is_to_know(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "options", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    rows = {row["option"]: row for row in listed}
    assert list(rows)[: len(OPTIONS)] == list(OPTIONS)
    assert rows["mu"]["methods"] == ["fedprox"]
    assert rows["faulty"]["methods"] == ["krum", "multi-krum"]
    patience = {tuple(r["methods"]): r["default"] for r in listed if r["option"] == "patience"}
    assert patience == {("gcfl", "gcfl+"): 20, ("cffl",): 10}
    assert rows["rounds"]["type"] == "int"
    assert rows["rounds"]["range"] == "at least 1"
    assert rows["rounds"]["methods"] is None
    assert rows["own_weight"]["default"] == Config().own_weight
    assert rows["own_weight"]["paper"] == 0.0
    assert rows["evidence"]["choices"] == ["sum", "judged"]
    for name in ("beta", "share", "budget"):
        for method in ("motifair", "fedavg", "cgsv", "self-train"):
            assert (method in rows[name]["methods"]) == (name in find_method(method).options)


def test_the_list_is_for_people_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "options") == 0
    printed = " ".join(capsys.readouterr().out.split())
    for name, option in OPTIONS.items():
        assert name in printed
        assert option.metadata["help"] in printed
    assert "dropout <float ≥ 0, ≤ 0.95> default 0.5" in printed
    assert "in the profile paper basis" in printed


def test_what_choices_do_is_said() -> None:
    for name, option in OPTIONS.items():
        for choice in option.metadata["choices"]:
            assert choice in option.metadata["help"] or choice == "none", (name, choice)


def test_help_is_grouped_and_says_the_defaults() -> None:
    words = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).output
    panels = [line for line in words.splitlines() if line.startswith("╭")]
    named = ("Experiments", "Results", "Between machines", "Look up and check", "Studies")
    assert all(any(name in line for line in panels) for name in named)
    assert not any("Commands" in line for line in panels), "every command is in a group"
    run = " ".join(
        CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output.split()
    )
    for shown in ("Communication rounds [T]. [default: (200)]", "[default: (planted)]"):
        assert shown in run
    compare = CliRunner().invoke(app, ["compare", "--help"], env={"COLUMNS": "200"}).output
    assert "split k uses seed + k. [default: 5]" in " ".join(compare.split())
