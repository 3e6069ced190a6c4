"""The command line: what it prints, and how it answers mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import motifair
from motifair.cli import main
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.tu import write_tu

QUICK = ["--rounds", "3", "--agents", "4", "--set", "hidden=16", "--threads", "1"]


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run the command in this process and return its exit code."""
    monkeypatch.setattr("sys.argv", ["motifair", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    code = stopped.value.code
    return code if isinstance(code, int) else 0


def test_a_run_shows_progress_agents_and_summary_and_can_be_shown_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = str(tmp_path / "run")
    assert call(monkeypatch, "run", *QUICK, "--out", out) == 0
    printed = capsys.readouterr()
    assert "12 of 12 rounds" in printed.err  # three are of models that are judged
    assert printed.err.startswith("Using node labels (7), 2 classes (0, 1).\n")
    assert "harmful" in printed.out
    assert "fairness" in printed.out
    assert (tmp_path / "run" / "overview.png").stat().st_size > 10_000
    assert call(monkeypatch, "show", out) == 0
    assert "harmful" in capsys.readouterr().out
    assert call(monkeypatch, "show", out, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["method"] == "motifair"
    assert [row["agent"] for row in shown["agents"]] == [f"agent-0{k}" for k in range(4)]
    assert shown["verdict"][0] in " ".join(printed.out.split())
    assert printed.out.endswith(f"Next: motifair report {out}\n")
    assert call(monkeypatch, "runs", str(tmp_path)) == 0
    assert "motifair on planted" in " ".join(capsys.readouterr().out.split())


def test_a_run_and_a_comparison_are_shown_without_waiting_for_torch(tmp_path: Path) -> None:
    small = {"rounds": 1, "agents": 3, "hidden": 8, "threads": 1, "device": "cpu"}
    motifair.compare(out=tmp_path, methods="fedavg,self-train", splits=2, **small)
    script = (
        "import sys; from motifair.cli import main\n"
        "try: main()\n"
        "except SystemExit as stopped: assert not stopped.code\n"
        "slow = {'torch', 'numba', 'networkx', 'matplotlib', 'plotly'} & set(sys.modules)\n"
        "assert not slow, slow"
    )
    for folder in (tmp_path, tmp_path / "fedavg"):
        command = [sys.executable, "-c", script, "show", str(folder)]
        shown = subprocess.run(command, capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr
        assert "fedavg" in shown.stdout


def test_several_splits_are_listed_and_quiet_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["run", *QUICK, "--splits", "2", "--quiet", "--out", str(tmp_path / "r")]
    assert call(monkeypatch, *words, "--method", "fedavg") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "2 splits" in printed.out


def test_without_out_a_folder_is_named_after_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "run", *QUICK, "--method", "self-train", "--json", "--quiet") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["mean"]["global_accuracy"] is None
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("planted-self-train-")


def test_a_config_file_is_read_and_words_win_over_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "mine.toml"
    config.write_text('rounds = 2\nagents = 3\nbeta = "inf"\nhidden = 16\n')
    out = tmp_path / "run"
    words = ["run", "--config", str(config), "--rounds", "3", "--quiet", "--out", str(out)]
    assert call(monkeypatch, *words) == 0
    options = json.loads((out / "config.json").read_text())["options"]
    assert (options["rounds"], options["agents"], options["beta"]) == (3, 3, "inf")
    again = tmp_path / "again"
    words = ["run", "--config", str(out / "config.json"), "--quiet", "--out", str(again)]
    assert call(monkeypatch, *words) == 0
    capsys.readouterr()
    first, second = (json.loads((f / "summary.json").read_text()) for f in (out, again))
    assert first["splits"] == second["splits"]


MISTAKES = {
    "dataset": (["run", "--dataset", "PROTENS"], "Did you mean PROTEINS?"),
    "path": (["run", "--dataset", "./nowhere/at/all"], "check the path"),
    "method": (["run", "--method", "motifare"], "Did you mean motifair"),
    "option": (["run", "--set", "bta=1"], "Did you mean beta"),
    "assignment": (["run", "--set", "beta"], "key=value"),
    "beta": (["run", "--set", "beta=-1"], "beta must be greater than 0"),
    "budget": (["run", "--set", "budget=-1"], "budget must be at least 0"),
    "number": (["run", "--set", "rounds=many"], "rounds takes a whole number"),
    "profile": (["run", "--profile", "papr"], "Did you mean paper?"),
    "config": (["run", "--config", "nowhere.toml"], "cannot be read"),
    "data dir": (["run", "--dataset", "DD", "--data-dir", "nowhere"], "is not a folder"),
    "resume": (["resume", "nowhere"], "holds no run"),
    "show": (["show", "nowhere"], "holds no run"),
    "runs": (["runs", "nowhere"], "There is no folder nowhere"),
    "check": (["data", "check", "PROTENS"], "Did you mean PROTEINS?"),
    "test fraction": (["run", "--set", "test_fraction=1"], "test_fraction must be"),
    "device": (["run", "--device", "abacus"], "auto or cpu or cuda"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_sentence_exit_code_2_and_nothing_written(
    case: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    words, sentence = MISTAKES[case]
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *words) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert printed.startswith("motifair: ")
    assert printed.count("\n") == 1
    assert "Traceback" not in printed
    assert list(tmp_path.iterdir()) == []


def test_training_that_diverges_is_one_sentence_exit_code_2_and_no_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = str(tmp_path / "run")
    assert call(monkeypatch, "run", *QUICK, "--set", "learning_rate=1e6", "--out", out) == 2
    printed = capsys.readouterr()
    assert printed.err.endswith("in round 2; lower learning_rate (1e+06).\n")
    assert "Traceback" not in printed.err
    assert printed.out == ""
    assert not (tmp_path / "run" / "summary.json").exists()


WRITTEN = {
    "run": ["run", *QUICK, "--out", "{place}"],
    "compare": ["compare", *QUICK, "--methods", "fedavg,motifair", "--out", "{place}"],
    "paper": ["paper", "ablation", "--datasets", "planted", "--rounds", "2", "--out", "{place}"],
    "report": ["report", "{run}", "--out", "{place}"],
    "report figures": ["report", "{run}", "--figures", "{place}"],
    "export": ["export", "{run}", "--out", "{place}"],
    "statement": ["statement", "--run", "{run}", "--agent", "agent-00", "--out", "{place}.txt"],
    "bench": ["bench", "--out", "{place}"],
    "federation": ["federation", "demo", "--out", "{place}"],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    motifair.run(out=out, rounds=2, agents=3, hidden=16, threads=1)
    return out


@pytest.mark.parametrize("place", ["file/x", "/proc/x"])
@pytest.mark.parametrize("case", WRITTEN)
def test_a_place_that_cannot_be_written_is_one_sentence_before_any_training(
    case: str,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    finished: Path,
) -> None:
    def refuse(*given: object) -> None:
        raise AssertionError("it trains")

    monkeypatch.setattr("motifair.experiments.run.run_jobs", refuse)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    words = [word.format(place=place, run=finished) for word in WRITTEN[case]]
    before = sorted(finished.rglob("*"))
    assert call(monkeypatch, *words) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("motifair: ")]
    assert len(told) == 1
    assert place in told[0]
    assert sorted(finished.rglob("*")) == before
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("threads", ["-3", "0"])
@pytest.mark.parametrize("command", [["run"], ["compare"], ["paper", "table2"]])
def test_fewer_than_one_thread_is_refused(
    command: list[str],
    threads: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(monkeypatch, *command, "--threads", threads) == 2
    assert "--threads" in capsys.readouterr().err


def test_debug_shows_where_a_mistake_was_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    from motifair.errors import MotifairError

    monkeypatch.setattr("sys.argv", ["motifair", "run", "--set", "beta=-1", "--debug"])
    with pytest.raises(MotifairError):
        main()


def test_data_commands_list_describe_and_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data_dir: Path
) -> None:
    folder = ["--data-dir", str(data_dir)]
    assert call(monkeypatch, "data", "list", *folder) == 0
    assert "PROTEINS" in capsys.readouterr().out
    assert call(monkeypatch, "data", "list", *folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["dataset"] == "planted"
    assert call(monkeypatch, "data", "info", "MUTAG", "--agents", "3", *folder) == 0
    described = capsys.readouterr().out
    assert "mean edges 19.79" in described
    assert "Using node labels (7), edge labels (4, in motifs only), 2 classes (-1, 1)." in described
    assert "class -1" in described
    assert "agent-02" in described
    assert call(monkeypatch, "data", "info", "MUTAG", "--agents", "3", *folder, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["agents"]) == 3
    assert found["inputs"]["uses"][-1] == "2 classes (-1, 1)"
    assert call(monkeypatch, "data", "check", "MUTAG", *folder) == 0
    assert "is the published dataset" in capsys.readouterr().out


def test_a_comparison_is_one_table_and_goes_on_when_given_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = str(tmp_path / "compared")
    words = ["compare", *QUICK, "--splits", "2", "--methods", "fedavg,motifair", "--out", out]
    assert call(monkeypatch, *words) == 0
    printed = capsys.readouterr()
    assert "30 of 30 rounds" in printed.err
    assert "paired difference to fedavg" in printed.out.replace("\n", " ")
    assert call(monkeypatch, *words, "--quiet", "--json") == 0
    again = capsys.readouterr()
    assert again.err == ""
    found = json.loads(again.out)
    assert found["baseline"] == "fedavg"
    assert {row["method"] for row in found["comparison"]} == {"fedavg", "motifair"}
    assert call(monkeypatch, "show", out) == 0
    assert capsys.readouterr().out in printed.out
    assert call(monkeypatch, "show", out, "--json") == 0
    assert json.loads(capsys.readouterr().out) == found
    assert call(monkeypatch, "runs", str(tmp_path), "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["what"] == "comparison of fedavg, motifair on planted"


def test_a_comparison_says_what_each_method_uses(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    data_dir: Path,
    tmp_path: Path,
) -> None:
    words = ["compare", *QUICK, "--rounds", "1", "--splits", "1", "--dataset", "MUTAG"]
    words += ["--data-dir", str(data_dir), "--methods", "fedavg,motifair,fedsage"]
    assert call(monkeypatch, *words, "--out", str(tmp_path / "compared")) == 0
    printed = capsys.readouterr().err.splitlines()
    assert printed[:2] == [
        "fedavg, fedsage: Using node labels (7), 2 classes (-1, 1); ignoring: edge labels (4).",
        "motifair: Using node labels (7), edge labels (4, in motifs only), 2 classes (-1, 1).",
    ]


def test_agents_own_folders_are_read_as_the_readme_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for agent, classes in {"bank-a": [0, 1], "bank-b": [1, 2], "lab": [0, 2]}.items():
        pairs = [[2 * k, 2 * k + 1] for k in range(20)]
        target = [k % 2 for k in range(20)]
        graphs = GraphSet.build("own", [2] * 20, pairs, target, class_values=classes)
        write_tu(graphs, tmp_path / agent)
    (tmp_path / "lab" / "lab_edge_attributes.txt").write_text("0.5\n" * 40)
    words = ["run", "--dataset", "bank-a/,bank-b/,lab/", "--rounds", "1", "--set", "hidden=16"]
    assert call(monkeypatch, *words, "--out", "run") == 0
    said = "Using node degrees, 3 classes (0, 1, 2); ignoring: edge attributes.\n"
    assert capsys.readouterr().err.startswith(said)


def test_methods_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "methods", "--json") == 0
    rows = {row["method"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["gcfl"]["shares"] == "conv"
    assert rows["fedstar"]["global model"] == "no"
    assert rows["cffl-lyu"]["shares"] == "all"


def test_data_commands_describe_molecules(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "few.csv"
    rows = [f"{'C' * (k % 5 + 1)}O,{k % 2},lab-{k // 20}" for k in range(40)]
    path.write_text("\n".join(["smiles,toxic,lab", *rows, "c1ccc,0,lab-0"]) + "\n")
    assert call(monkeypatch, "data", "check", str(path)) == 0
    assert "line 42 cannot be read: c1ccc\n" in capsys.readouterr().out
    assert call(monkeypatch, "data", "info", str(path), "--partition", "lab", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["agent"] for row in found["agents"]] == ["lab-0", "lab-1"]
    assert found["inputs"]["ignores"] == ["1 SMILES that RDKit cannot read (line 42: c1ccc)"]
    assert call(monkeypatch, "data", "info", str(path), "--targets", "toxik") == 2
    assert "Did you mean toxic?" in capsys.readouterr().err
