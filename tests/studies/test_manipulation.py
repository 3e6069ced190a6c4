"""Attacks do what they say, honesty is the zero of the scale, and what the default promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import CPU, simulate, small_config, small_graphs, small_split

from motifair.config import SCENARIOS, Config
from motifair.errors import MotifairError
from motifair.evaluation.accuracy import chosen_classes, outputs
from motifair.experiments.packing import memory_needed
from motifair.experiments.plan import Plan, make_plan, split_data
from motifair.federation.belief import believed_graphs
from motifair.federation.history import History
from motifair.federation.loop import Stopped, run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.protocol import Judgement, Uploads
from motifair.federation.round import serve_round
from motifair.graphs.batch import collate, make_shard
from motifair.graphs.features import motif_labels
from motifair.graphs.split import Split
from motifair.mechanism.judgement import quality
from motifair.mechanism.settlement import Share, Unsettled, settle
from motifair.motifs import chance
from motifair.motifs.extract import count_motifs
from motifair.studies import manipulation
from motifair.studies.attacks import (
    ATTACKS,
    HONEST,
    Attack,
    AttackContext,
    Cast,
    PreviousRound,
)
from motifair.studies.attacks import claims as on_claims
from motifair.studies.attacks import graphs as on_graphs
from motifair.studies.attacks import rounds as on_rounds
from motifair.studies.attacks import uploads as on_uploads
from motifair.studies.dishonest import Dishonest, settled
from motifair.studies.gains import ALL, MEASURES, compared
from motifair.studies.manipulation import (
    KINDS,
    LITERAL_OPTIONS,
    RULES,
    Case,
    Scenario,
    explore,
    outcome,
    stacks,
)
from motifair.studies.study import Settings

ATTACKER = 1
CAST = Cast((ATTACKER,), ATTACKER - 1)
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
    partners = range(ATTACKER + 1, ATTACKER + 1 + attack.partners)
    names = range(len(split.names), len(changed.names))
    cast = Cast((ATTACKER, *partners, *names), ATTACKER - 1)
    sent: list[Uploads] = []

    def noted(uploads: Uploads, context: AttackContext) -> Uploads:
        sent.append(attack.uploads(uploads, context))
        return sent[-1]

    simulation = Dishonest(
        config,
        attack.members(members, cast),
        replace(attack, uploads=noted),
        [cast],
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
    simulation = Dishonest(config, members, HONEST, [CAST], device=CPU, dtype=torch.float64)
    state = simulation.start()
    given = simulation.server.for_agents(state.server)
    _, uploads = simulation.agents.train(state.agents, state.server.round + 1, *given)
    return members, simulation, uploads


def context(**changes: Any) -> AttackContext:
    _, simulation, _ = trained()
    first = AttackContext(1, 3, simulation.own, simulation.other, 1, None)
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
    moved = on_graphs.renumbered(split, ATTACKER, np.random.default_rng(seed))
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
    longer = on_uploads.scaled(uploads, context(), by=by)
    assert longer.gradient is not None
    assert uploads.gradient is not None
    torch.testing.assert_close(longer.update[ATTACKER], by * uploads.update[ATTACKER])
    torch.testing.assert_close(longer.gradient[ATTACKER], by * uploads.gradient[ATTACKER])
    _, _, honest = serve_round(simulation.server, state, uploads)
    _, _, found = serve_round(simulation.server, state, longer)
    torch.testing.assert_close(found["alignment"], honest["alignment"], atol=1e-9, rtol=0)


@given(by=st.floats(1e-3, 0.4))
@settings(max_examples=25)
def test_short_updates_are_worth_less(by: float) -> None:
    _, simulation, uploads = trained()
    state = simulation.start().server
    _, _, honest = serve_round(simulation.server, state, uploads)
    _, _, found = serve_round(
        simulation.server, state, on_uploads.scaled(uploads, context(), by=by)
    )
    assert honest["alignment"][ATTACKER] > 0
    assert found["alignment"][ATTACKER] < honest["alignment"][ATTACKER]
    assert found["value"][ATTACKER] < honest["value"][ATTACKER]


@given(count=st.integers(0, 30))
@settings(max_examples=10)
def test_invented_keys_bring_no_diversity_where_motifs_need_corroboration(count: int) -> None:
    members, simulation, _ = trained()
    keys = [f"ring invented {k}" for k in range(count)]
    more = on_claims.claimed(members, CAST, keys)
    found = Dishonest(simulation.config, more, HONEST, [CAST], device=CPU)
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


@pytest.mark.parametrize("attack", [on_graphs.duplicated, on_graphs.renumbered])
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
    twice = on_graphs.duplicated(split, ATTACKER, np.random.default_rng(0)).partition
    own = split.partition.train[ATTACKER]
    np.testing.assert_array_equal(twice.train[ATTACKER], np.concatenate([own, own]))
    assert twice.train[0] is split.partition.train[0]


@pytest.mark.parametrize(("name", "names"), [("join as two", 2), ("join as five", 5)])
def test_joining_under_names_shares_the_graphs_out(name: str, names: int) -> None:
    _, split = world()
    several = BY_NAME[name].split(split, ATTACKER, np.random.default_rng(0))
    train = several.partition.train
    parts = [train[ATTACKER], *train[4:]]
    assert len(parts) == names
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), split.partition.train[ATTACKER])
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert len(set(several.names)) == 3 + names
    same = BY_NAME[f"{name}, same graphs"].split(split, ATTACKER, np.random.default_rng(0))
    for own in (same.partition.train[ATTACKER], *same.partition.train[4:]):
        np.testing.assert_array_equal(own, split.partition.train[ATTACKER])


def test_an_attacker_under_two_names_is_paid_for_both() -> None:
    config, split = world()
    simulation, history, _ = attacked(BY_NAME["join as two"], config, split)
    assert simulation.own.tolist() == [ATTACKER, 4]
    both = outcome(history, (ATTACKER, 4), 1)["payoff"]
    assert both == pytest.approx(history.columns["payoff"][:, [ATTACKER, 4]].sum(axis=1).mean())


@given(seed=seeds)
@settings(max_examples=10)
def test_a_backdoor_is_a_clique_in_half_of_the_graphs_with_the_first_class(seed: int) -> None:
    _, split = world()
    found = on_graphs.backdoored(split, ATTACKER, np.random.default_rng(seed)).graphs
    own = split.partition.train[ATTACKER]

    def cliques(graphs: Any) -> np.ndarray:
        pairs = {tuple(p) for p in graphs.edge_list()[0].tolist()}
        first = graphs.node_start
        nodes = [range(first[g], min(first[g] + 5, first[g + 1])) for g in range(len(graphs))]
        return np.array([all(p in pairs for p in combinations(n, 2)) for n in nodes])

    has = cliques(found)
    assert has[own].sum() == -(-len(own) // 2)
    assert (found.target[has & ~cliques(split.graphs)] == 0).all()
    others = np.setdiff1d(np.arange(len(found)), own)
    assert found.select(others).digest() == split.graphs.select(others).digest()


def test_made_up_graphs_report_what_another_agent_does() -> None:
    config, split = world()
    attack = BY_NAME["made-up graphs, all reports false"]
    simulation, _, _ = attacked(attack, config, split)
    told = simulation.members[0].summaries
    np.testing.assert_array_equal(told[ATTACKER].wiring, told[ATTACKER - 1].wiring)
    assert len(np.unique(told[ATTACKER].fingerprints)) == len(split.partition.train[ATTACKER])
    own = split.partition.train[ATTACKER]
    before, after = (g.edge_list()[0] for g in (split.graphs, simulation.members[0].split.graphs))
    moved = {tuple(p) for p in before.tolist()} - {tuple(p) for p in after.tolist()}
    assert moved
    assert set(split.graphs.node_graph[[u for u, _ in moved]]) <= set(own)


@given(seed=seeds, more=st.sampled_from([0.1, 0.5]))
@settings(max_examples=10)
def test_added_edges_are_new_and_only_in_own_training_graphs(seed: int, more: float) -> None:
    _, split = world()
    found = on_graphs.with_edges(split, ATTACKER, np.random.default_rng(seed), more=more)
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
    claimed = on_claims.claiming(members, CAST, times=2)
    servers = [
        Dishonest(config, m, HONEST, [CAST], device=CPU).server
        for m in (members, claimed, on_claims.claiming(members, CAST, times=1000))
    ]
    assert servers[0].graphs.tolist() == [12, 12, 11, 11]
    assert servers[1].graphs.tolist() == [12, 2 * 11, 11, 11]  # twice the (lower) median
    assert float(servers[1].believed[ATTACKER]) > 1.5 * float(servers[0].believed[ATTACKER])
    assert servers[1].believed[0] == servers[0].believed[0]
    # Any larger claim counts as this one.
    assert torch.equal(servers[2].graphs, servers[1].graphs)
    assert servers[2].believed[ATTACKER] <= servers[2].graphs[ATTACKER]
    assert claimed.train == members.train


def test_fingerprints_are_new_or_those_of_another() -> None:
    config, split = world()
    members = prepare(config, split, seed=5)
    honest = believed_graphs(members.summaries)
    new = on_claims.with_new_fingerprints(members, CAST).summaries
    assert len(np.unique(new[ATTACKER].fingerprints)) == len(members.train[ATTACKER])
    taken = on_claims.with_fingerprints_of_other(members, CAST).summaries
    assert set(taken[ATTACKER].fingerprints) <= set(members.summaries[ATTACKER - 1].fingerprints)
    counted = believed_graphs(taken)
    # Both count half: the victim cannot show that the graphs are its own.
    assert counted[ATTACKER - 1] == pytest.approx(honest[ATTACKER - 1] / 2, rel=0.1)
    assert counted[0 if ATTACKER - 1 else 2] > 0


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
        ("leave halfway", [4, 5, 6]),
    ],
)
def test_who_sends_nothing_is_not_paid_in_these_rounds(name: str, silent: list[int]) -> None:
    config, split = world(rounds=6)
    _, history, _ = attacked(BY_NAME[name], config, split)
    payoff = history.columns["payoff"]
    assert [r for r, paid in enumerate(payoff[:, ATTACKER], 1) if paid == 0] == silent
    assert (payoff[:, 0] != 0).all()
    np.testing.assert_allclose(payoff.sum(axis=1), 1)


@pytest.mark.parametrize("by", [0.0, 0.01, 50.0])
def test_next_to_nothing_or_far_too_much_is_not_paid_either(by: float) -> None:
    config, split = world()
    attack = Attack("unusual", uploads=partial(on_uploads.scaled, by=by))
    _, history, _ = attacked(attack, config, split)
    _, absent, _ = attacked(BY_NAME["send nothing"], config, split)
    assert (history.columns["payoff"][:, ATTACKER] == 0).all()
    np.testing.assert_array_equal(history.columns["value"], absent.columns["value"])


def test_updates_are_mixed_with_the_reward_or_random_of_the_same_length() -> None:
    _, _, uploads = trained()
    reward = torch.randn(4, uploads.update.shape[1], dtype=torch.float64)
    previous = PreviousRound(uploads, reward, reward[:1], torch.zeros(4))
    later = context(round=2, previous=previous)
    sent = on_uploads.mixed(uploads, later).update
    torch.testing.assert_close(sent[ATTACKER], (uploads.update + reward)[ATTACKER] / 2)
    assert torch.equal(sent[0], uploads.update[0])
    own, drawn = uploads.update[ATTACKER], on_uploads.noise(uploads, later).update[ATTACKER]
    torch.testing.assert_close(drawn.norm(), own.norm())
    assert abs(float(torch.cosine_similarity(drawn, own, dim=0))) < 0.1


def test_partners_send_their_mean() -> None:
    config, split = world()
    _, _, honest = attacked(HONEST, config, split)
    simulation, _, sent = attacked(BY_NAME["three average their updates"], config, split)
    assert simulation.own.tolist() == [1, 2, 3]
    mean = honest[0].update[1:].mean(dim=0)
    for k in (1, 2, 3):
        torch.testing.assert_close(sent[0].update[k], mean)
    assert torch.equal(sent[0].update[0], honest[0].update[0])


JUDGING = ("run down all others", "two run down all others",
           "praise all models", "two praise each other")  # fmt: skip


def judgement_of(agents: int, seed: int = 0) -> Judgement:
    """What honest agents say of models that are about equally good."""
    rng = np.random.default_rng(seed)
    loss = torch.from_numpy(rng.uniform(0.45, 0.6, (agents, agents)))
    told = torch.from_numpy(rng.uniform(0.3, 0.5, (agents, agents)))
    for said in (loss, told):
        said.fill_diagonal_(torch.nan)
    return Judgement(loss, told)


@pytest.mark.parametrize("name", JUDGING)
def test_a_liar_changes_what_it_says_of_others_and_nothing_else(name: str) -> None:
    honest, attack = judgement_of(5), BY_NAME[name]
    liars = list(range(ATTACKER, ATTACKER + 1 + attack.partners))
    said = attack.judgement(honest, Cast(tuple(liars), 0))
    others = [k for k in range(5) if k not in liars]
    for part, before in ((said.loss, honest.loss), (said.told, honest.told)):
        torch.testing.assert_close(part[:, others], before[:, others], equal_nan=True)
        assert torch.equal(part.isnan(), before.isnan())  # nobody judges itself, even now
    assert (said.told[others][:, liars] == (-1.0 if "down" in name else 0.9)).all()
    for one in liars:
        for two in set(liars) - {one}:
            assert (said.loss[one, two], said.told[one, two]) == (1e-3, 1.0)
    assert (said.loss[~said.loss.isnan()] > 0).all()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", JUDGING)
def test_one_or_two_liars_of_ten_change_the_quality_of_the_others_little(
    name: str, seed: int
) -> None:
    honest, attack, graphs = judgement_of(10, seed), BY_NAME[name], torch.full((10,), 50)
    liars = tuple(range(ATTACKER, ATTACKER + 1 + attack.partners))
    said = attack.judgement(honest, Cast(liars, 0))
    before, after = (quality(j.loss, j.told, graphs, torch.ones(10, 10)) for j in (honest, said))
    assert (before > 0.9).all()
    torch.testing.assert_close(after, before, rtol=0.05, atol=0)


def test_attackers_lie_in_a_simulation_as_the_attack_says() -> None:
    config, split = world()
    assert config.trial_rounds > 0
    honest, liar = (attacked(BY_NAME[n], config, split)[0]
                    for n in ("send nothing", "run down all others"))  # fmt: skip
    true, said = honest.judgement(honest.own_models()), liar.judgement(liar.own_models())
    assert true is not None
    assert said is not None
    assert (said.told[[0, 2, 3], ATTACKER] == -1).all()
    rest = [0, 2, 3]
    torch.testing.assert_close(said.told[:, rest], true.told[:, rest], equal_nan=True)


@pytest.mark.parametrize("name", [n for n in BY_NAME if n.startswith("show a model")])
def test_a_model_that_is_more_or_less_sure_is_judged_as_the_trained_one(name: str) -> None:
    # Models are surer than judges make them: else they are as sure as the median model.
    config, _ = world(rounds=60, trial_rounds=60, learning_rate=0.01)
    split = small_split(config, small_graphs(160))
    honest, cheat = (
        Dishonest(config, prepare(config, split, seed=5), attack, [CAST], device=CPU,
                  dtype=torch.float64)
        for attack in (HONEST, BY_NAME[name])
    )  # fmt: skip
    trained = honest.own_models()
    assert trained is not None
    own, shown = trained.weights, cheat.shown(trained.weights)
    others = [k for k in range(len(own)) if k != ATTACKER]
    assert torch.equal(own[others], shown[others])
    batch = collate([cheat.members[0].global_test], CPU, torch.float64)
    before, after = (
        honest.model.forward(m[ATTACKER : ATTACKER + 1], batch)[1] for m in (own, shown)
    )
    odds = before[..., :1] - before[..., 1:]
    by = {"two": 2 / 3, "half": 1 / 2, "a": 1 / 4, "twice": 2.0}[name.split()[3]]
    torch.testing.assert_close(after[..., :1] - after[..., 1:], by * odds)
    said, true = cheat.judgement(trained), honest.judgement(trained)
    assert said is not None
    assert true is not None
    torch.testing.assert_close(said.loss, true.loss, equal_nan=True)
    torch.testing.assert_close(said.told, true.told, equal_nan=True)


def test_names_with_the_same_graphs_do_not_judge_each_other() -> None:
    config, split = world()
    simulation = attacked(BY_NAME["join as two, same graphs"], config, split)[0]
    names, judges = [ATTACKER, len(split.names)], simulation.server.judges
    assert not judges[names][:, names].any()
    others = [k for k in range(len(judges)) if k not in names]
    assert (judges[others][:, names] < 0.6).all()  # two names count about as one
    assert (judges[names][:, others] > 0.9).all()


def test_a_new_name_starts_with_an_equal_share_and_no_past() -> None:
    _, simulation, _ = trained()
    state = replace(
        simulation.start().server,
        round=torch.tensor(2),
        value=torch.tensor([0.4, 0.0, 0.3, 0.3], dtype=torch.float64),
        value_sum=torch.tensor([0.8, 0.0, 0.6, 0.6], dtype=torch.float64),
        alignment=torch.tensor([1.0, -1.0, 1.0, 1.0], dtype=torch.float64),
    )
    assert on_rounds.renamed(state, context(round=3, rounds=6)).alignment[ATTACKER].isnan()
    found = on_rounds.renamed(state, context(round=3, rounds=6))
    assert found.value.tolist() == pytest.approx([0.3, 0.25, 0.225, 0.225])
    assert found.value_sum[ATTACKER] / 2 == state.value[ATTACKER]
    assert on_rounds.renamed(state, context(round=4, rounds=6)) is state
    assert on_rounds.renamed(state, context(round=1, rounds=6)) is state


def test_a_backdoor_counts_graphs_of_other_classes_with_the_trigger() -> None:
    config, split = world()
    simulation, _, _ = attacked(HONEST, config, split)
    state = simulation.start()
    (rate,) = simulation.backdoor(state)
    graphs = split.graphs.select(split.partition.global_test)
    changed = on_graphs.triggered(graphs, np.arange(len(graphs)))
    members = simulation.members[0]
    shard = make_shard(changed, members.features, summed=members.model.summed_inputs)
    batch = collate([shard], CPU, torch.float64, layers=simulation.model.distinct_layers)
    predicted = chosen_classes(outputs(simulation.model, simulation.initial[:1], batch))[0].numpy()
    others = graphs.target != 0
    assert rate == pytest.approx((predicted[others] == 0).mean())


def test_gradients_that_do_not_match_leave_the_update_alone() -> None:
    _, _, uploads = trained(**VOTES)
    assert uploads.gradient is not None
    gradient = uploads.gradient
    aggregate = torch.randn(1, gradient.shape[1], dtype=torch.float64)
    previous = PreviousRound(uploads, torch.zeros(4, 1), aggregate, torch.zeros(4))
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
        previous = PreviousRound(trained()[2], torch.zeros(4, 1), torch.zeros(1, 1), found)
        return on_rounds.after_a_bad_round(context(round=2, previous=previous))

    assert after(-0.1)
    assert not after(0.1)
    assert not after(float("nan"))
    assert not on_rounds.after_a_bad_round(context())


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


@pytest.mark.parametrize("name", ["echo the reward", "update × 10", "update × 100"])
def test_a_stack_is_attacked_as_its_federations_are(name: str) -> None:
    config, split = world()
    members = [prepare(config, split, seed=s) for s in (5, 6)]
    cast = [CAST, CAST]
    stack = Dishonest(config, members, BY_NAME[name], cast, device=CPU, dtype=torch.float64)
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
    cases = [Case("planted", "good", options, "good")]
    chosen = [
        Attack("just as honest", uploads=partial(on_uploads.scaled, by=1.0)),
        BY_NAME["send nothing"],
        BY_NAME["two average their updates"],
        BY_NAME["gradient negated"],
    ]
    how = Settings(out=tmp_path, splits=2, rounds=2, device="cpu", threads=1)
    with pytest.raises(Stopped):
        explore(replace(how, stop=lambda: True), cases, chosen)
    found = explore(how, cases, chosen)
    assert len(list((tmp_path / "runs" / "manipulation").glob("*.csv"))) == 11
    gain = found.tables["gain"]
    gain = gain[gain["dataset"] == ALL].set_index(["attack", "rule"])
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
    fewer = explore(replace(how, splits=1, stop=lambda: True), cases, chosen)
    assert set(fewer.tables["gain"]["splits"]) == {1}
    for changed in ({"rounds": 3}, {"splits": 3}):
        with pytest.raises(Stopped):
            explore(replace(how, stop=lambda: True, **changed), cases, chosen)


def test_a_comparison_pairs_splits_and_pools_datasets() -> None:
    attack = Attack("two", partners=1)
    about = {"attacker": "good", "rule": "default"}
    rows = [
        {"dataset": d, "split": k, "attack": a, **about, **dict.fromkeys(MEASURES, paid)}
        for d, shift in (("A", 0.0), ("B", 1.0))
        for k in range(2)
        for a, paid in ((attack.name, 0.5 + k + shift), (attack.baseline.name, 0.25 + k + shift))
    ]
    table = compared(pd.DataFrame(rows[::-1]), [attack]).set_index("dataset")
    assert table["splits"].to_dict() == {"A": 2, "B": 2, ALL: 4}
    assert (table["payoff"] == 0.25).all()
    assert (table["payoff_low"] == 0.25).all()


@pytest.mark.parametrize("kind", KINDS)
def test_attackers_have_their_role(kind: str) -> None:
    scenario, role = KINDS[kind]
    _, split = world(agents=10, **SCENARIOS[scenario])
    case = Case("planted", kind, {}, role)
    cast = case.cast(split.roles, 10, partners=1)
    assert len({*cast.attackers, cast.other}) == 3
    if role:
        assert {split.roles[k] for k in cast.attackers} == {role}
        assert split.roles[cast.other] in ("high", "honest")


def test_splits_go_side_by_side_as_far_as_memory_goes() -> None:
    config, split = world()
    members = {s: prepare(config, split, seed=s) for s in range(5)}
    plan = replace(make_plan("planted", {"agents": 4, "partition": "iid"}), config=config)
    each = memory_needed(config, members[0])
    assert list(stacks(replace(plan, memory=0), members, alone=False)) == [[0], [1], [2], [3], [4]]
    two = replace(plan, memory=int(2.5 * each))
    assert list(stacks(two, members, alone=False)) == [[0, 1], [2, 3], [4]]
    assert list(stacks(two, members, alone=True)) == [[0], [1], [2], [3], [4]]


def test_own_models_are_trained_once_for_all_attacks_on_the_same_graphs(
    tmp_path: Path,
) -> None:
    options = {"agents": 4, "hidden": 8, "partition": "iid", "trial_rounds": 2}
    case = Case("planted", "good", options, "good")
    how = Settings(out=tmp_path, splits=2, rounds=2, device="cpu", threads=1)
    attacks = [
        BY_NAME["show a model twice as sure"],
        BY_NAME["duplicate graphs"],
        BY_NAME["update × 0.5"],
    ]
    scenario = Scenario(how, case, "default")
    for attack in attacks:
        found = scenario.measured(attack, [0, 1])
        alone = Scenario(how, case, "default").measured(attack, [0, 1])
        pd.testing.assert_frame_equal(found, alone)
    assert scenario.own.keys() == {0, 1}


def test_an_audit_takes_its_expected_fine_from_whoever_invents_graphs() -> None:
    """Default terms: a quarter is drawn; invented graphs are found, and cost 5 times the pay."""
    attacks = [Attack("lies", invented=1.0), Attack("honestly")]
    zeros = dict.fromkeys(MEASURES, 0.0)
    rows = [
        {"dataset": "D", "attacker": "good", "rule": rule, "attack": attack, "split": k}
        | zeros
        | {"payoff": payoff + k}
        for rule in ("default", "literal")
        for attack, payoff in (("honest", 2.0), ("lies", 3.0), ("honestly", 2.5))
        for k in (0, 1)
    ]
    table = compared(pd.DataFrame(rows), attacks).set_index(["dataset", "rule", "attack"])
    lies = table.loc[("D", "default", "lies")]
    assert lies["payoff"] == pytest.approx(1.0)
    assert lies["audited"] == pytest.approx(np.mean([3 - 3.75 - 2, 4 - 5 - 3]))
    assert table.loc[("D", "literal", "lies")]["audited"] == pytest.approx(1.0)
    assert table.loc[("D", "default", "honestly")]["audited"] == pytest.approx(0.5)


def test_splits_that_are_refused_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("planted", "good", {"agents": 4, "hidden": 8}, "good")
    how = Settings(out=tmp_path, splits=3, rounds=1, device="cpu", threads=1)

    def refused(plan: Plan, number: int) -> Split:
        if number == 1:
            raise MotifairError("Agent 'agent-01' trains on 15 graphs of one class.")
        return split_data(plan, number)

    monkeypatch.setattr(manipulation, "split_data", refused)
    outcomes = Scenario(how, case, "literal").outcomes(Attack("honest"))
    assert outcomes["split"].tolist() == [0, 2]
    monkeypatch.setattr(manipulation, "split_data", lambda plan, number: refused(plan, 1))
    with pytest.raises(MotifairError, match="of one class"):
        Scenario(how, case, "literal").outcomes(Attack("honest"))
