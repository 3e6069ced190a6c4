"""Attacks do what they say, honesty is the zero of the scale, and what the default promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import CPU, simulate, small_config, small_split

from motifair.config import Config
from motifair.experiments.packing import memory_needed
from motifair.experiments.plan import make_plan, split_data
from motifair.federation.history import History
from motifair.federation.loop import Stopped, run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.protocol import Uploads
from motifair.federation.round import serve_round
from motifair.federation.simulation import Simulation
from motifair.graphs.features import motif_labels
from motifair.graphs.split import Split
from motifair.mechanism.settlement import Share, Unsettled, settle
from motifair.motifs import chance
from motifair.motifs.extract import count_motifs
from motifair.studies import attacks
from motifair.studies.attacks import ATTACKS, HONEST, Attack, AttackContext
from motifair.studies.dishonest import Dishonest, settled
from motifair.studies.manipulation import (
    LITERAL_OPTIONS,
    RULES,
    Case,
    explore,
    outcome,
    stacks,
)
from motifair.studies.study import Settings

ATTACKER = 1
BY_NAME = {attack.name: attack for attack in ATTACKS}
VOTES = {"alignment_against": "peers-by-value"}  # so that gradients are uploaded
seeds = st.integers(0, 2**16)


def world(rule: Mapping[str, Any] = RULES["default"], **options: object) -> tuple[Config, Split]:
    # Equal shares: whoever has few graphs has no motif beyond chance.
    config = small_config(**{"partition": "iid", "dropout": 0.0, **rule, **options})
    return config, small_split(config)


def attacked(
    attack: Attack, config: Config, split: Split, seed: int = 5
) -> tuple[Dishonest, History, list[Uploads]]:
    """Run an attack; also return what was sent in each round."""
    changed = attack.split(split, ATTACKER, np.random.default_rng(0))
    members = prepare(config, changed, seed=seed)
    attackers = (ATTACKER, *range(len(split.names), len(changed.names)))
    sent: list[Uploads] = []

    def noted(uploads: Uploads, context: AttackContext) -> Uploads:
        sent.append(attack.uploads(uploads, context))
        return sent[-1]

    simulation = Dishonest(
        config,
        attack.members(members, attackers),
        replace(attack, uploads=noted),
        ATTACKER,
        device=CPU,
        dtype=torch.float64,
    )
    (history,) = simulation.histories()
    run_rounds(simulation, simulation.start(), [history])
    return simulation, history, sent


@cache
def trained(**options: Any) -> tuple[Members, Dishonest, Uploads]:
    """One federation after its first local training."""
    config, split = world(**options)
    members = prepare(config, split, seed=5)
    simulation = Dishonest(config, members, HONEST, ATTACKER, device=CPU, dtype=torch.float64)
    state = simulation.start()
    given = simulation.server.for_agents(state.server)
    _, uploads = simulation.agents.train(state.agents, state.server.round + 1, *given)
    return members, simulation, uploads


def context(**changes: Any) -> AttackContext:
    _, simulation, _ = trained()
    first = AttackContext(1, 3, simulation.own, simulation.other, None)
    return replace(first, **changes)


@pytest.mark.parametrize("rule", list(RULES.values()), ids=list(RULES))
def test_an_honest_attacker_gains_exactly_nothing(rule: Mapping[str, Any]) -> None:
    config, split = world(rule, dropout=0.5)
    _, _, honest = simulate(config, split)
    _, found, _ = attacked(HONEST, config, split)
    for column, values in honest.columns.items():
        np.testing.assert_array_equal(found.columns[column], values)
    np.testing.assert_array_equal(found.global_accuracy, honest.global_accuracy)


def test_renumbering_changes_nothing_under_chordless_rings() -> None:
    # The draw behind chance=true hangs on the numbering: see the test of motifs beyond chance.
    config, split = world(chance=False)
    _, honest, _ = attacked(HONEST, config, split)
    _, found, _ = attacked(BY_NAME["renumber nodes"], config, split)
    for column in ("value", "payoff", "alignment", "diversity", "kept", "accuracy"):
        np.testing.assert_allclose(found.columns[column], honest.columns[column], atol=1e-9)


@given(seed=seeds)
@settings(max_examples=15)
def test_renumbering_moves_nodes_but_no_chordless_motif(seed: int) -> None:
    _, split = world()
    moved = attacks.renumbered(split, ATTACKER, np.random.default_rng(seed))
    own = split.partition.train[ATTACKER]
    others = np.setdiff1d(np.arange(len(split.graphs)), own)
    assert moved.graphs.select(others).digest() == split.graphs.select(others).digest()
    assert moved.graphs.select(own).digest() != split.graphs.select(own).digest()

    def counted(graphs: Any) -> Any:
        return count_motifs(graphs, motif_labels(graphs, "label"), rings="chordless", max_ring=4)

    before, after = counted(split.graphs), counted(moved.graphs)
    assert after.keys == before.keys
    assert (after.counts != before.counts).nnz == 0


@given(by=st.floats(1e-3, 1e3))
@settings(max_examples=25)
def test_scaling_does_not_change_alignment_with_peers(by: float) -> None:
    _, simulation, uploads = trained(alignment_against="peers")
    state = simulation.start().server
    longer = attacks.scaled(uploads, context(), by=by)
    assert longer.gradient is not None
    assert uploads.gradient is not None
    torch.testing.assert_close(longer.update[ATTACKER], by * uploads.update[ATTACKER])
    torch.testing.assert_close(longer.gradient[ATTACKER], by * uploads.gradient[ATTACKER])
    _, _, honest = serve_round(simulation.server, state, uploads)
    _, _, found = serve_round(simulation.server, state, longer)
    torch.testing.assert_close(found["alignment"], honest["alignment"], atol=1e-9, rtol=0)


@given(by=st.floats(1e-3, 0.5))
@settings(max_examples=25)
def test_short_updates_are_worth_less(by: float) -> None:
    _, simulation, uploads = trained()
    state = simulation.start().server
    _, _, honest = serve_round(simulation.server, state, uploads)
    _, _, found = serve_round(simulation.server, state, attacks.scaled(uploads, context(), by=by))
    assert honest["alignment"][ATTACKER] > 0
    assert found["alignment"][ATTACKER] < honest["alignment"][ATTACKER]
    assert found["value"][ATTACKER] < honest["value"][ATTACKER]


@given(count=st.integers(0, 30))
@settings(max_examples=10)
def test_invented_keys_bring_no_diversity_where_motifs_need_corroboration(count: int) -> None:
    members, simulation, _ = trained()
    keys = [f"ring invented {k}" for k in range(count)]
    more = attacks.claimed(members, (ATTACKER,), keys)
    found = Dishonest(simulation.config, more, HONEST, ATTACKER, device=CPU)
    assert more.index is not None
    assert members.index is not None
    assert more.index.sizes[ATTACKER] == members.index.sizes[ATTACKER] + count
    torch.testing.assert_close(found.server.diversity, simulation.server.diversity)


def test_invented_keys_bring_diversity_under_the_literal_equations() -> None:
    config, split = world(LITERAL_OPTIONS)
    _, honest, _ = attacked(HONEST, config, split)
    _, found, _ = attacked(BY_NAME["invent keys"], config, split)
    assert (found.columns["diversity"] > honest.columns["diversity"])[:, ATTACKER].all()
    others = np.arange(4) != ATTACKER
    assert (found.columns["diversity"] < honest.columns["diversity"])[:, others].all()


def test_claiming_all_keys_gives_all_diversity_and_copies_of_own_prototypes() -> None:
    config, split = world()
    simulation, _, sent = attacked(BY_NAME["claim all keys"], config, split)
    assert simulation.server.diversity[ATTACKER] == 1
    index = simulation.members[0].index
    assert index is not None
    assert index.sizes[ATTACKER] == len(index.keys)
    assert sent[0].prototypes is not None
    own = sent[0].prototypes[torch.as_tensor(index.agent == ATTACKER)]
    held = prepare(config, split, seed=5).index
    assert held is not None
    size = int(held.sizes[ATTACKER])
    torch.testing.assert_close(own, own[torch.arange(len(own)) % size])


@pytest.mark.parametrize("attack", [attacks.duplicated, attacks.renumbered])
def test_duplicates_and_numbering_do_not_change_which_motifs_are_above_chance(
    attack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to those so near the limit that another draw of the random wiring decides."""
    config, _ = world()
    plan = make_plan("planted", {"agents": 4})
    split = split_data(plan, 0)

    def beyond(split: Split, margin: float = chance.MARGIN) -> dict[str, bool]:
        graphs, own = split.graphs, split.partition.train[ATTACKER]
        labels = motif_labels(graphs, "label")
        counted = count_motifs(graphs, labels, rings=config.rings, max_ring=config.max_ring)
        monkeypatch.setattr(chance, "MARGIN", margin)
        found = chance.above_chance(config, graphs, "label", own, counted)
        return dict(zip(counted.keys, found.tolist(), strict=True))

    near = 0.1
    found = beyond(attack(split, ATTACKER, np.random.default_rng(0)))
    surely, perhaps = (beyond(split, chance.MARGIN + d) for d in (near, -near))
    assert sum(surely.values()) >= 3
    assert all(found[key] for key in surely if surely[key])
    assert all(perhaps[key] for key in found if found[key])


