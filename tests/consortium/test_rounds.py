"""A crash at any instant loses no settled round and pays none twice."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from deployed import COMPARING, NAMES, Answer, World, away, key_of, terms_of

from motifair import files
from motifair.consortium import rounds as rounds_module
from motifair.consortium.audit import audit
from motifair.consortium.checkpoint import good_checkpoints, positions, save_checkpoint
from motifair.consortium.keys import signer
from motifair.consortium.rounds import RESULT, server_model
from motifair.consortium.run_state import RunCheckpoint
from motifair.consortium.store.lease import LedgerUnavailable
from motifair.consortium.store.ledger import Ledger, open_ledger
from motifair.consortium.terms import FederationTerms
from motifair.consortium.transports import OnReply
from motifair.consortium.transports.inprocess import InProcess
from motifair.consortium.wire import Download, digest, unseal
from motifair.errors import MotifairError
from motifair.federation.state import agent_tensors
from motifair.files import read_json
from motifair.statements.entry import AgreedTerms, Entry
from motifair.statements.signatures import public_text
from motifair.statements.verification import verify

FOLDERS = TemporaryDirectory()
NUMBERS = count()
ROUNDS = 2


def few(**options: Any) -> FederationTerms:
    """Two members and two rounds: the smallest run with every kind of crash point."""
    return terms_of(members=NAMES[:2], rounds=ROUNDS, **options)


def new_folder() -> Path:
    return Path(FOLDERS.name) / str(next(NUMBERS))


class Crash(BaseException):
    """The process dies; never caught by the code under test."""


@dataclass
class Instants:
    """Counts the instants at which a process may die, and lets it die at one of them.

    There is one before and after every file is put in its place (the server's and the sites'),
    every entry goes into the ledger, and all agents are asked.
    """

    folder: Path
    last: int | None = None
    passed: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) - 1 == self.last:
            raise Crash

    @contextmanager
    def at_work(self) -> Iterator[None]:
        append, exchange = Ledger.append, InProcess.exchange

        def flushing(path: Path) -> None:  # without waiting for the disk, which is slow
            if self.folder in path.parents:
                temporary = path.name.rpartition(".")[0]
                self(f"after writing in {path.name}" if path.is_dir() else f"before {temporary}")

        def appending(ledger: Ledger, entry: Entry) -> None:
            self(f"before entry {entry.number}")
            append(ledger, entry)
            self(f"after entry {entry.number}")

        def exchanging(
            transport: InProcess, tasks: Mapping[str, bytes], deadline: float, on_reply: OnReply
        ) -> tuple[dict[str, bytes], dict[str, str]]:
            self("before asking")
            answers = exchange(transport, tasks, deadline, on_reply)
            self("after asking")
            return answers

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "_flush", flushing)
            patch.setattr(Ledger, "append", appending)
            patch.setattr(InProcess, "exchange", exchanging)
            yield


def end_of(world: World) -> dict[str, Any]:
    """Everything that must be the same, whatever crashes a run went through."""
    run, checkpoint = world.folder / "run", world.checkpoint()
    sites = {name: world.site(name).state(world.run) for name in world.terms.members}
    state = vars(checkpoint.server)
    return {
        "entries": [e.to_json() for e in world.entries()],
        "checkpoint": (checkpoint.roster, checkpoint.tasks, checkpoint.entry.to_json()),
        "server": {name: state[name].tolist() for name in state if name != "memory"},
        "result": read_json(run / RESULT),
        "sites": {
            name: (round, {n: t.tolist() for n, t in agent_tensors(state).items()})
            for name, (round, state) in sites.items()
        },
        "uploads": {str(p.relative_to(run)): p.read_bytes() for p in run.glob("uploads/*/*")},
    }


@cache
def undisturbed() -> tuple[dict[str, Any], list[str]]:
    """Final state of a run without faults, and its crash points."""
    world = World(new_folder(), few())
    instants = Instants(world.folder)
    with instants.at_work():
        assert world.drive()
    return end_of(world), instants.passed


def test_a_run_without_faults_passes_every_kind_of_instant() -> None:
    _, passed = undisturbed()
    kinds = {name.rsplit(" ", 1)[0] for name in passed}
    assert {"before asking", "after asking"} <= set(passed)
    assert {"before entry", "after entry", "before"} <= kinds
    assert {f"after writing in {name}" for name in ("run", "trial-1", "000001")} <= set(passed)
    assert 40 <= len(passed) <= 80


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 5))]
)
def test_a_crash_at_any_instant_changes_nothing_about_the_end(part: int) -> None:
    wanted, passed = undisturbed()
    for k in range(part, len(passed), 5):
        world = World(new_folder(), few())
        instants = Instants(world.folder, last=k)
        with instants.at_work(), pytest.raises(Crash):
            world.drive()
        assert instants.passed == passed[: k + 1]
        again = World(world.folder, world.terms)
        with Instants(world.folder).at_work():
            assert again.drive()
        assert end_of(again) == wanted, passed[k]
        shutil.rmtree(world.folder)


@pytest.mark.parametrize("every", [15, 19])
def test_one_crash_after_another_changes_nothing_about_the_end(every: int) -> None:
    wanted, _ = undisturbed()
    folder, done = new_folder(), False
    for _ in range(30):
        try:
            with Instants(folder, last=every).at_work():
                done = World(folder, few()).drive()
        except Crash:
            continue
        break
    assert done
    assert end_of(World(folder, few())) == wanted


def test_segments_of_a_round_each_end_like_one_run() -> None:
    wanted, _ = undisturbed()
    world = World(new_folder(), few())
    assert [world.drive(rounds=1) for _ in range(ROUNDS)] == [False, True]
    assert end_of(world) == wanted
    assert world.drive()
    assert end_of(world) == wanted


def test_nothing_is_asked_for_or_paid_when_a_run_is_finished() -> None:
    world = World(new_folder(), few())
    world.drive()
    world.meddle = lambda name, task, answer: pytest.fail("asked again")
    heard = len(world.heard)
    assert world.drive()
    assert len(world.heard) == heard == ROUNDS + 1


def test_a_crash_between_position_and_ledger_is_mended_before_anything_else() -> None:
    world = World(new_folder(), few())
    world.drive(rounds=1)
    with pytest.MonkeyPatch.context() as patch:
        save = rounds_module.save_checkpoint

        def saved_last(path: Path, checkpoint: RunCheckpoint) -> None:
            save(path, checkpoint)
            raise Crash

        patch.setattr(rounds_module, "save_checkpoint", saved_last)
        with pytest.raises(Crash):
            world.drive(rounds=1)
    assert (world.checkpoint().round, len(world.rounds())) == (2, 1)
    world.tasks.clear()
    assert world.drive(rounds=0) is True
    assert len(world.rounds()) == 2
    assert {round for _, round in world.tasks} == {3, COMPARING}
    assert verify(world.entries()).fits


@pytest.mark.parametrize("where", ["run", "sites"])
def test_a_file_that_was_half_written_when_the_power_went_is_passed_over(where: str) -> None:
    wanted, _ = undisturbed()
    world = World(new_folder(), few())
    world.drive(rounds=1)
    for folder in {p.parent for p in (world.folder / where).rglob("*") if p.is_file()}:
        (folder / ".round-000002.safetensors.12ab34cd").write_bytes(b"half of")
        (folder / ".position-000002.safetensors.12ab34cd").write_bytes(b"half of")
    assert world.drive()
    assert end_of(world)["entries"] == wanted["entries"]


# The agents' side


def test_a_site_that_dies_while_it_writes_answers_the_same_when_it_is_asked_again() -> None:
    wanted, passed = undisturbed()
    k = next(n for n, name in enumerate(passed) if name.startswith("before .round-000002"))
    world = World(new_folder(), few())
    with Instants(world.folder, last=k).at_work(), pytest.raises(Crash):
        world.drive()
    assert not list((world.folder / "sites").rglob(".round*"))
    task = world.tasks["bank-a", 2]
    once = world.site("bank-a")(task)
    assert world.site("bank-a")(task) == once
    assert world.drive()
    assert end_of(world) == wanted


# Disks that are full


def full_disk(below: Path) -> Callable[[Path], None]:
    flush = files._flush

    def flushing(path: Path) -> None:
        if below in path.parents and path.is_file():
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        flush(path)

    return flushing


def test_a_full_disk_at_the_server_loses_nothing() -> None:
    wanted, _ = undisturbed()
    world = World(new_folder(), few())
    world.drive(rounds=1)
    before = newest(world).read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_flush", full_disk(world.folder / "run"))
        with pytest.raises((OSError, MotifairError)):
            world.drive()
    assert newest(world).read_bytes() == before
    assert not [p for p in (world.folder / "run").rglob(".*") if p.is_file()]
    assert world.drive()
    assert end_of(world) == wanted


def test_a_full_disk_at_the_server_is_a_sentence_that_names_the_fix() -> None:
    world = World(new_folder(), few())
    world.drive(rounds=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_flush", full_disk(world.folder / "run"))
        with pytest.raises(MotifairError, match="disk"):
            world.drive()


@contextmanager
def site_with_a_full_disk(world: World, name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_flush", full_disk(world.folder / "sites" / name))
        yield


def test_a_full_disk_at_a_site_is_an_absence_and_it_comes_back() -> None:
    world = World(new_folder(), terms_of(rounds=3))
    world.drive(rounds=1)
    with site_with_a_full_disk(world, "bank-a"):
        world.drive(rounds=1)
    assert world.line(2, "bank-a").status == "absent"
    assert world.drive()
    assert world.line(3, "bank-a").status == "present"
    assert verify(world.entries()).fits


def test_a_full_disk_at_a_site_is_told_in_words() -> None:
    world = World(new_folder(), few(quorum=1))
    world.drive(rounds=1)
    with site_with_a_full_disk(world, "bank-a"):
        world.drive(rounds=1)
    assert "disk" in world.line(2, "bank-a").reason


# One ledger, one history, one server


def test_a_second_server_on_the_same_run_is_refused_while_the_first_is_at_work() -> None:
    refused: list[str] = []

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if task.round == 1 and not refused:
            second = World(world.folder, world.terms)
            with second.server("other") as drive:
                with pytest.raises(MotifairError, match="Another server is writing") as error:
                    drive()
                refused.append(str(error.value))
            assert second.tasks == {}  # no agent was sent a task
        return answer()

    world = World(new_folder(), few(), meddle)
    assert world.drive()
    assert len(refused) == 1
    assert end_of(world) == undisturbed()[0]


def test_the_next_server_may_go_on_once_the_first_is_gone() -> None:
    world = World(new_folder(), few())
    with Instants(world.folder, last=20).at_work(), pytest.raises(Crash):
        world.drive()
    assert World(world.folder, world.terms).drive()


def newest(world: World) -> Path:
    return positions(world.folder / "run")[-1]


def four_rounds(**options: Any) -> World:
    return World(new_folder(), terms_of(members=NAMES[:2], **{"rounds": 4, **options}))


@cache
def four_undisturbed() -> list[str]:
    world = four_rounds()
    assert world.drive()
    return [e.to_json() for e in world.entries()]


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def old_copy(path: Path) -> None:
    path.write_bytes(positions(path.parent)[0].read_bytes())


DAMAGES = (flipped, cut, old_copy, Path.unlink, lambda path: path.write_bytes(b""))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("retain", [True, False])
def test_damaged_positions_change_nothing_about_the_end(
    damage: Callable[[Path], None], files: int, retain: bool
) -> None:
    world = four_rounds()
    world.terms = replace(world.terms, retain_uploads=retain)
    world.drive(rounds=3)
    for path in positions(world.folder / "run")[-files:][::-1]:
        damage(path)
    assert world.drive()
    assert [e.to_json() for e in world.entries()] == four_undisturbed()


def test_a_position_that_nothing_gives_again_is_not_begun_anew() -> None:
    world = four_rounds()
    world.drive(rounds=3)
    before = [e.to_json() for e in world.entries()]
    for path in positions(world.folder / "run"):
        path.unlink()
    shutil.rmtree(world.folder / "run" / "uploads" / "000002")
    with pytest.raises(MotifairError, match=r"No position in .* is good and fits the ledger"):
        world.drive()
    assert [e.to_json() for e in world.entries()] == before


def test_the_last_three_positions_are_kept_and_the_ledger_has_their_hashes() -> None:
    world = four_rounds()
    world.drive(rounds=3)
    kept = list(good_checkpoints(world.folder / "run"))[::-1]
    assert [c.entry.number for c in kept] == [1, 2, 3]
    assert [c.digest for c in kept] == [e.position for e in world.entries()[1:]]


def test_a_position_that_was_changed_with_its_checksum_is_not_believed() -> None:
    """Its hash is in its entry, and that in the chain."""
    world = four_rounds()
    world.drive(rounds=3)
    checkpoint = world.checkpoint()
    value = checkpoint.server.value + 1
    save_checkpoint(
        world.folder / "run", replace(checkpoint, server=replace(checkpoint.server, value=value))
    )
    assert world.checkpoint().round == 2
    assert world.drive()
    assert [e.to_json() for e in world.entries()] == four_undisturbed()


def test_a_position_of_another_history_is_not_used() -> None:
    world = World(new_folder(), few(quorum=1))
    world.drive(rounds=1)
    other = World(new_folder(), world.terms, away({"bank-b": {1}}))
    other.drive(rounds=1)
    shutil.copy(newest(other), newest(world))
    assert world.drive()
    assert [line.status for e in world.rounds() for line in e.lines] == ["present"] * 4


def lose_entries(world: World, left: int) -> None:
    kept = world.entries()[:left]
    for path in world.folder.glob("ledger.sqlite*"):
        path.unlink()
    with open_ledger(world.folder / "ledger.sqlite", write=True) as ledger:
        for entry in kept:
            ledger.append(replace(entry, recorded=""))


def test_entries_that_a_ledger_lost_are_written_again_from_the_positions() -> None:
    world = four_rounds()
    world.drive(rounds=3)
    lose_entries(world, 1)
    world.drive(rounds=0)
    assert [e.to_json() for e in world.entries()] == four_undisturbed()[:4]


def test_a_ledger_that_lost_more_entries_than_positions_have_is_refused() -> None:
    world = four_rounds()
    world.drive(rounds=4)
    lose_entries(world, 1)
    (world.folder / "run" / RESULT).unlink()
    with pytest.raises(MotifairError, match="different histories"):
        world.drive()
    assert len(world.entries()) == 1


def test_every_entry_is_signed_by_the_operator_and_no_other_key_goes_on() -> None:
    world = World(new_folder(), few())
    world.drive(rounds=1)
    with world.server() as drive:
        other = replace(drive, sign=signer(key_of("somebody")))
        other.coordinator.operator = public_text(key_of("somebody"))
        with pytest.raises(
            MotifairError, match=r"another operator's key; put back the operator\.key"
        ):
            other()
    assert world.drive()
    assert verify(world.entries(), operator=public_text(key_of("operator"))).fits
    assert all(entry.signature for entry in world.entries())


def test_two_runs_share_a_ledger() -> None:
    folder = new_folder()
    one, two = (World(folder, few(), run=run) for run in ("trial-1", "trial-2"))
    one.drive()
    with two.server("second") as drive:
        assert drive()
    assert [e.run for e in two.entries()] == ["trial-2"] * 3
    assert verify(one.entries()).fits
    assert verify(two.entries()).fits


# A ledger that is unavailable for a while


def test_a_ledger_that_is_away_for_a_while_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    append, calls, naps = Ledger.append, count(), []

    def flaky(ledger: Ledger, entry: Entry) -> None:
        k = next(calls)
        if k % 3 == 1:
            append(ledger, entry)  # it was written, but the confirmation was lost
        if k % 3 != 2:
            raise LedgerUnavailable("The ledger is away.")
        append(ledger, entry)

    expected, _ = undisturbed()  # not under the patches, whoever asks for it first
    monkeypatch.setattr(Ledger, "append", flaky)
    monkeypatch.setattr(rounds_module.time, "sleep", naps.append)
    world = World(new_folder(), few())
    assert world.drive()
    assert end_of(world) == expected
    assert len(naps) == 2 * (ROUNDS + 1)


def test_a_ledger_that_stays_away_ends_the_run_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(new_folder(), few())
    world.drive(rounds=1)

    def gone(ledger: Ledger, entry: Entry) -> None:
        raise LedgerUnavailable("The ledger is away.")

    with monkeypatch.context() as patch:
        patch.setattr(rounds_module, "PATIENCE", 0.0)
        patch.setattr(Ledger, "append", gone)
        with pytest.raises(LedgerUnavailable):
            world.drive()
    assert world.drive()
    assert end_of(world) == undisturbed()[0]


# What is left at the end


def test_uploads_are_retained_only_where_that_was_agreed() -> None:
    world = World(new_folder(), replace(few(), retain_uploads=False))
    world.drive()
    assert not (world.folder / "run" / "uploads").exists()
    assert [e.to_json() for e in world.entries()] == undisturbed()[0]["entries"]


def test_retained_uploads_are_those_whose_hash_is_in_the_ledger() -> None:
    world = World(new_folder(), few())
    world.drive()
    for t, entry in enumerate(world.rounds(), start=1):
        for line in entry.lines:
            path = world.folder / "run" / "uploads" / f"{t:06}" / f"{line.agent}.bin"
            content, signature = unseal(path.read_bytes())
            assert (digest(content), signature.hex()) == (line.upload, line.signature)


def test_the_result_has_the_head_and_the_accuracy_of_every_agent() -> None:
    end, _ = undisturbed()
    assert end["result"]["rounds"] == ROUNDS
    assert list(end["result"]["accuracy"]) == list(NAMES[:2])
    assert all(0 <= a <= 1 for a in end["result"]["accuracy"].values())


def test_the_servers_model_is_a_whole_row() -> None:
    world = World(new_folder(), few(share="conv"))
    world.drive()
    coordinator, checkpoint = world.coordinator(), world.checkpoint()
    row = server_model(coordinator, checkpoint)
    initial = coordinator.model.layout.initial(world.terms.config.seed, torch.float32)
    assert torch.equal(row[coordinator.shared], checkpoint.server.weights.float())
    assert not torch.equal(row[coordinator.shared], initial[coordinator.shared])
    assert torch.equal(row[coordinator.shared.stop :], initial[coordinator.shared.stop :])


# Terms that change


@pytest.mark.parametrize(
    "changes",
    [
        {"max_norm": 5e3},
        {"max_size_ratio": 3.0},
        {"max_time_ratio": 9.0},
        {"deadline": 400},
        {"beta": 2.0},
    ],
)
def test_whatever_members_agree_to_can_change_in_a_run_and_is_signed(
    changes: dict[str, float],
) -> None:
    """An audit recomputes each round under the terms of that time."""
    world = World(new_folder(), few(size="claimed"))
    assert not world.drive(rounds=1)
    later = World(world.folder, few(size="claimed", **changes))
    assert later.drive()
    assert [entry.kind for entry in later.entries()] == ["terms", "round", "terms", "round"]
    assert set(AgreedTerms.from_json(later.entries()[2].terms).signatures) == {*NAMES[:2]}
    assert verify(later.entries(), operator=public_text(key_of("operator"))).fits
    assert audit(later.terms, later.folder / "run", later.entries()).fits


def test_terms_that_a_member_did_not_get_are_not_signed_and_nothing_is_written() -> None:
    world = World(new_folder(), few())
    world.drive(rounds=1)
    before = world.entries()
    later = World(world.folder, few(money={"budget": "999999.00"}))
    with later.server() as drive:
        kept = replace(drive, transport=InProcess(world.handlers()))
        with pytest.raises(MotifairError, match=r"'bank-a' did not sign .* \(the server's"):
            kept()
    assert world.entries() == before


@pytest.mark.parametrize("changes", [{"hidden": 8}, {"name": "other"}])
def test_what_cannot_change_within_a_run_is_refused(changes: dict[str, Any]) -> None:
    world = World(new_folder(), few())
    world.drive(rounds=1)
    with pytest.raises(MotifairError, match="are fixed within a run; put back those of trial-1"):
        World(world.folder, few(**changes)).drive()
