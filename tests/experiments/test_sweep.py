"""Sweeps: the numbers of single runs, with as few trainings alone as the options allow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import motifair
from motifair.errors import MotifairError
from motifair.experiments import jobs

QUICK: dict[str, Any] = {"rounds": 2, "agents": 3, "hidden": 8, "threads": 1, "device": "cpu"}


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts of runs that are trained, in order."""
    parts: list[str] = []
    real = jobs._run_group

    def counted(plan: Any, group: Any, *others: Any) -> Any:
        parts.extend(job.part for job in group.jobs)
        return real(plan, group, *others)

    monkeypatch.setattr(jobs, "_run_group", counted)
    return parts


def assert_as_single_runs(
    found: motifair.Sweep, settings: Sequence[dict[str, Any]], **fixed: Any
) -> None:
    assert len(found) == len(settings)
    for result, setting in zip(found, settings, strict=True):
        single = motifair.run(**{**QUICK, **fixed, **setting})
        assert single.config == result.config
        pd.testing.assert_frame_equal(single.history, result.history, check_exact=True)
        pd.testing.assert_frame_equal(single.to_frame(), result.to_frame(), check_exact=True)


def test_options_of_the_mechanism_share_the_trainings_alone(trained: list[str]) -> None:
    grid = {"beta": [1, 5], "payoff": ["paper", "equal"]}
    found = motifair.sweep(grid, splits=2, **QUICK)
    assert sorted(trained) == 2 * ["alone"] + 2 * ["alone-again"] + 2 * 4 * ["method"]
    settings = [{"beta": b, "payoff": p} for b in (1, 5) for p in ("paper", "equal")]
    assert list(found.settings) == settings
    assert_as_single_runs(found, settings, splits=2)


def test_options_of_training_do_not_and_each_kind_is_trained_once(trained: list[str]) -> None:
    found = motifair.sweep({"learning_rate": [0.001, 0.1], "retention": [0.0, 0.5]}, **QUICK)
    assert trained.count("alone") == trained.count("alone-again") == 2
    assert trained.count("method") == 4
    rates = (0.001, 0.1)
    assert_as_single_runs(
        found, [{"learning_rate": r, "retention": k} for r in rates for k in (0.0, 0.5)]
    )
    alone = found.to_frame().groupby("learning_rate")["alone_accuracy"].nunique()
    assert alone.tolist() == [1, 1]


@pytest.mark.parametrize(
    "grid",
    [{"method": ["fedavg", "cgsv"]}, {"profile": ["default", "paper"]}, {"splits": [1, 2]}],
    ids=str,
)
def test_methods_profiles_and_splits_share_them_too(
    grid: dict[str, Any], trained: list[str]
) -> None:
    found = motifair.sweep(grid, **QUICK)
    splits = max(result.config.splits for result in found)
    assert trained.count("alone") == trained.count("alone-again") == splits
    (name,) = grid
    assert_as_single_runs(found, [{name: value} for value in grid[name]])


def test_a_row_for_each_setting_with_metrics_and_intervals() -> None:
    found = motifair.sweep({"beta": [1, float("inf")]}, splits=2, **QUICK)
    frame = found.to_frame()
    assert frame["beta"].tolist() == [1.0, float("inf")]
    for row, result in zip(frame.to_dict("records"), found, strict=True):
        low, high = result.ci95["personalised_accuracy"]
        assert row["personalised_accuracy"] == result.mean["personalised_accuracy"]
        assert (row["personalised_accuracy_low"], row["personalised_accuracy_high"]) == (low, high)
    html = found._repr_html_()
    assert html.count("<tr>") == 3
    assert "motifair on planted" in html
    assert repr(found) == "Sweep of motifair on planted: beta=1.0, beta=inf"


def test_a_sweep_is_kept_and_continues(trained: list[str], tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    first = motifair.sweep({"beta": [1, 2]}, out=str(out), **QUICK)
    trained.clear()
    again = motifair.sweep({"beta": [1, 2, 3]}, out=out, **QUICK)
    assert trained == ["method"]
    pd.testing.assert_frame_equal(again.to_frame()[:2], first.to_frame(), check_exact=True)
    assert pd.read_csv(out / "sweep.csv")["beta"].tolist() == [1.0, 2.0, 3.0]
    assert json.loads((out / "sweep.json").read_text())["options"] == ["beta"]
    kept = motifair.load_result(out / "beta=3.0")
    assert kept.config == again[2].config
    assert len(kept.predict(_graphs(kept))) == 3


def _graphs(result: motifair.Result) -> Any:
    return result.origin.plan.data.graphs.select(range(3))


def test_progress_counts_every_training_once(capsys: pytest.CaptureFixture[str]) -> None:
    motifair.sweep({"learning_rate": [0.01, 0.1], "beta": [1, 2]}, progress=True, **QUICK)
    assert "learning_rate=0.1,beta=2.0: 24 of 24 rounds" in capsys.readouterr().err.replace(
        "\n", " "
    )


@pytest.mark.parametrize(
    ("options", "fixed", "sentence"),
    [
        ({}, {}, "needs options"),
        ({"bta": [1]}, {}, "Did you mean beta"),
        ({"beta": []}, {}, "beta needs a list of values"),
        ({"method": "fedavg"}, {}, "method needs a list of values"),
        ({"beta": [1]}, {"beta": 2}, "swept over and set"),
        ({"beta": [1, -1]}, {}, "beta must be greater than 0"),
        ({"beta": [1, 2]}, {"method": "fedavg"}, "fedavg does not use beta"),
    ],
)
def test_a_mistaken_sweep_is_refused_before_any_training(
    options: dict[str, Any], fixed: dict[str, Any], sentence: str, trained: list[str]
) -> None:
    with pytest.raises(MotifairError, match=sentence):
        motifair.sweep(options, **QUICK, **fixed)
    assert trained == []
