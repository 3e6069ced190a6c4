"""Progress from Python: shown in notebooks and terminals, silent in scripts unless asked for."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

import motifair
from motifair.experiments.plan import make_plan
from motifair.experiments.run import execute
from motifair.federation.callbacks import Callback
from motifair.federation.loop import Stopped

QUICK = {"rounds": 2, "agents": 3, "hidden": 8, "threads": 1, "device": "cpu", "method": "fedavg"}
WHERE = ("threads", "device")


class Cell:
    """The output of a notebook's cell: what was displayed, and each change of it."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, content: str, *, display_id: bool) -> Cell:
        assert display_id
        self.shown.append(content)
        return self

    def update(self, content: str) -> None:
        self.shown.append(content)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    cell, module = Cell(), ModuleType("IPython.display")
    module.display, module.HTML = cell.display, str  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    # By the name of its shell a notebook is known.
    shell = type("ZMQInteractiveShell", (), {})
    monkeypatch.setattr(builtins, "get_ipython", shell, raising=False)
    return cell


def test_a_notebook_shows_a_bar_that_reaches_its_end(
    cell: Cell, capsys: pytest.CaptureFixture[str]
) -> None:
    motifair.run(splits=2, **QUICK)
    assert cell.shown[0].startswith('<progress value="0" max="12"></progress> starting')
    assert cell.shown[-1].startswith('<progress value="12" max="12"></progress> split 2/2, fedavg')
    assert "accuracy" in cell.shown[-1]
    assert capsys.readouterr().err == ""
    cell.shown.clear()
    motifair.run(progress=False, **QUICK)
    assert cell.shown == []


def test_a_script_is_silent_unless_progress_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    motifair.run(**QUICK)
    assert capsys.readouterr() == ("", "")
    motifair.run(progress=True, **QUICK)
    out, err = capsys.readouterr()
    assert out == ""
    assert "split 1/1, fedavg: 6 of 6 rounds" in err


def test_a_terminal_shows_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Console, "is_terminal", property(lambda self: True))
    motifair.run(**QUICK)
    assert "6/6" in capsys.readouterr().err


def test_trainings_alone_that_methods_share_are_counted_once(cell: Cell) -> None:
    options: dict[str, Any] = {k: v for k, v in QUICK.items() if k != "method"}
    motifair.compare(methods="fedavg,self-train", **options)
    assert cell.shown[-1].startswith('<progress value="8" max="8">')


def test_trainings_that_are_judged_before_round_1_are_shown_and_counted(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motifair.experiments.progress.SECONDS_BETWEEN_UPDATES", 0.0)
    motifair.run(**{**QUICK, "method": "motifair"})
    judged = [words for words in cell.shown if "models to be judged" in words]
    assert len(judged) == 2
    assert '<progress value="5" max="8"></progress> split 1/1, motifair' in judged[0]
    assert cell.shown[-1].startswith('<progress value="8" max="8">')


def test_a_run_can_be_stopped_before_round_1(tmp_path: Path) -> None:
    options = {**QUICK, "method": "motifair"}
    rounds = []
    plan = make_plan("planted", {k: v for k, v in options.items() if k not in WHERE}, threads=1)

    class Count(Callback):
        def on_trial(self) -> None:
            rounds.append("trial")

        def on_round(self, state: Any, history: Any) -> None:
            rounds.append("round")

    with pytest.raises(Stopped):
        execute(plan, tmp_path / "run", callbacks=[Count()], stop=lambda: bool(rounds))
    assert rounds == ["trial"]
    stopped = execute(plan, tmp_path / "run", callbacks=[Count()])
    assert rounds == ["trial"] + ["trial"] * 2 + ["round"] * 2
    assert stopped.mean == motifair.run(progress=False, **options).mean
