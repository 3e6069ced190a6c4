"""`motifair report`: of runs, comparisons and operators' folders, and what it refuses."""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from deployed import NAMES, World, away, schema, terms_of

import motifair
from motifair.cli import main
from motifair.config import make_config
from motifair.consortium.template import federation_toml
from motifair.experiments.compare import compare
from motifair.options import parse_assignments
from motifair.report.run_section import command_of
from motifair.table import interval

QUICK = {"rounds": 3, "agents": 4, "hidden": 16, "threads": 1}
Report = Callable[..., tuple[int, str]]


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Report:
    """Call the command in this process; return its exit code and what it printed."""

    def call(*words: object) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["motifair", "report", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        code = stopped.value.code
        return code if isinstance(code, int) else 0, printed.out + printed.err

    return call


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mine"
    measured = {"contribution": True, "incentives": True}
    motifair.run(out=folder, splits=2, **measured, **QUICK)  # type: ignore[arg-type]
    return folder


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An operator's folder with one run, in which two members missed rounds."""
    folder = tmp_path_factory.mktemp("operator")
    world = World(folder, terms_of(), meddle=away({"bank-b": {2}, "bank-d": {3, 4}}))
    with world.server("runs/trial-1") as drive:
        drive()
    (folder / "federation.toml").write_text(federation_toml("trial", NAMES, schema()))
    return folder


def test_a_fairness_that_means_little_is_shown_with_the_reason(
    report: Report, tmp_path: Path
) -> None:
    result = motifair.run(out=tmp_path, test_fraction=0.02, **QUICK)  # type: ignore[arg-type]
    assert report(tmp_path)[0] == 0
    text = (tmp_path / "report.html").read_text()
    assert "<strong>Caution.</strong>" in text
    assert all(sentence.split(",")[0] in text for sentence in result.caveats)


def test_a_run_becomes_a_page_and_figures(report: Report, simulated: Path, tmp_path: Path) -> None:
    code, printed = report(simulated, "--figures", tmp_path / "f", "--split", "1", "--json")
    assert code == 0
    page, *figures = (Path(name) for name in json.loads(printed))
    assert page == simulated / "report.html"
    kinds = {suffix: {p.stem for p in figures if p.suffix == suffix} for suffix in (".svg", ".png")}
    assert (
        kinds[".svg"]
        == kinds[".png"]
        >= {"value", "payoff", "contribution", "incentives", "motifs"}
    )
    assert all(p.stat().st_size > 1000 for p in figures)
    text = page.read_text()
    for words in ("Fairness", "Retest", "bound", "split 1 of 2", "harmful", "Configuration"):
        assert words in text, words
    assert "not measured" not in text


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"profile": "paper", "rounds": 7, "beta": "inf"},
        {"method": "fedprox", "mu": 0.3, "dataset": "my data; rm *"},
        {"aggregator": "krum", "faulty": 2, "scenario": "free-riders", "seed": 5},
    ],
    ids=str,
)
def test_the_command_of_a_report_repeats_the_configuration(options: dict[str, object]) -> None:
    config = make_config(options)
    words = shlex.split(command_of(config))
    assert words[:2] == ["motifair", "run"]
    assert set(words[2::2]) <= {"--set"}
    assert make_config(parse_assignments(words[3::2])) == config


@pytest.mark.slow
def test_a_folder_of_a_comparison_stands_for_its_runs(report: Report, tmp_path: Path) -> None:
    out = tmp_path / "compared"
    made = compare(methods="motifair,self-train", out=out, splits=2, **QUICK)  # type: ignore[arg-type]
    code, printed = report(out, "--figures", tmp_path / "f")
    assert (code, printed.splitlines()[0]) == (0, f"Report in {out / 'report.html'}")
    text = (out / "report.html").read_text()
    assert text.index("<h2>motifair</h2>") < text.index("<h2>self-train</h2>")
    assert "Accuracy over fairness" in text
    assert "Metrics, with 95 % intervals" in text
    assert "Best by accuracy" in text[: text.index("<nav")]
    row = made.to_frame().query("method == 'self-train' and metric == 'personalised_accuracy'")
    difference = interval(*row[["difference", "difference_low", "difference_high"]].iloc[0])
    assert f">{difference}<" in text[text.index("<h3>Differences to motifair</h3>") :]
    assert (tmp_path / "f" / "tradeoff.pdf").exists()
    assert (tmp_path / "f" / "self-train-value.svg").exists()
    assert "contribution=true" in text
    assert "incentives=true" in text


def test_runs_that_differ_are_compared_with_a_warning(
    report: Report, simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    motifair.run(out=tmp_path / "equal", profile="paper", payoff="equal", seed=3, **QUICK)  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    code, printed = report(simulated, tmp_path / "equal")
    assert (code, printed.strip()) == (0, "Report in report.html")
    text = (tmp_path / "report.html").read_text()
    assert "These runs differ in seed (0, 3), splits (1, 2)" in text
    assert "never settled" in text
    assert "Differences to" not in text


def test_a_ledger_is_verified_and_drawn(report: Report, operator: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, _ = report(operator, "--run", "trial-1", "--out", page)
    assert code == 0
    text = page.read_text()
    assert "Verified: chain, payoffs and signatures fit." in text
    assert "400.00 EUR" in text
    assert "3 uploads were missing or rejected." in text
    assert "Who was away" in text
    assert "Loss over rounds" in text
    assert "only a simulation has it" in text


def test_a_federation_that_has_only_agreed_on_terms_has_a_report_too(
    report: Report, tmp_path: Path
) -> None:
    with World(tmp_path).server("runs/trial-1") as drive:
        drive(rounds=0)
    (tmp_path / "federation.toml").write_text(federation_toml("trial", NAMES, schema()))
    code, _ = report(tmp_path, "--figures", tmp_path / "f")
    assert code == 0
    assert "0 of 4" in (tmp_path / "report.html").read_text()


def test_a_ledger_that_was_changed_is_shown_as_such(operator: Path, report: Report) -> None:
    with sqlite3.connect(operator / "ledger.sqlite") as database:
        (trigger,) = database.execute(
            "SELECT name FROM sqlite_master WHERE type='trigger' AND tbl_name='lines' "
            "AND sql LIKE '%UPDATE%'"
        ).fetchone() or (None,)
        if trigger:
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute("UPDATE lines SET payoff = payoff + 1 WHERE agent = 'bank-a'")
    code, _ = report(operator)
    assert code == 0
    assert "DOES NOT FIT: entry 1, round 1, bank-a" in (operator / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "There is no folder nowhere; give the one that --out named."),
        (["{empty}"], "holds no run; give the folder that --out named."),
        (["{run}", "--split", "7"], "has 2 splits, numbered from 0; there is no 7."),
        (["{run}", "--run", "x"], "None of the folders is an operator's; leave --run out."),
        (["{run}", "--out", "{empty}/a/b.html"], "cannot be written"),
        (["{run}", "--out", "{empty}"], "cannot be written"),
        (["{run}", "--figures", "{run}/config.json"], "name another for --figures."),
    ],
)
def test_mistakes_are_one_sentence(
    report: Report, simulated: Path, tmp_path: Path, words: list[str], sentence: str
) -> None:
    given = [w.format(empty=tmp_path, run=simulated) for w in words]
    code, printed = report(*given)
    assert code == 2
    assert sentence in printed.replace("\n", " ")
    assert "Traceback" not in printed


def test_an_unfinished_run_is_refused(report: Report, simulated: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((simulated / "config.json").read_text())
    code, printed = report(tmp_path)
    assert code == 2
    assert "motifair resume" in printed