def test_duplicates_are_all_graphs_twice() -> None:
    _, split = world()
    twice = attacks.duplicated(split, ATTACKER, np.random.default_rng(0)).partition
    own = split.partition.train[ATTACKER]
    np.testing.assert_array_equal(twice.train[ATTACKER], np.concatenate([own, own]))
    assert twice.train[0] is split.partition.train[0]


def test_joining_as_two_shares_the_graphs_out() -> None:
    config, split = world()
    two = attacks.in_two(split, ATTACKER, np.random.default_rng(0))
    halves = two.partition.train[ATTACKER], two.partition.train[-1]
    np.testing.assert_array_equal(np.sort(np.concatenate(halves)), split.partition.train[ATTACKER])
    assert abs(len(halves[0]) - len(halves[1])) <= 1
    simulation, history, _ = attacked(BY_NAME["join as two"], config, split)
    assert simulation.agents_each == len(set(history.names)) == 5
    both = outcome(history, (ATTACKER, 4), 1)["payoff"]
    assert both == pytest.approx(history.columns["payoff"][:, [ATTACKER, 4]].sum(axis=1).mean())


@given(seed=seeds, more=st.sampled_from([0.1, 0.5]))
@settings(max_examples=10)
def test_added_edges_are_new_and_only_in_own_training_graphs(seed: int, more: float) -> None:
    _, split = world()
    found = attacks.with_edges(split, ATTACKER, np.random.default_rng(seed), more=more)
    own = split.partition.train[ATTACKER]
    wanted = split.graphs.edges.copy()
    wanted[own] += np.ceil(more * wanted[own]).astype(int)
    np.testing.assert_array_equal(found.graphs.edges, wanted)
    before = {tuple(p) for p in split.graphs.edge_list()[0].tolist()}
    assert before <= {tuple(p) for p in found.graphs.edge_list()[0].tolist()}


