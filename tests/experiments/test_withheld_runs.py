"""Incentives: what a member gains by giving more, from trainings in which it gives less."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import motifair
from motifair.evaluation.incentives import SHARES, Giving
from motifair.experiments.comparison import Comparison
from motifair.experiments.jobs import GIVES, Job, _members, list_jobs, list_parts
from motifair.experiments.plan import Plan, make_plan, split_data
from motifair.experiments.result import Result, load_result
from motifair.experiments.run import execute
from motifair.experiments.tables import comparison_table, metrics_table
from motifair.federation.callbacks import Callback, Pace
from motifair.federation.history import History
from motifair.federation.loop import Stopped
from motifair.federation.offer import draw_member
from motifair.federation.state import FederationState
from motifair.report.cast import Cast
from motifair.report.figures import incentives
from motifair.report.run_section import RunSection
from motifair.report.source import source_of
from motifair.report.timeline import timeline

QUICK = {"rounds": 4, "agents": 3, "hidden": 8, "layers": 2, "splits": 2, "eval_every": 2}


def planned(*, memory: int = 0, **options: Any) -> Plan:
    given = {**QUICK, "incentives": True, **options}
    return replace(make_plan("planted", given, device="cpu", threads=1), memory=memory)


@cache
def whole(**options: Any) -> Result:
    return execute(planned(**options))


def givings(result: Result) -> list[Giving]:
    return [s.giving for s in result.splits if s.giving is not None]


# What is measured


@pytest.mark.parametrize("method", ["fedavg", "fedavg-own", "gcfl"])
def test_equal_pay_does_not_rise_with_what_is_given(method: str) -> None:
    result = whole(method=method)
    assert result.mean["pay_slope"] == 0
    assert result.ci95["pay_slope"] == (0, 0)
    for giving in givings(result):
        assert giving.payoff == pytest.approx([4 / 3] * 5)


def test_without_an_exchange_the_accuracy_does_not_depend_on_what_is_given() -> None:
    result = whole(method="self-train")
    assert result.mean["accuracy_slope"] == 0
    assert math.isnan(result.mean["pay_slope"])  # nobody is paid
    for split, giving in zip(result.splits, givings(result), strict=True):
        assert set(giving.accuracy) == {split.accuracy[giving.agent]}


def test_pay_by_data_size_rises_with_what_is_given() -> None:
    result = whole(payoff="individual")
    for giving in givings(result):
        assert giving.payoff[0] == 0
        assert list(giving.payoff) == sorted(giving.payoff)
        assert giving.pay[-1] == 1


def test_the_last_point_is_the_run_itself_and_the_metrics_follow_by_hand() -> None:
    result = whole()
    for split, giving in zip(result.splits, givings(result), strict=True):
        k = giving.agent
        assert k == draw_member(split.seed, 3)
        assert giving.accuracy[-1] == split.accuracy[k]
        assert giving.payoff[-1] == split.history.columns["payoff"][:, k].sum()
        metrics, pay = split.metrics(), np.array(giving.payoff) / giving.payoff[-1]
        fitted = [
            np.polynomial.Polynomial.fit(SHARES, y, 1).convert() for y in (giving.accuracy, pay)
        ]
        assert metrics["accuracy_slope"] == pytest.approx(fitted[0].coef[1], abs=1e-12)
        assert metrics["pay_slope"] == pytest.approx(fitted[1].coef[1], abs=1e-12)
        alone = (split.alone[k] + split.alone_again[k]) / 2
        assert metrics["free_rider_gain"] == pytest.approx(giving.accuracy[0] - alone)


def test_slopes_and_gain_of_a_case_by_hand() -> None:
    giving = Giving(2, (0.5, 0.5, 0.5, 0.5, 0.75), (0.0, 1.0, 2.0, 3.0, 4.0))
    # Σ (c − ½)(a − ā) / Σ (c − ½)² = (½ · 0.25) / 0.625
    assert giving.accuracy_slope == pytest.approx(0.2)
    assert giving.pay_slope == pytest.approx(1.0)
    assert giving.free_rider_gain(0.25, 0.5) == pytest.approx(0.125)
    assert math.isnan(replace(giving, payoff=(0.0,) * 5).pay_slope)
    assert math.isnan(replace(giving, payoff=(1.0, 0.0, 0.0, 0.0, -1.0)).pay_slope)


def test_further_trainings_change_nothing_of_the_run_itself() -> None:
    without = execute(planned(incentives=False))
    pd.testing.assert_frame_equal(without.to_frame(), whole().to_frame())
    pd.testing.assert_frame_equal(without.history, whole().history)
    assert not givings(without)
    for metric in ("accuracy_slope", "pay_slope", "free_rider_gain"):
        assert math.isnan(without.mean[metric])
        assert metric.replace("_", " ") not in repr(without)


# Jobs


def test_parts_and_shares_fit() -> None:
    assert sorted([*GIVES.values(), 1.0]) == list(SHARES)
    assert list_parts(planned().config)[2:] == ("method", *GIVES)
    assert list_parts(planned(incentives=False).config)[2:] == ("method",)


def test_who_gives_less_trains_with_the_runs_own_seed_and_is_the_same_for_every_share() -> None:
    plan = planned()
    split = split_data(plan, 1)
    members = [_members(plan, Job(1, part, None), split) for part in GIVES]
    assert {m.seed for m in members} == {plan.config.seed + 1}
    gifts = [m.given for m in members if m.given is not None]
    assert {g.agent for g in gifts} == {draw_member(plan.config.seed + 1, 3)}
    own = len(split.partition.train[gifts[0].agent])
    assert [g.graphs for g in gifts] == [round(own * share) for share in GIVES.values()]


def test_shares_side_by_side_give_what_they_give_one_after_another() -> None:
    stacked = execute(planned(memory=2**33))
    assert stacked.environment["layout"]["jobs_in_a_stack"] == 8
    for ours, theirs in zip(givings(stacked), givings(whole()), strict=True):
        assert ours.agent == theirs.agent
        assert ours.accuracy == theirs.accuracy
        assert ours.payoff == pytest.approx(theirs.payoff, abs=1e-5)


class Killed(BaseException):
    """The process is gone."""


class Killing:
    """Kills the process in a round of one job."""

    def __init__(self, job: tuple[int, str], round: int) -> None:
        self.job, self.round = job, round
        self.skipped: list[tuple[int, str]] = []

    def part(self, split: int, name: str) -> Callback:
        return _Killer(self.round if (split, name) == self.job else -1)

    def skip(self, split: int, name: str) -> None:
        self.skipped.append((split, name))

    def stacked(self, jobs: int) -> None: ...


class _Killer(Callback):
    def __init__(self, round: int) -> None:
        self.round = round

    def on_round(self, state: FederationState, history: History) -> None:
        if state.round == self.round:
            raise Killed


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0, 2**33], ids=["one by one", "side by side"])
def test_killed_among_the_further_trainings_a_run_ends_bit_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(Pace, "SHARE", 1e9)  # a file in every round
    plan, out = planned(memory=memory), tmp_path / "run"
    with pytest.raises(Killed):
        execute(plan, out, progress=Killing((0, "gives-050"), 3))
    job = next(j for j in list_jobs(plan, out, out) if (j.number, j.part) == (0, "gives-050"))
    assert job.path is not None
    assert job.path.exists()
    again = Killing((9, ""), 0)
    result = execute(plan, out, progress=again)
    assert (0, "method") in again.skipped
    wanted = execute(plan, tmp_path / "uninterrupted")
    assert givings(result) == givings(wanted)
    pd.testing.assert_frame_equal(result.history, wanted.history)
    assert givings(load_result(out)) == givings(wanted)


def test_a_run_stopped_in_every_round_ends_the_same(tmp_path: Path) -> None:
    # Stopped before the first round it would begin anew.
    options = {"splits": 1, "rounds": 3, "trial_rounds": 0}
    plan, out = planned(**options), tmp_path / "run"
    for _ in range(20):
        try:
            execute(plan, out, stop=lambda: True)
        except Stopped:
            continue
        break
    assert givings(load_result(out)) == givings(whole(**options))


def test_a_comparison_shares_the_trainings_alone_with_and_without_incentives(
    tmp_path: Path,
) -> None:
    plan = planned(splits=1)
    assert plan.about(0, "alone") == planned(splits=1, incentives=False).about(0, "alone")
    options = {**QUICK, "splits": 1, "rounds": 2, "device": "cpu", "threads": 1}
    found = motifair.compare(methods="fedavg,self-train", incentives=True, out=tmp_path, **options)
    assert not list((tmp_path / "baselines" / "checkpoint").glob("*gives*"))
    assert len(list((tmp_path / "fedavg" / "checkpoint").glob("*gives*"))) == 4
    assert found.measures().loc["fedavg", "pay_slope"] == 0


# What people see


def test_a_result_is_saved_and_loaded_with_what_was_given(tmp_path: Path) -> None:
    result = whole()
    result.save(tmp_path)
    loaded = load_result(tmp_path)
    assert givings(loaded) == givings(result)
    assert repr(loaded) == repr(result)
    for words in ("accuracy slope", "pay slope", "free-rider gain"):
        assert words in repr(result)


def test_a_comparison_shows_the_measures_where_they_were_measured() -> None:
    both = Comparison({"motifair": whole(), "fedavg": whole(method="fedavg")}, "fedavg")
    for table in (metrics_table(both), comparison_table(both)):
        text = table.to_markdown()
        assert "pay slope" in text
        assert "free-rider gain" in text
        assert any("straight line" in note for note in table.notes)
    without = execute(planned(incentives=False, splits=1))
    neither = comparison_table(Comparison({"one": without, "two": without}, "one"))
    assert "slope" not in neither.to_markdown()


def test_a_report_draws_accuracy_and_pay_or_says_how_to_get_them() -> None:
    source = source_of(whole())
    chart = incentives(source, Cast.of(timeline(source)))
    names = [s.name for s in chart.series]  # type: ignore[union-attr]
    assert names == ["accuracy", "accuracy", "pay", "pay"]
    shown = chart.series[3].y  # type: ignore[union-attr]
    assert shown == pytest.approx(np.mean([g.pay for g in givings(whole())], axis=0))
    section = RunSection("run", None, source)
    assert "Slope of accuracy" in [f.name for f in section.facts]
    unpaid = source_of(whole(method="self-train"))
    chart = incentives(unpaid, Cast.of(timeline(unpaid)))
    assert [s.name for s in chart.series] == ["accuracy", "accuracy"]  # type: ignore[union-attr]
    without = source_of(execute(planned(incentives=False, splits=1)))
    missing = incentives(without, Cast.of(timeline(without)))
    assert "--set incentives=true" in missing.why  # type: ignore[union-attr]
