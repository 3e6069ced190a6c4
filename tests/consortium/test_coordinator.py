"""The coordinator maps a checkpoint to the next one and keeps nothing else."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from deployed import COMPARING, JUDGING, NAMES, Answer, Away, World, away, honest, key_of, terms_of
from oracles import naive

from motifair.consortium.checkpoint import load_checkpoint, save_checkpoint
from motifair.consortium.run_state import RunCheckpoint
from motifair.consortium.wire import Download
from motifair.errors import MotifairError
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms
from motifair.statements.signatures import public_text
from motifair.statements.verification import verify

FOLDERS = TemporaryDirectory()


@cache
def after_two() -> World:
    """Two rounds of four are done; not changed by any test."""
    world = World(Path(FOLDERS.name) / "two", terms_of())
    world.drive(rounds=2)
    return world


@cache
def finished() -> World:
    world = World(Path(FOLDERS.name) / "finished", terms_of())
    world.drive()
    return world


def assert_same(ours: RunCheckpoint, theirs: RunCheckpoint) -> None:
    assert (ours.roster, ours.tasks, ours.entry) == (theirs.roster, theirs.tasks, theirs.entry)
    for name, tensor in vars(theirs.server).items():
        if name != "memory":
            assert torch.equal(getattr(ours.server, name), tensor), name
            assert getattr(ours.server, name).dtype == tensor.dtype


def accounts_of(world: World) -> Accounts:
    return Accounts.of(world.run, world.entries())


def test_a_position_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    checkpoint = after_two().checkpoint()
    save_checkpoint(tmp_path, checkpoint)
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert_same(loaded, checkpoint)
    assert load_checkpoint(tmp_path / "elsewhere") is None


def test_the_same_position_and_answers_give_the_same_position_twice() -> None:
    world = after_two()
    coordinator, checkpoint = world.coordinator(), world.checkpoint()
    replies = {name: world.site(name)(task) for name, task in checkpoint.tasks.items()}
    accepted, rejected = coordinator.collect(checkpoint.tasks, replies, checkpoint.roster)
    assert rejected == {}
    first, _ = coordinator.next(checkpoint, accounts_of(world), accepted, {}, {})
    again, _ = world.coordinator().next(world.checkpoint(), accounts_of(world), accepted, {}, {})
    assert_same(first, again)
    assert_same(checkpoint, world.checkpoint())  # unchanged
    assert first.round == 3
    assert first.entry.to_json() == finished().rounds()[2].to_json()


def test_the_order_in_which_answers_came_does_not_matter() -> None:
    world = after_two()
    coordinator, checkpoint = world.coordinator(), world.checkpoint()
    replies = {name: world.site(name)(checkpoint.tasks[name]) for name in reversed(NAMES)}
    accepted, _ = coordinator.collect(checkpoint.tasks, replies, checkpoint.roster)
    after, _ = coordinator.next(checkpoint, accounts_of(world), accepted, {}, {})
    assert after.entry.to_json() == finished().rounds()[2].to_json()


def test_a_line_has_the_reason_in_one_printable_line() -> None:
    world = after_two()
    coordinator, checkpoint = world.coordinator(), world.checkpoint()
    replies = {name: world.site(name)(checkpoint.tasks[name]) for name in NAMES[:2]}
    accepted, _ = coordinator.collect(checkpoint.tasks, replies, checkpoint.roster)
    bad = {"bank-c": "a\nreason\x00" + 500 * "x"}
    after, _ = coordinator.next(checkpoint, accounts_of(world), accepted, bad, {"bank-d": "asleep"})
    lines = {line.agent: line for line in after.entry.lines}
    assert lines["bank-c"].status == "rejected"
    assert lines["bank-c"].reason.startswith("a reason xxx")
    assert len(lines["bank-c"].reason) == 300
    assert (lines["bank-d"].status, lines["bank-d"].reason) == ("absent", "asleep")


def test_every_round_has_a_task_for_everyone_and_the_last_one_ends_it() -> None:
    world = finished()
    for (name, t), task in world.tasks.items():
        download = Download.decode(task)
        round = {JUDGING: 0, COMPARING: 4}.get(t, t)
        assert (download.run, download.round, download.agent) == ("trial-1", round, name)
        tasks = {0: "join", JUDGING: "judge", COMPARING: "judge", 5: "finish"}
        assert download.task == tasks.get(t, "train")
    assert len(world.tasks) == 8 * len(NAMES)


def test_the_terms_with_everybodys_key_are_the_first_entry() -> None:
    world = finished()
    accounts = accounts_of(world)
    assert world.entries()[0].kind == "terms"
    assert accounts.agreed.members == dict(world.coordinator().keys)
    assert (accounts.agreed.quorum, accounts.agreed.rounds) == (2, 4)


# Members join and leave between segments


def changed_world(tmp_path: Path, members: tuple[str, ...], **options: object) -> World:
    """The federation after two rounds, from then on with other members or terms."""
    folder = tmp_path / "world"
    shutil.copytree(after_two().folder, folder)
    return World(folder, terms_of(members=members, **options))


def test_a_member_leaves_and_the_others_go_on_with_all_that_is_left_to_share(
    tmp_path: Path,
) -> None:
    world = changed_world(tmp_path, NAMES[:3])
    assert world.drive()
    entries = world.entries()
    assert [e.kind for e in entries] == ["terms", "round", "round", "terms", "round", "round"]
    assert [line.agent for line in entries[-1].lines] == list(NAMES[:3])
    for entry in world.rounds():
        assert abs(sum(line.value for line in entry.lines) - 10**12) <= 1000
        assert sum(line.payoff for line in entry.lines) == 10_000
    assert verify(entries).fits
    assert {line.status for e in world.rounds()[2:] for line in e.lines} == {"present"}


def test_a_newcomer_begins_with_an_equal_share_and_a_part_of_the_model(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "world"
    first = World(folder, terms_of(members=NAMES[:3]))
    first.drive(rounds=2)
    weights = first.checkpoint().server.weights.float()
    world = World(folder, terms_of(members=NAMES))
    world.drive(rounds=1)
    coordinator = world.coordinator()
    initial = coordinator.model.layout.initial(world.terms.config.seed, torch.float32)
    begun, initial = world.kept("bank-d", 3).before[0], initial[coordinator.shared]
    got = begun != initial
    torch.testing.assert_close(begun[got], weights[got])
    assert 0 < got.sum() <= (weights != initial).sum()
    assert {line.status for line in world.rounds()[2].lines} == {"present"}
    assert world.line(3, "bank-d").compensation == 0
    assert world.drive()
    assert verify(world.entries()).fits
    assert abs(sum(world.values(4).values()) - 10**12) <= 1000


@pytest.mark.parametrize(
    ("first", "then"),
    [(NAMES[:3], NAMES), (NAMES, ("bank-a", "bank-c", "bank-d")), (NAMES[1:], NAMES)],
    ids=["one comes", "one leaves", "one comes before the others"],
)
def test_who_stays_keeps_its_running_alignment_and_a_newcomer_begins_with_its_own(
    first: tuple[str, ...], then: tuple[str, ...], tmp_path: Path
) -> None:
    how = {"alignment_against": "peers", "alignment_rate": 0.25}
    old = World(tmp_path / "world", terms_of(members=first, **how))
    old.drive(rounds=2)
    before = dict(zip(first, old.checkpoint().server.alignment.tolist(), strict=True))
    world = World(tmp_path / "world", terms_of(members=then, **how))
    world.drive(rounds=1)
    sent = [world.upload(name, 3) for name in then]
    votes = naive.peer_alignments(
        [torch.from_numpy(u.update) for u in sent],  # type: ignore[arg-type]
        [torch.from_numpy(u.gradient) for u in sent],  # type: ignore[arg-type]
    )
    wanted = [
        0.75 * before[name] + 0.25 * phi if name in before else phi
        for name, phi in zip(then, votes, strict=True)
    ]
    assert world.checkpoint().server.alignment.tolist() == pytest.approx(wanted)


@pytest.mark.parametrize(("first", "then"), [(0.0, 0.4), (0.4, 0.0), (0.4, 0.2)])
def test_terms_may_be_changed_to_another_share_of_own_models(
    first: float, then: float, tmp_path: Path
) -> None:
    """An agent without an own model starts one, a round ahead; one not needed is dropped."""
    World(tmp_path / "world", terms_of(own_weight=first)).drive(rounds=2)
    world = World(tmp_path / "world", terms_of(own_weight=then))
    assert world.drive()
    assert {line.status for e in world.rounds() for line in e.lines} == {"present"}
    for name in NAMES:
        _, state = world.site(name).state(world.run)
        assert (state.own is not None) == (then > 0)
        if state.own is not None:
            assert state.own.moments.steps.item() == (4 if first > 0 else 3)


def test_a_newcomer_that_does_not_come_at_once_stays_a_member(tmp_path: Path) -> None:
    folder = tmp_path / "world"
    World(folder, terms_of(members=NAMES[:3])).drive(rounds=2)
    world = World(folder, terms_of(members=NAMES), away({"bank-d": {3}}))
    assert world.drive()
    assert world.line(3, "bank-d").value == 10**12 // 4
    assert world.line(4, "bank-d").status == "present"
    assert verify(world.entries()).fits


def test_who_stays_goes_on_under_terms_that_were_changed(tmp_path: Path) -> None:
    world = changed_world(tmp_path, NAMES, money={"budget": "200.00"})
    assert world.drive()
    assert [e.budget for e in world.rounds()] == [10_000, 10_000, 20_000, 20_000]
    assert {line.status for e in world.rounds() for line in e.lines} == {"present"}
    assert verify(world.entries()).fits


def test_changed_terms_need_every_members_signature(tmp_path: Path) -> None:
    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if (name, task.task) == ("bank-b", "agree"):
            raise Away("no answer today")
        return answer()

    world = changed_world(tmp_path, NAMES, money={"budget": "200.00"})
    world.meddle = meddle
    with pytest.raises(MotifairError, match="'bank-b' did not sign the changed terms"):
        world.drive()
    assert len(world.entries()) == 3
    world.meddle = honest
    assert world.drive()
    agreed = AgreedTerms.from_json(world.entries()[3].terms)
    assert agreed.signatures.keys() == set(NAMES)
    assert verify(world.entries(), operator=public_text(key_of("operator"))).fits


def test_a_member_signs_no_terms_but_its_own(tmp_path: Path) -> None:
    world = changed_world(tmp_path, NAMES)
    agent = world.site("bank-b")
    agent.operator = public_text(key_of("operator"))
    proposal = Download.decode(world.coordinator().proposals(accounts_of(world))["bank-b"])
    assert agent(proposal.encode())
    for change in (
        {"budget": 999_999_999_00}, {"quorum": 1}, {"rounds": 99}, {"max_penalty": 0},
        {"operator": public_text(key_of("bank-a"))}, {"config": {}},
        {"members": {n: public_text(key_of("bank-a")) for n in NAMES}},
    ):  # fmt: skip
        text = json.dumps(json.loads(proposal.changed) | change)
        with pytest.raises(MotifairError, match="not those this member agreed to"):
            agent(replace(proposal, changed=text).encode())
    with pytest.raises(MotifairError, match="not those this member agreed to"):
        agent(replace(proposal, changed="nonsense").encode())


def test_nothing_changes_where_the_terms_are_the_same(tmp_path: Path) -> None:
    world = changed_world(tmp_path, NAMES)
    assert world.drive()
    assert [e.to_json() for e in world.entries()] == [e.to_json() for e in finished().entries()]


@pytest.mark.parametrize("digits", ["300.0", "300.000"])
def test_a_position_does_not_depend_on_how_money_is_written(tmp_path: Path, digits: str) -> None:
    money = {"budget": digits, "max_penalty": "1", "max_total_penalty": "1"}
    world = World(tmp_path, terms_of(rounds=1, money=money))
    assert world.drive()
    (entry,) = world.rounds()
    assert sum(line.payoff for line in entry.lines) == entry.budget
    assert entry.budget == 300 * 10 ** (len(digits) - 4)