def test_an_echo_is_the_last_reward() -> None:
    config, split = world(VOTES)
    simulation, _, sent = attacked(BY_NAME["echo the reward"], config, split)
    _, states, _ = simulate(config, split)
    # In the first round all are honest, so that its reward is known from an honest run.
    reward = (states[1].agents.weights - states[0].agents.weights)[ATTACKER]
    torch.testing.assert_close(sent[1].update[ATTACKER], reward, atol=1e-9, rtol=0)
    assert simulation.previous is not None
    assert not torch.equal(sent[2].update[ATTACKER], sent[1].update[ATTACKER])
    assert sent[1].gradient is not None
    torch.testing.assert_close(sent[1].gradient[ATTACKER], -sent[1].update[ATTACKER])


def test_copies_are_those_of_the_neighbour_now_or_a_round_ago() -> None:
    config, split = world(VOTES)
    _, _, sent = attacked(BY_NAME["copy another"], config, split)
    for uploads in sent:
        assert uploads.gradient is not None
        assert torch.equal(uploads.update[ATTACKER], uploads.update[ATTACKER - 1])
        assert torch.equal(uploads.gradient[ATTACKER], uploads.gradient[ATTACKER - 1])
    _, _, sent = attacked(BY_NAME["copy another, a round late"], config, split)
    for last, uploads in pairwise(sent):
        assert torch.equal(uploads.update[ATTACKER], last.update[ATTACKER - 1])


