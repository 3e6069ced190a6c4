"""Statements of real runs: alignment and diversity as recorded explain every value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from deployed import NAMES, VOTED, Answer, World, away, opened, sealed, terms_of
from report_samples import made_up_source

import motifair
from motifair.consortium.wire import Download
from motifair.experiments.simulated_ledger import entries_of
from motifair.experiments.split_result import SplitResult
from motifair.mechanism.payoff import compensation, payoff
from motifair.report.run_section import agents_table
from motifair.report.source import SIMULATED, Source, read_simulation
from motifair.report.timeline import timeline
from motifair.statements.entry import Entry
from motifair.statements.statement import Statement, make_statement

TINY = 1000  # of 1e-12
SMALL = {"rounds": 5, "agents": 4, "hidden": 16, "threads": 1}
FAST = {
    "value_rate": 1.0, "alignment_rate": 1.0, "diversity_weight": 0.0, "value_update": "ema",
}  # values turn at once  # fmt: skip


def all_of(entries: list[Entry], **known: Any) -> Mapping[str, Statement]:
    names = sorted({x.agent for e in entries for x in e.lines})
    return {name: make_statement(entries, name, **known) for name in names}


def assert_explained(entries: list[Entry]) -> None:
    """Nothing is left to adjust, and all adds up."""
    found = all_of(entries)
    for s in found.values():
        for p in s.rounds:
            assert p.value_parts is not None
            assert abs(p.value_parts.adjustment) <= TINY, (s.agent, p.round)
            assert "does not follow" not in p.note
            assert sum(p.amounts.values()) == p.payoff
        assert s.totals["adjustment"] == 0
    settled = sum(e.budget for e in entries if e.settled)
    assert sum(s.payoff for s in found.values()) == settled


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"profile": "paper"},
        {"value_update": "ema", "value_rate": 0.5},
        {"method": "motifair-diversity"},
        {"method": "motifair-alignment"},
    ],
    ids=str,
)
def test_the_values_of_a_simulation_are_explained(options: dict[str, Any], tmp_path: Path) -> None:
    result = motifair.run("planted", out=tmp_path, **SMALL, **options)
    source = read_simulation(tmp_path)
    assert_explained(list(source.entries))
    split, agents = result.splits[0], pd.read_csv(tmp_path / "agents.csv")
    for k, name in enumerate(split.names):
        s = make_statement(source.entries, name, graphs=source.graphs, motifs=source.motifs)
        paid = float(split.history.columns["payoff"][:, k].sum())
        assert float(s.money(s.payoff)) == pytest.approx(paid, abs=1e-5)
        late = float(agents["compensation"][k])
        assert float(s.money(s.totals["compensation"])) == pytest.approx(late, abs=1e-5)
        assert s.motifs is not None
        assert {m.key for m in s.motifs} == set(source.motifs[name])
        assert s.shapley is not None
        assert s.totals["alignment"] == 0 or options.get("method") != "motifair-alignment"
        assert s.totals["diversity"] == 0 or options.get("method") != "motifair-diversity"


def paid_by_value(split: SplitResult, budget: float) -> SplitResult:
    """Fill in compensations and payoffs as E4 and E5 give them for the values."""
    columns = split.history.columns
    value = torch.tensor(columns["value"]).round(decimals=12)
    rounds = torch.arange(len(value))[:, None]
    earlier_mean = (value.cumsum(dim=0) - value) / rounds.clamp(min=1)
    bonus = compensation(value, earlier_mean, rounds)
    columns["value"] = value.numpy()
    columns["compensation"] = bonus.where(value >= 0, 0.0).numpy()
    columns["payoff"] = payoff(value, bonus, budget).numpy()
    return split


@pytest.mark.parametrize("budget", [1.0, 40.0])
def test_compensation_is_the_same_money_in_table_report_and_statement(budget: float) -> None:
    source = made_up_source(rounds=20, budget=budget)
    assert source.result is not None
    split = paid_by_value(source.result.splits[0], budget)
    assert (split.history.columns["value"] < 0).any()  # so that penalties are shared out, too
    source = replace(source, entries=entries_of(source.config, split, SIMULATED))
    due = [make_statement(source.entries, n).totals["compensation"] / 1e6 for n in split.names]
    assert sum(due) > 0.1 * budget
    rounding = pytest.approx(due, abs=20 * 1e-6)
    assert split.agents_frame()["compensation"].tolist() == rounding
    assert timeline(source).columns["compensation"].sum(axis=0).tolist() == rounding
    cells = agents_table(source, timeline(source))
    shown = [float(row[cells.head.index("of it late, credits")]) for row in cells.rows]
    assert shown == pytest.approx(due, abs=0.0051)


def test_a_simulation_that_pays_equally_has_equal_shares_alone(tmp_path: Path) -> None:
    motifair.run("planted", out=tmp_path, method="fedavg", **SMALL)
    source = read_simulation(tmp_path)
    for name in source.agents:
        s = make_statement(source.entries, name, graphs=source.graphs)
        assert s.parts in (("equal",), ("equal", "rounding"))
        assert s.payoff == s.equal == 5 * 250_000


OPPOSED = {**VOTED, **FAST}  # coverage pays no penalties; the others' votes do


def test_the_values_of_a_federation_with_absences_are_explained(tmp_path: Path) -> None:
    world = World(tmp_path / "w", terms_of(rounds=5), away({"bank-d": {1, 3}, "bank-b": {4}}))
    assert world.drive()
    assert_explained(world.entries())
    s = make_statement(world.entries(), "bank-d")
    assert [p.payoff == 0 for p in s.rounds] == [True, False, True, False, False]
    assert s.rounds[0].note == "absent (no answer today)"


def test_compensation_of_a_federation_is_the_same_money_in_report_and_statement(
    tmp_path: Path,
) -> None:
    world = World(tmp_path / "w", terms_of(rounds=5, **OPPOSED), away({"bank-d": {1, 3}}))
    assert world.drive()
    entries = tuple(world.entries())
    found = timeline(Source("trial", world.run, world.terms.config, entries))
    due = [make_statement(entries, name).totals["compensation"] / 100 for name in found.agents]
    assert sum(due) > 0
    paid = np.nansum(found.columns["compensation"], axis=0).tolist()
    assert paid == pytest.approx(due, abs=5 * 0.005 + 1e-9)


def test_below_the_quorum_values_rest_and_are_explained(tmp_path: Path) -> None:
    pattern = {name: {2} for name in NAMES[1:]}
    world = World(tmp_path / "w", terms_of(), away(pattern, bad=True))
    assert world.drive()
    assert not world.rounds()[1].settled
    assert_explained(world.entries())


def test_penalties_of_who_harmed_are_explained(tmp_path: Path) -> None:
    """One member learns the wrong classes in a round; the model tells those of the others."""

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if name != "bank-d" or task.round != 2:
            return answer()
        upload = opened(answer())
        assert upload.update is not None
        return sealed(replace(upload, update=-upload.update))

    terms = terms_of(**OPPOSED, dropout=0.0, learning_rate=0.01)
    world = World(tmp_path / "w", terms, meddle)
    assert world.drive()
    assert_explained(world.entries())
    fined = make_statement(world.entries(), "bank-d")
    assert fined.rounds[1].amounts == {"penalty": world.line(2, "bank-d").payoff}
    assert fined.totals["penalty"] < 0
    gained = [make_statement(world.entries(), n).totals["redistribution"] for n in NAMES[:3]]
    assert abs(sum(gained) + fined.totals["penalty"]) <= 2


def test_members_who_come_and_go_are_explained(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    World(folder, terms_of(members=NAMES[:3])).drive(rounds=2)
    World(folder, terms_of(members=NAMES)).drive(rounds=1)
    last = World(folder, terms_of(members=NAMES[1:]))
    assert last.drive()
    entries = last.entries()
    assert_explained(entries)
    assert [p.round for p in make_statement(entries, "bank-a").rounds] == [1, 2, 3]
    newcomer = make_statement(entries, "bank-d")
    assert [p.round for p in newcomer.rounds] == [3, 4]
    assert newcomer.rounds[0].value_parts is not None
    assert newcomer.rounds[0].value_parts.initial > 10**11  # its first evidence, and its worth
    assert newcomer.rounds[0].value_parts.alignment > 10**9
