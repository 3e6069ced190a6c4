"""Payoff by quality: every number of the study, computed again from the files of its runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr

from motifair.evaluation.accuracy import measure
from motifair.experiments.plan import Plan, split_data
from motifair.experiments.run import execute
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.perturb import TIERS
from motifair.studies import payoff
from motifair.studies.harm import without, without_tiers
from motifair.studies.late import CONTROL, LATE, OTHERS, course_of_late, damaged
from motifair.studies.payoff import Paid, bar_table, chance_above, paid_by_rule, spearman
from motifair.studies.stacks import Training, run_stages, taken_over, train
from motifair.studies.study import PAYOFF_CONFIRMATION, Settings, StudyResult

CPU = torch.device("cpu")
SMALL = {"agents": 4, "hidden": 16, "learning_rate": 0.02}


def settings(out: Path, **options: object) -> Settings:
    return Settings(
        out, splits=2, rounds=4, datasets=("planted",), device="cpu", threads=1,
        options={**SMALL, **options},
    )  # fmt: skip


def tiered(tmp_path: Path, method: str = "fedavg", **options: object) -> Plan:
    chosen = settings(tmp_path, **options)
    return chosen.plan(
        "planted", seed=PAYOFF_CONFIRMATION, splits=2, method=method, perturbation="tiers"
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("payoff")


@pytest.fixture(scope="module")
def found(out: Path) -> StudyResult:
    return payoff.run(settings(out))


def files_of(out: Path, method: str, damage: str = "-tiers") -> tuple[pd.DataFrame, pd.DataFrame]:
    folder = out / "runs" / f"planted{damage}-seed60000-2x4" / method
    return pd.read_csv(folder / "history.csv"), pd.read_csv(folder / "agents.csv")


def test_a_split_knows_which_share_of_edges_was_moved(tmp_path: Path) -> None:
    plan = tiered(tmp_path)
    split = split_data(plan, 1)
    clean = split_data(replace(plan, config=replace(plan.config, perturbation="none")), 1)
    for role, done, own in zip(split.roles, split.damage, split.partition.train, strict=True):
        low, high = TIERS[role]
        assert low <= done.rewired < high
        before, after = (
            {tuple(e) for e in s.graphs.select(own).edge_list()[0].tolist()} for s in (clean, split)
        )
        moved = len(before - after) / len(before)
        assert moved == pytest.approx(done.rewired, abs=0.04)  # rounded down in every graph
    assert {d.rewired for d in clean.damage} == {0.0}


def test_tiers_and_order_are_those_of_the_files(
    found: StudyResult, out: Path, tmp_path: Path
) -> None:
    history, agents = files_of(out, "motifair")
    table = found.tables["tiers"].set_index(["rule", "tier"]).loc["motifair"]
    for tier in ("low", "medium", "high"):
        members = agents[agents.role == tier][["split", "agent"]]
        theirs = history.merge(members)
        means = theirs.groupby("split")["payoff"].mean()
        assert table.loc[tier, "payoff"] == pytest.approx(means.mean())
        assert table.loc[tier, "negative"] == pytest.approx((theirs["payoff"] < 0).mean())
        half = 12.7062 * means.std() / np.sqrt(2)  # Student's quantile for two splits
        assert table.loc[tier, "payoff_high"] == pytest.approx(means.mean() + half, rel=1e-4)
    plan = tiered(tmp_path)
    ranks, chances = [], []
    for k in range(2):
        own = agents[agents.split == k]
        intact = [1 - d.rewired for d in split_data(plan, k).damage]
        ranks.append(spearmanr(own["payoff"], intact).statistic)
        low, high = (own[own.role == t]["payoff"] for t in ("low", "high"))
        chances.append(np.mean([(h > w) + 0.5 * (h == w) for h, w in product(high, low)]))
    order = found.tables["order"].set_index("rule").loc["motifair"]
    assert order["spearman"] == pytest.approx(np.mean(ranks))
    assert order["high_above_low"] == pytest.approx(np.mean(chances))


def test_tiers_can_be_made_again_from_what_each_agent_was_paid(found: StudyResult) -> None:
    raw = found.raw["splits"]
    assert set(raw["rule"]) == set(payoff.VALUED)
    means = raw.groupby(["rule", "seed", "tier"])["payoff"].mean().groupby(["rule", "tier"]).mean()
    table = found.tables["tiers"].set_index(["rule", "tier"])["payoff"]
    assert means.to_dict() == pytest.approx(table.loc[means.index].to_dict())


def test_the_study_writes_figures_and_says_what_they_are(
    found: StudyResult, tmp_path: Path
) -> None:
    made = {p.name for p in found.write(tmp_path)}
    assert {"payoff.png", "late.svg", "harm.csv", "bar.csv", "README.md"} <= made


def test_rules_by_size_pay_what_a_run_under_them_pays(tmp_path: Path) -> None:
    chosen = replace(settings(tmp_path, partition="sizes", skew=2.0), splits=1, rounds=1)
    options = {"seed": 1, "splits": 1, "perturbation": "tiers", "method": "motifair"}
    plan = chosen.plan("planted", **options)
    paid = paid_by_rule(chosen.execute("x", dict.fromkeys(payoff.VALUED, plan)), plan)
    for rule in ("equal", "individual", "union", "shapley"):
        real = execute(chosen.plan("planted", **options, payoff=rule)).splits[0]
        assert len(set(real.graphs)) > 1
        expected = real.history.columns["payoff"][0]
        np.testing.assert_allclose(paid[rule][0].payoff, expected, rtol=1e-12)


def test_fines_are_counted_round_by_round(tmp_path: Path) -> None:
    chosen = replace(settings(tmp_path), splits=1, rounds=2)
    plan = chosen.plan("planted", seed=1, splits=1, perturbation="tiers", method="motifair")
    found = chosen.execute("x", dict.fromkeys(payoff.VALUED, plan))
    rounds = np.array([[0.5, 0.7, -0.3, 0.1], [0.2, 1.0, -0.1, -0.1]])
    found.results["motifair"].splits[0].history.columns["payoff"] = rounds
    (paid,) = paid_by_rule(found, plan)["motifair"]
    assert paid.fined.tolist() == [0, 0, 1, 0.5]
    np.testing.assert_allclose(paid.payoff, [0.35, 0.85, -0.2, 0.0], atol=1e-12)


def test_the_bar_asks_for_order_distance_and_correlation() -> None:
    tier, intact = np.array(["low", "medium", "high"]), np.array([0.1, 0.5, 0.9])

    def paid(*rows: tuple[float, float, float]) -> dict[str, list[Paid]]:
        return {"rule": [Paid(np.array(r), np.zeros(3), tier, intact) for r in rows]}

    clear = bar_table("d", paid((0.1, 0.2, 0.7), (0.11, 0.2, 0.69))).iloc[0]
    assert clear.tolist()[2:] == [True] * 4
    wide = bar_table("d", paid((0.1, 0.2, 0.7), (0.3, 0.33, 0.37))).iloc[0]
    assert wide.tolist()[2:] == [False, True, True, False]
    swapped = bar_table("d", paid((0.2, 0.1, 0.7), (0.2, 0.1, 0.69))).iloc[0]
    assert swapped.tolist()[2:] == [True, False, False, False]
    assert np.isnan(spearman(paid((0.1, 0.1, 0.1))["rule"][0]))
    assert chance_above(paid((0.1, 0.1, 0.1))["rule"][0]) == 0.5


def test_a_tier_left_out_is_a_federation_of_the_others(tmp_path: Path) -> None:
    """Recomputed: all agents train, the sum takes the others in only, everyone adopts it."""
    plan = tiered(tmp_path)
    (_, found), *_ = without_tiers(settings(tmp_path), plan, "without").values()
    members = prepare(plan.config, split_data(plan, 1), seed=plan.config.seed + 1)
    stay = [k for k, role in enumerate(members.split.roles) if role != "low"]
    simulation = Simulation(plan.config, members, device=CPU)
    state = simulation.start()
    share = torch.tensor([len(members.train[k]) for k in stay], dtype=torch.float64)
    share /= share.sum()
    server = simulation.initial[0].double()
    agents, losses = state.agents, []
    for round in range(1, plan.config.rounds + 1):
        trained, uploads = simulation.agents.train(agents, torch.tensor(round), None, None)
        losses.append(uploads.loss[stay].numpy())
        server = server + (share @ uploads.update[stay].double()).float().double()
        agents = replace(trained, weights=server.float().expand(len(members.train), -1).clone())
    expected = measure(simulation.model, server.float()[None], simulation.global_test)
    assert found.names == tuple(members.split.names[k] for k in stay)
    np.testing.assert_allclose(found.columns["loss"], losses, rtol=1e-4)
    assert found.global_accuracy[-1] == pytest.approx(expected.item(), abs=1e-12)


def test_harm_compares_with_everyone(found: StudyResult, out: Path) -> None:
    history, agents = files_of(out, "fedavg")
    final = history[history["round"] == 4].groupby("split")["global_accuracy"].first()
    harm = found.tables["harm"].set_index("tier")
    assert harm.loc["low", "with everyone"] == pytest.approx(final.mean())
    gap = harm["with everyone"] - harm["without the tier"]
    np.testing.assert_allclose(harm["difference"], gap, atol=1e-12)
    alone = agents[agents.role == "high"].groupby("split")["alone"].mean().mean()
    assert harm.loc["high", "alone"] == pytest.approx(alone)


def test_stacks_find_what_single_federations_find_and_finished_ones_are_kept(
    tmp_path: Path,
) -> None:
    plan = replace(tiered(tmp_path), memory=2**40)  # as on a GPU: all in one stack
    whole = [prepare(plan.config, split_data(plan, k), seed=60_000 + k) for k in range(2)]
    rest = [without(m, [k]) for k, m in enumerate(whole)]
    chosen = settings(tmp_path)
    stacked = train(chosen, plan, "s", [Training(k, "x", lambda k=k: (rest[k],)) for k in range(2)])
    for members, history in zip(rest, stacked, strict=True):
        (single,) = run_stages(plan, [(members,)], ())
        np.testing.assert_allclose(history.columns["loss"], single.columns["loss"], atol=1e-5)
        assert history.global_accuracy[-1] == single.global_accuracy[-1]
    never = [Training(k, "x", lambda: pytest.fail("trained twice")) for k in range(2)]
    again = train(chosen, plan, "s", never)
    np.testing.assert_array_equal(again[1].columns["loss"], stacked[1].columns["loss"])


def test_a_late_agent_has_rewired_graphs_first_and_its_own_later(tmp_path: Path) -> None:
    # What graphs are worth is judged once, before the first round: without that, values follow.
    chosen = settings(tmp_path, trial_rounds=0)
    plan = chosen.plan("planted", seed=3, splits=2, method="motifair", partition="iid")
    course = course_of_late(chosen, replace(plan, memory=2**40), "late", 2)  # all in one stack
    good = prepare(plan.config, split_data(plan, 1), seed=4)
    bad = prepare(plan.config, damaged(good.split, 1, seed=4), seed=4)
    for k in range(4):  # only the late agent's graphs differ
        same = np.array_equal(good.train[k].graphs.neighbour, bad.train[k].graphs.neighbour)
        assert same == (k != 1)
    (only_bad,) = run_stages(plan, [(bad,)], ())
    (only_good,) = run_stages(plan, [(good,)], ())
    value = course[LATE]["value"][1]
    np.testing.assert_allclose(value[:2], only_bad.columns["value"][:2, 1], atol=1e-6)
    assert (abs(value[2:] - only_bad.columns["value"][2:, 1]) > 1e-6).all()
    usual = only_good.columns["value"][:, 1]
    np.testing.assert_allclose(course[CONTROL]["value"][1], usual, atol=1e-6)
    np.testing.assert_allclose(course[OTHERS]["value"][1], (1 - value) / 3, atol=1e-9)
    earlier = np.array([value[:t].mean() if t else np.inf for t in range(4)])
    expected = np.maximum(value - earlier, 0).cumsum()  # E4
    np.testing.assert_allclose(course[LATE]["compensation"][1], expected, atol=1e-9)


def test_late_agents_are_followed_from_both_turning_points(tmp_path: Path, data_dir: Path) -> None:
    fixed = {"trial_rounds": 0}  # else the model for judgement is trained as long as the stage
    chosen = Settings(
        tmp_path, splits=1, rounds=4, device="cpu", threads=1, data_dir=data_dir, options=fixed
    )
    courses, turns = payoff._courses(chosen, ("PROTEINS",))
    assert turns == {f"PROTEINS, one agent clean from round {n} on": n - 1 for n in (2, 3)}
    early, later = courses.values()
    np.testing.assert_array_equal(early[CONTROL]["value"], later[CONTROL]["value"])
    values = early[LATE]["value"][0], later[LATE]["value"][0]
    assert values[0][0] == values[1][0]
    assert values[0][1] > values[1][1]  # in round 2 only the early one has its own graphs


def test_after_the_turn_agents_go_on_from_where_they_were(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    for method in ("fedavg", "motifair"):
        plan = chosen.plan("planted", seed=3, splits=2, method=method, partition="iid")
        good = prepare(plan.config, split_data(plan, 0), seed=3)
        bad = prepare(plan.config, damaged(good.split, 0, seed=3), seed=3)
        (found,) = run_stages(plan, [(bad, good)], (2,))
        # A model for judgement is trained no longer than the stage that follows.
        first = replace(plan.config, rounds=2)
        before = Simulation(first, bad, device=CPU)
        after = Simulation(plan.config, good, device=CPU)
        state, losses = before.start(), []
        for round in range(1, 5):
            if round == 3:
                state = taken_over(after, state, [bad])
            state, record = (before if round < 3 else after).round(state)
            losses.append(record["loss"].numpy())
        np.testing.assert_allclose(found.columns["loss"], losses, rtol=1e-5)


def test_prototypes_are_those_of_the_new_graphs_by_the_values_of_today(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    plan = chosen.plan("planted", seed=3, splits=2, method="motifair", partition="iid")
    good = prepare(plan.config, split_data(plan, 0), seed=3)
    bad = prepare(plan.config, damaged(good.split, 0, seed=3), seed=3)
    before, after = (Simulation(plan.config, m, device=CPU) for m in (bad, good))
    state, _ = before.round(before.start())
    taken = taken_over(after, state, [bad])
    assert good.index is not None
    assert bad.index is not None
    assert len(good.index.keys) != len(bad.index.keys)
    local = after.agents.prototypes(state.agents).double()
    for k in range(len(good.index.keys)):
        entries = np.flatnonzero(good.index.motif == k)
        weight = state.server.value[good.index.agent[entries]].clamp(min=0)
        expected = weight @ local[entries] / weight.sum()
        np.testing.assert_allclose(taken.server.prototypes[k], expected, rtol=1e-5)
    assert taken.server.active.all()
    assert torch.equal(taken.server.value, state.server.value)
    known = ~taken.server.alignment.isnan()
    assert known.tolist() == [False, *[True] * (len(known) - 1)]  # the first begins anew
    assert torch.equal(taken.agents.weights, state.agents.weights)
