"""An absent member keeps its value, is paid nothing and still pays penalties; others continue."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from deployed import NAMES, VOTED, Answer, Away, Meddle, World, away, opened, sealed, terms_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import naive

from motifair.consortium import rounds as rounds_module
from motifair.consortium.agent import LOST
from motifair.consortium.run_state import JoinedMember
from motifair.consortium.wire import Download
from motifair.federation.protocol import Uploads
from motifair.federation.round import serve_round
from motifair.motifs.vocabulary import MotifIndex
from motifair.statements.accounts import Accounts
from motifair.statements.entry import Entry
from motifair.statements.verification import verify

ME = "bank-d"
POOR = "bank-a"  # the member with the smallest value
OTHERS = NAMES[:-1]
ONE = 10**12
FOLDERS = TemporaryDirectory()
NUMBERS = count()
FAST = {
    **VOTED, "value_rate": 1.0, "alignment_rate": 1.0, "diversity_weight": 0.0,
    "value_update": "ema",
}  # values turn at once  # fmt: skip

VALUED: dict[str, dict[str, Any]] = {
    "alignment": {"alignment_against": "others", "initial_value": "equal"},  # moves in every round
    "coverage": {},  # may stay as it is
}


def new_world(meddle: Meddle, **options: Any) -> World:
    return World(Path(FOLDERS.name) / str(next(NUMBERS)), terms_of(**options), meddle)


def finished(meddle: Meddle, **options: Any) -> World:
    world = new_world(meddle, **options)
    assert world.drive()
    return world


@cache
def absent_in_2(valued: str = "alignment") -> World:
    """Only `ME` is absent, in round 2 of 4; not changed by any test."""
    return finished(away({ME: {2}}), **VALUED[valued])


def paid(entry: Entry) -> dict[str, int]:
    return {line.agent: line.payoff for line in entry.lines}


# Value


def test_an_absent_agent_keeps_its_value_to_the_last_digit() -> None:
    world = absent_in_2()
    line = world.line(2, ME)
    assert (line.status, line.reason) == ("absent", "no answer today")
    assert line.value == world.line(1, ME).value
    assert (line.alignment, line.kept, line.upload, line.signature) == (None, 0, "", "")
    assert line.diversity == world.line(1, ME).diversity


def test_the_present_share_what_is_left_of_one() -> None:
    world = absent_in_2()
    before, after = world.values(1), world.values(2)
    assert abs(sum(after.values()) - ONE) <= 1000
    assert all(after[name] != before[name] for name in OTHERS)
    assert abs(sum(after[n] for n in OTHERS) - sum(before[n] for n in OTHERS)) <= 10


@pytest.mark.parametrize("valued", VALUED)
def test_the_present_are_valued_as_if_there_were_no_others(valued: str) -> None:
    """A server without the absent member values the others in the same proportions."""
    world = absent_in_2(valued)
    world_of_one_round = new_world(away({}), **VALUED[valued])
    world_of_one_round.drive(rounds=1)
    checkpoint = world_of_one_round.checkpoint()
    roster = [j for j in checkpoint.roster if j.name != ME]
    coordinator = world.coordinator()
    before = checkpoint.server
    kept = torch.tensor([j.name != ME for j in checkpoint.roster])
    rest = before.value[kept].sum()
    server = coordinator.server(roster)
    # What an agent's graphs are worth depends on all members, as diversity does.
    whole = coordinator.server(checkpoint.roster)
    server.diversity, server.believed = whole.diversity[kept], whole.believed[kept]
    sent = [world.upload(j.name, 2) for j in roster]
    start = server.start(before.weights)
    state, _, _ = serve_round(
        server,
        replace(
            start,
            round=before.round,
            value=before.value[kept] / rest,
            alignment=before.alignment[kept],
            worth=before.worth[kept],
        ),
        Uploads(
            update=torch.from_numpy(np.stack([u.update for u in sent])),  # type: ignore[arg-type]
            gradient=None,
            gradient_norm=torch.zeros(3),
            prototypes=torch.from_numpy(np.concatenate([u.prototypes for u in sent])),  # type: ignore[arg-type]
            loss=torch.zeros(3),
        ),
    )
    values = np.array([world.values(2)[j.name] / ONE for j in roster])
    np.testing.assert_allclose(values, (state.value * rest).numpy(), atol=2e-12)


def test_history_is_as_if_the_round_had_not_been() -> None:
    riser = "bank-c"
    world = finished(away({riser: {2}}), **VALUED["alignment"])
    first, third, fourth = (world.line(t, riser).value for t in (1, 3, 4))
    assert world.line(2, riser).compensation == 0
    assert world.line(3, riser).compensation == max(third - first, 0) > 0
    assert world.line(4, riser).compensation == max(fourth - (first + third) // 2, 0)


def voted(world: World, t: int, there: Sequence[str], values: Sequence[float]) -> list[float]:
    """Return the alignments of those who were there, by the votes that count as much as `values`
    say; all take one step in a round.
    """
    sent = [world.upload(name, t) for name in there]
    steps = [torch.from_numpy(u.update) for u in sent]  # type: ignore[arg-type]
    wishes = [torch.from_numpy(u.gradient) for u in sent]  # type: ignore[arg-type]
    return naive.peer_alignments(steps, wishes, values, naive.reaches(steps, [1.0] * len(sent)))


def test_an_absent_agent_keeps_its_running_alignment_and_goes_on_from_it() -> None:
    world = new_world(away({ME: {2}}), **VOTED | {"alignment_rate": 0.25})
    servers = []
    for _ in range(3):
        world.drive(rounds=1)
        servers.append(world.checkpoint().server)
    first, second, third = (server.alignment for server in servers)
    assert first.isfinite().all()
    assert first[3] == second[3] != third[3]
    for t, before, after, there in ((2, first, second, OTHERS), (3, second, third, NAMES)):
        values = servers[t - 2].value[: len(there)].tolist()
        for k, phi in enumerate(voted(world, t, there, values)):
            assert float(after[k]) == pytest.approx(0.75 * float(before[k]) + 0.25 * phi)


def test_who_was_away_in_the_first_round_has_no_alignment_yet() -> None:
    world = new_world(away({ME: {1}}), **VOTED)
    world.drive(rounds=1)
    server = world.checkpoint().server
    assert server.alignment.isnan().tolist() == [False, False, False, True]
    world.drive(rounds=1)
    phi = voted(world, 2, NAMES, server.value.tolist())[3]
    assert float(world.checkpoint().server.alignment[3]) == pytest.approx(phi)


# Money


def test_an_absent_agent_of_positive_value_is_paid_nothing_and_the_budget_goes_to_the_others() -> (
    None
):
    entry = absent_in_2().rounds()[1]
    assert entry.settled
    assert paid(entry)[ME] == 0
    assert all(paid(entry)[name] > 0 for name in OTHERS)
    assert sum(paid(entry).values()) == entry.budget == 10_000


def harmful_then_away(late: bool) -> Meddle:
    """`ME` sends the opposite of its update, and is absent once its value is negative."""
    elsewhere = away({ME: {3, 4}}, late=late)

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if name != ME or task.round != 2:
            return elsewhere(name, task, answer)
        upload = opened(answer())
        assert upload.update is not None
        return sealed(replace(upload, update=-upload.update))

    return meddle


@pytest.mark.parametrize("late", [False, True])
def test_a_negative_value_pays_its_penalty_while_absent(late: bool) -> None:
    world = finished(harmful_then_away(late), **FAST)
    assert world.line(2, ME).value < 0
    for t in (3, 4):
        entry = world.rounds()[t - 1]
        assert world.line(t, ME).status == "absent"
        assert world.line(t, ME).value == world.line(2, ME).value
        assert world.line(t, ME).payoff < 0
        assert sum(paid(entry).values()) == entry.budget
    assert -sum(paid(e)[ME] for e in world.rounds() if paid(e)[ME] < 0) <= 5000
    assert verify(world.entries()).fits


def test_an_absent_agent_pays_at_most_what_the_terms_say_in_all() -> None:
    world = finished(harmful_then_away(False), **FAST, money={"max_total_penalty": "10.00"})
    fines = [-min(paid(e)[ME], 0) for e in world.rounds()]
    assert sum(fines) == 1000
    assert max(fines) < 1000


# Reward, aggregation, prototypes


def test_the_server_moves_by_what_the_present_sent_alone() -> None:
    world = new_world(away({ME: {2}}))
    world.drive(rounds=1)
    before, roster = world.checkpoint().server, world.checkpoint().roster
    world.drive(rounds=1)
    after = world.checkpoint().server
    rows = [world.upload(name, 2).update for name in OTHERS]
    updates = torch.from_numpy(np.stack(rows)).double()  # type: ignore[arg-type]
    assert [j.name for j in roster[:3]] == list(OTHERS)
    assert (before.value > 0).all()
    short = naive.usual_over_length(list(updates), [1.0] * 3)
    weights = naive.normalised(
        [j.graphs * min(1.0, x) for j, x in zip(roster[:3], short, strict=True)]
    )
    mean = naive.weighted_sum(weights, list(updates))
    wanted = naive.stretched(mean, list(updates), weights, [1.0] * 3).float().double()
    assert float(wanted.norm()) > 1.05 * float(mean.norm())
    step = world.coordinator().method.reward_step
    torch.testing.assert_close(after.weights, before.weights + step * wanted, rtol=0, atol=1e-12)


def test_prototypes_are_the_means_of_those_who_are_present() -> None:
    world = new_world(away({ME: {2}}))
    world.drive(rounds=1)
    before = world.checkpoint()
    world.drive(rounds=1)
    after = world.checkpoint()
    keys = MotifIndex.of([j.motifs for j in after.roster]).keys
    own = {j.name: {m: k for k, m in enumerate(j.motifs)} for j in after.roster}
    value = {n: max(v / ONE, 0.0) for n, v in world.values(2).items()}
    only_mine = 0
    for k, key in enumerate(keys):
        owners = [n for n in OTHERS if key in own[n]]
        prototype = after.server.prototypes[k].numpy()
        if not owners:
            only_mine += 1
            np.testing.assert_array_equal(prototype, before.server.prototypes[k].numpy())
            continue
        sent = {n: world.upload(n, 2).prototypes[own[n][key]] for n in owners}  # type: ignore[index]
        total = sum(value[n] for n in owners)
        mean = sum(value[n] * sent[n].astype(float) for n in owners) / total
        np.testing.assert_allclose(prototype, mean, rtol=1e-6, atol=1e-9)
    assert only_mine > 0  # a late agent has motifs that no other member has


@pytest.mark.parametrize("late", [False, True])
def test_a_missed_reward_is_forfeited_and_motifair_goes_on_from_its_own_model(late: bool) -> None:
    world = new_world(away({ME: {2}}, late=late))
    world.drive(rounds=3)
    task = world.task(ME, 3)
    assert task.weights is None
    assert task.reward is not None
    assert not task.reward.any()
    assert task.retained == 1.0
    assert world.task(ME, 2).reward.any()  # type: ignore[union-attr]
    # Its late training is kept; it had its reward of round 1 then, and no other.
    worked = 2 if late else 1
    shared = world.coordinator().shared
    assert torch.equal(world.kept(ME, 3).before, world.kept(ME, worked).state.weights[:, shared])


def test_the_agent_that_was_away_is_rewarded_again_after_the_round_it_is_back() -> None:
    world = absent_in_2()
    assert world.line(3, ME).kept > 0
    assert world.task(ME, 4).reward.any()  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "fedsage"])
@pytest.mark.parametrize("late", [False, True])
def test_with_averaging_a_returning_agent_gets_the_servers_model(method: str, late: bool) -> None:
    world = new_world(away({ME: {2}}, late=late), method=method)
    world.drive(rounds=2)
    weights = world.checkpoint().server.weights.float()
    world.drive(rounds=1)
    task = world.task(ME, 3)
    assert task.reward is None
    np.testing.assert_array_equal(task.weights, weights.numpy())
    assert torch.equal(world.kept(ME, 3).before[0], weights)
    for name in OTHERS:
        assert world.task(name, 3).weights is None
        torch.testing.assert_close(world.kept(name, 3).before[0], weights)


def test_a_rejected_agent_is_brought_back_like_an_absent_one() -> None:
    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        return answer()[:-1] if (name, task.round) == (ME, 2) else answer()

    world = new_world(meddle, method="fedavg")
    world.drive(rounds=3)
    assert world.line(2, ME).status == "rejected"
    assert world.task(ME, 3).weights is not None


@pytest.mark.parametrize("method", ["motifair", "fedavg", "cgsv"])
def test_a_site_that_lost_its_folder_gets_a_model_in_the_round_after(method: str) -> None:
    """The server's own with averaging, and else what its value buys of it: to say that one has
    lost everything is no way to a better model.
    """

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if (name, task.round) == (POOR, 2):
            shutil.rmtree(world.folder / "sites" / POOR)
        return answer()

    # With beta = 0.05 whoever has less than the largest value receives less than everything.
    world = new_world(meddle, method=method, **({"beta": 0.05} if method == "motifair" else {}))
    world.drive(rounds=2)
    assert world.line(2, POOR).status == "absent"
    assert LOST in world.line(2, POOR).reason
    weights = world.checkpoint().server.weights.float().numpy()
    world.drive(rounds=1)
    sent = world.task(POOR, 3).weights
    assert sent is not None
    assert world.task(POOR, 3).reward is None
    np.testing.assert_array_equal(world.kept(POOR, 3).before[0].numpy(), sent)
    coordinator = world.coordinator()
    initial = coordinator.model.layout.initial(world.terms.config.seed, torch.float32)
    got = sent != initial[coordinator.shared].numpy()
    np.testing.assert_allclose(sent[got], weights[got], rtol=1e-6)
    if method == "fedavg":
        np.testing.assert_array_equal(sent, weights)
    else:
        moved = weights != initial[coordinator.shared].numpy()
        assert 0 < got.sum() < moved.sum()
    assert world.line(3, POOR).status == "present"
    if method == "cgsv":
        assert world.line(3, POOR).value != world.line(2, POOR).value
    elif method == "motifair":
        assert world.line(3, POOR).alignment > 0  # type: ignore[operator]
    else:
        assert world.line(3, POOR).value == world.line(2, POOR).value
    assert world.drive()
    assert verify(world.entries()).fits


@pytest.mark.parametrize("damage", ["flipped", "cut", "all deleted"])
def test_a_damaged_state_costs_one_absence(damage: str) -> None:
    world = new_world(away({}))
    world.drive(rounds=2)
    paths = sorted((world.folder / "sites" / ME / world.run).glob("round-*"))
    content = bytearray(paths[-1].read_bytes())
    content[len(content) // 2] ^= 4
    for path in paths:
        path.unlink() if damage == "all deleted" else None
    if damage != "all deleted":
        paths[-1].write_bytes(content if damage == "flipped" else content[:-1])
    assert world.drive()
    assert [world.line(t, ME).status for t in (1, 2, 3, 4)] == [
        "present", "present", "absent", "present",
    ]  # fmt: skip
    assert LOST in world.line(3, ME).reason
    assert verify(world.entries()).fits


# Below the quorum


@cache
def no_quorum_in_2() -> World:
    return finished(away({ME: {2}, "bank-c": {2}}, bad=True), quorum=3)


def test_below_the_quorum_nothing_is_settled_and_the_budget_is_carried_over() -> None:
    world = no_quorum_in_2()
    first, second, third, fourth = world.rounds()
    assert [e.settled for e in world.rounds()] == [True, False, True, True]
    assert [e.budget for e in world.rounds()] == [10_000, 10_000, 20_000, 10_000]
    assert set(paid(second).values()) == {0}
    assert all(line.compensation == 0 for line in second.lines)
    assert sum(paid(third).values()) == 20_000
    assert sum(paid(first).values()) == sum(paid(fourth).values()) == 10_000


def test_below_the_quorum_everything_stays_as_it_was() -> None:
    world = new_world(away({ME: {2}, "bank-c": {2}}, bad=True), quorum=3)
    world.drive(rounds=1)
    before = world.checkpoint().server
    world.drive(rounds=1)
    after = world.checkpoint().server
    assert world.values(2) == world.values(1)
    assert after.round == before.round + 1
    for name in ("weights", "value", "alignment", "worth", "prototypes", "active"):
        assert torch.equal(getattr(before, name), getattr(after, name)), name
    for name in NAMES:
        assert not Download.decode(world.checkpoint().tasks[name]).reward.any()  # type: ignore[union-attr]
    statuses = {line.agent: line.status for line in world.rounds()[1].lines}
    assert statuses == {
        "bank-a": "present", "bank-b": "present", "bank-c": "rejected", ME: "rejected",
    }  # fmt: skip


def test_a_round_below_the_quorum_is_no_history() -> None:
    world = no_quorum_in_2()
    for name in NAMES:
        one, three = world.line(1, name).value, world.line(3, name).value
        assert world.line(3, name).compensation == max(three - one, 0)


def test_with_averaging_all_stand_at_the_servers_model_after_a_round_below_the_quorum() -> None:
    world = new_world(away({ME: {2}, "bank-c": {2}}, bad=True), quorum=3, method="fedavg")
    world.drive(rounds=2)
    weights = world.checkpoint().server.weights.float()
    world.drive(rounds=1)
    for name in NAMES:
        torch.testing.assert_close(world.kept(name, 3).before[0], weights, msg=name)


def hanging(times: int, *names: str) -> tuple[Meddle, list[str]]:
    """Let agents miss the first `times` exchanges of round 2; also return who was asked in it."""
    asked: list[str] = []

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if task.round == 2:
            asked.append(name)
            if name in names and asked.count(name) <= times:
                raise Away("no answer today")
        return answer()

    return meddle, asked


def test_a_round_waits_for_its_quorum_and_goes_on_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    undisturbed = finished(away({}), quorum=3)
    naps: list[float] = []
    monkeypatch.setattr(rounds_module.time, "sleep", naps.append)
    for hang in (NAMES, NAMES[1:]):
        naps.clear()
        meddle, asked = hanging(5, *hang)
        world = finished(meddle, quorum=3)
        assert [e.to_json() for e in world.entries()] == [
            e.to_json() for e in undisturbed.entries()
        ]
        assert {name: asked.count(name) for name in NAMES} == {
            name: 6 if name in hang else 1 for name in NAMES
        }
        assert len(naps) == 5
        assert 0 < max(naps) <= rounds_module.PAUSE


def test_who_needs_a_model_is_not_waited_for() -> None:
    """It gets one with the next round, so a round in which too few are left must end."""

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if task.round == 2 and name in NAMES[1:]:
            raise Away(f"no state; {LOST}")
        return answer()

    world = finished(meddle, quorum=2)
    assert [e.settled for e in world.rounds()] == [True, False, True, True]
    assert verify(world.entries()).fits


def test_everybody_may_fail_for_a_while() -> None:
    world = finished(away({name: {1, 2} for name in NAMES}, bad=True), quorum=1)
    assert [e.settled for e in world.rounds()] == [False, False, True, True]
    assert world.rounds()[2].budget == 30_000
    assert world.values(1) == world.values(2) == dict.fromkeys(NAMES, ONE // 4)
    assert verify(world.entries()).fits


def test_who_missed_the_end_does_not_hold_up_the_others() -> None:
    world = finished(away({ME: {5}}))
    assert (world.folder / "run" / "result.json").exists()
    assert [e.settled for e in world.rounds()] == [True] * 4


# Any pattern


patterns = st.dictionaries(st.sampled_from(NAMES), st.sets(st.integers(1, 3)))


@settings(max_examples=12)
@given(patterns, st.integers(1, 4), st.booleans(), st.sampled_from(["motifair", "fedavg", "cgsv"]))
def test_for_any_absences_the_ledger_verifies_and_every_settled_round_pays_its_budget(
    pattern: Mapping[str, set[int]], quorum: int, late: bool, method: str
) -> None:
    options = FAST if method == "motifair" else {}
    meddle = away(pattern, late=late, bad=True)
    world = finished(meddle, rounds=3, quorum=quorum, method=method, **options)
    assert verify(world.entries()).fits
    budget, value = 0, dict.fromkeys(NAMES, ONE // 4)
    for t, entry in enumerate(world.rounds(), start=1):
        budget += 10_000
        missing = {name for name in NAMES if t in pattern.get(name, ())}
        assert {line.agent for line in entry.lines if line.status == "rejected"} == missing
        assert entry.settled == (len(missing) <= len(NAMES) - quorum)
        assert entry.budget == budget
        assert abs(sum(line.value for line in entry.lines) - ONE) <= 1000
        for line in entry.lines:
            if line.agent in missing or not entry.settled:
                assert line.value == value[line.agent]
            value[line.agent] = line.value
        if entry.settled:
            assert sum(paid(entry).values()) == budget
            budget = 0
    assert Accounts.of(world.run, world.entries()).carried == budget


METHODS = (
    "motifair", "fedavg", "cgsv", "dw", "eu", "random-rewards", "motifair-alignment",
    "motifair-diversity", "motifair-allocation", "motifair-aggregation", "fedavg-own",
)  # fmt: skip


@cache
def roster() -> tuple[JoinedMember, ...]:
    return absent_in_2().checkpoint().roster


@settings(max_examples=40)
@given(
    st.sampled_from(METHODS),
    st.lists(
        st.tuples(st.lists(st.booleans(), min_size=4, max_size=4), st.integers(0, 2**31)),
        min_size=1,
        max_size=6,
    ),
)
def test_values_stay_finite_and_add_up_to_one_whatever_is_uploaded_by_whom(
    method: str, rounds: list[tuple[list[bool], int]]
) -> None:
    coordinator = World(Path("nowhere"), terms_of(method=method, hidden=8)).coordinator()
    server = coordinator.server(roster())
    size = coordinator.shared.stop - coordinator.shared.start
    state = server.start(torch.zeros(size, dtype=torch.float64))
    for there, seed in rounds:
        present = torch.tensor(there)
        if not present.any() or float(state.value[present].sum()) <= 0:
            continue
        rng = np.random.default_rng(seed)
        update = rng.standard_normal((4, size)) * 10.0 ** rng.integers(-6, 3, size=(4, 1))
        update[rng.random(4) < 0.1] = 0
        update[~present.numpy()] = 0
        entries = sum(len(j.motifs) for j in roster())
        motifs, votes = coordinator.method.uses_prototypes, coordinator.method.uses_gradients
        gradient = rng.standard_normal((4, size)) * (rng.random((4, 1)) > 0.1)
        gradient[~present.numpy()] = 0
        uploads = Uploads(
            update=torch.from_numpy(update).float(),
            gradient=torch.from_numpy(gradient).float() if votes else None,
            gradient_norm=torch.ones(4),
            prototypes=torch.zeros(entries, 8) if motifs else None,
            loss=torch.zeros(4),
        )
        new, downloads, record = serve_round(
            server, state, uploads, None if all(there) else present
        )
        assert new.value.isfinite().all()
        assert abs(float(new.value.sum()) - 1) <= 1e-9
        assert torch.equal(new.value[~present], state.value[~present])
        assert not downloads.reward[~present].any()
        assert (downloads.retained[~present] == 1).all()
        assert (record["kept"][~present] == 0).all()
        assert downloads.reward.isfinite().all()
        state = new