def test_a_replay_is_the_first_upload_and_a_far_reverse_comes_last() -> None:
    config, split = world()
    _, _, sent = attacked(BY_NAME["replay the first upload"], config, split)
    for uploads in sent[1:]:
        assert torch.equal(uploads.update[ATTACKER], sent[0].update[ATTACKER])
        assert not torch.equal(uploads.update[0], sent[0].update[0])
    _, _, honest = attacked(HONEST, config, split)
    _, _, sent = attacked(BY_NAME["update reversed, length 999, in the last round"], config, split)
    for uploads, wanted in zip(sent[:-1], honest[:-1], strict=True):
        assert torch.equal(uploads.update, wanted.update)
    far, own = sent[-1].update[ATTACKER], honest[-1].update[ATTACKER]
    torch.testing.assert_close(far, -999 * own / own.norm())


def test_claims_of_graphs_change_numbers_alone() -> None:
    config, split = world()
    members = prepare(config, split, seed=5)
    claimed = attacks.claiming(members, (ATTACKER,), times=2)
    servers = [Simulation(config, m, device=CPU).server for m in (members, claimed)]
    more = torch.ones(4)
    more[ATTACKER] = 2
    assert torch.equal(servers[1].graphs, servers[0].graphs * more)
    assert float(servers[1].believed[ATTACKER]) > 1.5 * float(servers[0].believed[ATTACKER])
    assert servers[1].believed[0] == servers[0].believed[0]
    assert claimed.train == members.train


def test_the_accuracy_of_others_is_without_the_attackers() -> None:
    config, split = world()
    _, history, _ = attacked(HONEST, config, split)
    last = history.columns["accuracy"][-1]
    assert outcome(history, (1, 3), 1)["others"] == pytest.approx((last[0] + last[2]) / 2)


@pytest.mark.parametrize(
    ("name", "silent"),
    [
        ("send nothing", [1, 2, 3, 4, 5, 6]),
        ("send nothing every other round", [2, 4, 6]),
        ("hold back for a third", [1, 2]),
        ("send nothing after a third", [3, 4, 5, 6]),
    ],
)
def test_silence_is_zeros_in_the_rounds_it_names(name: str, silent: list[int]) -> None:
    config, split = world(rounds=6)
    _, _, sent = attacked(BY_NAME[name], config, split)
    zero = [r for r, uploads in enumerate(sent, 1) if not uploads.update[ATTACKER].any()]
    assert zero == silent
    assert all(uploads.update[0].any() for uploads in sent)


def test_gradients_that_do_not_match_leave_the_update_alone() -> None:
    _, _, uploads = trained(**VOTES)
    assert uploads.gradient is not None
    gradient = uploads.gradient
    aggregate = torch.randn(1, gradient.shape[1], dtype=torch.float64)
    previous = attacks.PreviousRound(uploads, torch.zeros(4, 1), aggregate, torch.zeros(4))
    later = context(round=2, previous=previous)
    wanted = {
        "gradient of another": gradient[ATTACKER - 1],
        "gradient negated": -gradient[ATTACKER],
        "gradient for the aggregate": -aggregate[0],
        "gradient against the aggregate": aggregate[0],
    }
    assert set(wanted) == {a.name for a in ATTACKS if a.by_gradient}
    for name, row in wanted.items():
        sent = BY_NAME[name].uploads(uploads, later)
        assert sent.gradient is not None
        assert torch.equal(sent.update, uploads.update)
        assert torch.equal(sent.gradient[ATTACKER], row)
        assert torch.equal(sent.gradient[0], gradient[0])


def test_who_stays_away_comes_back_and_is_neither_paid_nor_judged_meanwhile() -> None:
    config, split = world(rounds=4)

    def second(context: AttackContext) -> bool:
        return context.round == 2

    _, history, _ = attacked(Attack("away", away=second), config, split)
    payoff, value = history.columns["payoff"], history.columns["value"][:, ATTACKER]
    assert payoff[1, ATTACKER] == 0
    assert value[1] == value[0]
    assert np.isnan(history.columns["alignment"][1, ATTACKER])
    assert (payoff[[0, 2, 3], ATTACKER] != 0).all()
    np.testing.assert_allclose(payoff.sum(axis=1), 1)


def test_a_bad_round_is_one_with_a_negative_alignment() -> None:
    def after(alignment: float) -> bool:
        found = torch.tensor([1.0, alignment, 1.0, 1.0])
        previous = attacks.PreviousRound(trained()[2], torch.zeros(4, 1), torch.zeros(1, 1), found)
        return attacks.after_a_bad_round(context(round=2, previous=previous))

    assert after(-0.1)
    assert not after(0.1)
    assert not after(float("nan"))
    assert not attacks.after_a_bad_round(context())


