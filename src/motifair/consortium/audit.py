"""Audit: recompute every value, reward and payoff of a run from the retained uploads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from motifair.consortium.coordinator import Coordinator
from motifair.consortium.run_state import RunCheckpoint
from motifair.consortium.terms import FederationTerms
from motifair.consortium.validation import Accepted
from motifair.consortium.wire import JUDGE, Download
from motifair.errors import MotifairError
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms, Entry, Line
from motifair.statements.verification import Mismatch, Verdict

Read = Callable[[int, Mapping[str, bytes]], dict[str, bytes]]
"""Return the uploads with which agents answered these tasks of a round."""


def audit(terms: FederationTerms, folder: Path, entries: Sequence[Entry]) -> Verdict:
    """Recompute a run from its retained uploads in `folder`, and compare it with its ledger.

    The verdict names the first entry that differs, and the member if it is a line.
    """
    if not entries:
        raise MotifairError("The ledger has no entry of this run; check its name.")
    run = entries[0].run
    accounts, checkpoint = Accounts(run), None
    rounds = 0
    for entry in entries:
        if entry.kind == "audit":  # there is nothing of it to recompute; `verify` checks it
            again, made = accounts.audit(entry.lines), checkpoint
        else:
            made = recompute(terms, partial(retained, folder), entry, checkpoint, accounts)
            again = made.entry
        if again != entry or made is None:
            return Verdict(run, entry.number, rounds, accounts.head, _difference(entry, again))
        accounts.add(entry)
        # The hash of its position may differ: members signed the one in the ledger.
        checkpoint, rounds = made.under(entry), entry.round
    return Verdict(run, len(entries), rounds, accounts.head)


def rebuild(
    terms: FederationTerms, read: Read, entries: Sequence[Entry], checkpoint: RunCheckpoint | None
) -> RunCheckpoint:
    """Return the checkpoint after the last entry from an earlier one, or from none.

    Raise MotifairError if the uploads do not give the entries.
    """
    done = 0 if checkpoint is None else checkpoint.entry.number + 1
    accounts = Accounts.of(entries[0].run, entries[:done])
    for entry in entries[done:]:
        checkpoint = recompute(terms, read, entry, checkpoint, accounts)
        if checkpoint.entry.hash != entry.hash:
            raise MotifairError(f"The uploads of round {entry.round} do not give its entry.")
        checkpoint = checkpoint.under(entry)  # members signed what they were sent
        accounts.add(entry)
    assert checkpoint is not None
    return checkpoint


def recompute(
    terms: FederationTerms,
    read: Read,
    entry: Entry,
    checkpoint: RunCheckpoint | None,
    accounts: Accounts,
) -> RunCheckpoint:
    """Return the checkpoint after an entry, from the one before it and the uploads."""
    if entry.kind == "terms":
        agreed = AgreedTerms.from_json(entry.terms)
        now = terms.as_agreed(agreed)
        coordinator = _coordinator(now, entry.run, agreed)
        before = {j.name for j in checkpoint.roster} if checkpoint else set()
        new = [name for name in now.members if name not in before]
        tasks = coordinator.invitations()
        joined = _uploads(coordinator, read, 0, {n: tasks[n] for n in new}, None)
        asked = coordinator.requests_to_judge(joined, checkpoint)
        judged = _uploads(coordinator, read, entry.round, asked, None)
        if checkpoint is None:
            return coordinator.open(joined, judged, accounts)
        return coordinator.change(checkpoint, joined, judged, accounts, agreed.signatures)
    if checkpoint is None:
        raise MotifairError("The ledger does not start with terms; verify it first.")
    coordinator = _coordinator(terms.as_agreed(accounts.agreed), entry.run, accounts.agreed)
    present = {x.agent: checkpoint.tasks[x.agent] for x in entry.lines if x.status == "present"}
    accepted = _uploads(coordinator, read, entry.round, present, checkpoint)
    rejected = {x.agent: x.reason for x in entry.lines if x.status == "rejected"}
    absent = {x.agent: x.reason for x in entry.lines if x.status == "absent"}
    return coordinator.next(checkpoint, accounts, accepted, rejected, absent)[0]


def _coordinator(terms: FederationTerms, run: str, agreed: AgreedTerms) -> Coordinator:
    return Coordinator(run, terms, agreed.members, agreed.operator)


def retained(folder: Path, round: int, tasks: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the uploads of a round, as `retain_uploads` keeps them."""
    sealed = {}
    for name in tasks:
        path = upload_path(folder, round, name, tasks[name])
        if not path.is_file():
            raise MotifairError(
                f"{path} is missing; an audit needs all uploads, which retain_uploads keeps."
            )
        sealed[name] = path.read_bytes()
    return sealed


def upload_path(folder: Path, round: int, name: str, task: bytes) -> Path:
    """Return the file of a retained upload; joining is round 0, as is judging peers at first.

    What is said of newcomers is named by the entry before: several may join in one round.
    """
    download = Download.decode(task)
    kind = ".judgement" if download.task == JUDGE else ""
    if kind and download.number >= 0:
        kind += f"-{download.number}"
    return folder / "uploads" / f"{round:06}" / f"{name}{kind}.bin"


def _uploads(
    coordinator: Coordinator,
    read: Read,
    round: int,
    tasks: dict[str, bytes],
    checkpoint: RunCheckpoint | None,
) -> dict[str, Accepted]:
    """Read and check the uploads of a round."""
    roster = checkpoint.roster if checkpoint else ()
    accepted, rejected = coordinator.collect(tasks, read(round, tasks), roster)
    for name, reason in rejected.items():
        raise MotifairError(f"The upload of {name} in round {round} cannot be used: {reason}.")
    return accepted


def _difference(entry: Entry, made: Entry) -> Mismatch:
    for line, again in zip(entry.lines, made.lines, strict=False):
        if line != again:
            return Mismatch(entry.number, entry.round, line.agent, _first_difference(line, again))
    return Mismatch(entry.number, entry.round, "", "the recomputed entry differs")


def _first_difference(line: Line, again: Line) -> str:
    for name in vars(line):
        if name != "recorded" and getattr(line, name) != getattr(again, name):
            computed, recorded = getattr(again, name), getattr(line, name)
            return f"{name} is {recorded}, but the uploads give {computed}"
    return "the recomputed line differs"