@given(
    value=st.lists(st.integers(-30, 100), min_size=2, max_size=6),
    absent=st.integers(0, 5),
)
def test_absence_is_settled_as_the_ledger_settles_it(value: list[int], absent: int) -> None:
    names = [str(k) for k in range(len(value))]
    here = [k != absent for k in range(len(value))]
    shares = {n: Share(v, 0, p) for n, v, p in zip(names, value, here, strict=True)}
    if sum(s.weight for s in shares.values()) <= 0:
        return
    budget = 10**9
    try:
        paid = settle(
            shares,
            budget=budget,
            max_penalty=10**15,
            liability=dict.fromkeys(names, 10**15),
        )
    except Unsettled:
        return
    record = {
        "value": torch.tensor(value, dtype=torch.float64),
        "compensation": torch.zeros(len(value), dtype=torch.float64),
    }
    found = settled(record, torch.tensor(here), float(budget))
    np.testing.assert_allclose(found, [paid[n] for n in names], atol=10)


@pytest.mark.parametrize("name", ["echo the reward", "copy another, a round late", "update × 10"])
def test_a_stack_is_attacked_as_its_federations_are(name: str) -> None:
    config, split = world()
    members = [prepare(config, split, seed=s) for s in (5, 6)]
    stack = Dishonest(config, members, BY_NAME[name], ATTACKER, device=CPU, dtype=torch.float64)
    histories = stack.histories()
    run_rounds(stack, stack.start(), histories)
    for seed, history in zip((5, 6), histories, strict=True):
        _, single, _ = attacked(BY_NAME[name], config, split, seed=seed)
        for column in ("payoff", "value", "kept"):
            np.testing.assert_allclose(history.columns[column], single.columns[column], atol=1e-9)


def test_a_study_goes_on_where_it_stopped_and_honesty_is_its_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RULES, "default", {**RULES["default"], **VOTES})  # type: ignore[misc]
    options = {"agents": 4, "hidden": 8, "partition": "iid"}
    cases = [Case("planted", 0, "good", options)]
    chosen = [
        Attack("just as honest", uploads=partial(attacks.scaled, by=1.0)),
        BY_NAME["send nothing"],
        BY_NAME["stay away after bad rounds"],
        BY_NAME["gradient negated"],
    ]
    how = Settings(out=tmp_path, splits=2, rounds=2, device="cpu", threads=1)
    with pytest.raises(Stopped):
        explore(replace(how, stop=lambda: True), cases, chosen)
    found = explore(how, cases, chosen)
    assert len(list((tmp_path / "runs" / "manipulation").glob("*.csv"))) == 9
    gain = found.tables["gain"].set_index(["attack", "rule"])
    assert ("gradient negated", "literal") not in gain.index
    for rule in ("literal", "default"):
        same = gain.loc[("just as honest", rule)]
        assert same["difference"] == same["low"] == same["high"] == 0
        assert same["verdict"] == "no difference"
        assert gain.loc[("send nothing", rule)]["difference"] < 0
    # All is there now, so that nothing runs that could be stopped.
    again = explore(replace(how, stop=lambda: True), cases, chosen)
    assert again.tables["gain"].equals(found.tables["gain"])
    assert {p.name for p in found.write(tmp_path / "out")} >= {"gain.csv", "gain.png", "README.md"}
    with pytest.raises(Stopped):
        explore(replace(how, rounds=3, stop=lambda: True), cases, chosen)


def test_splits_go_side_by_side_as_far_as_memory_goes() -> None:
    config, split = world()
    members = [prepare(config, split, seed=s) for s in range(5)]
    plan = replace(make_plan("planted", {"agents": 4, "partition": "iid"}), config=config)
    each = memory_needed(config, members[0])
    assert list(stacks(replace(plan, memory=0), members, alone=False)) == [[0], [1], [2], [3], [4]]
    two = replace(plan, memory=int(2.5 * each))
    assert list(stacks(two, members, alone=False)) == [[0, 1], [2, 3], [4]]
    assert list(stacks(two, members, alone=True)) == [[0], [1], [2], [3], [4]]
