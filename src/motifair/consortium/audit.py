"""Audit: recompute every value, reward and payoff of a run from the retained uploads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from motifair.consortium.coordinator import Coordinator, RunCheckpoint
from motifair.consortium.terms import FederationTerms
from motifair.consortium.validation import Accepted
from motifair.errors import MotifairError
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms, Entry, Line
from motifair.statements.verification import Mismatch, Verdict


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
        made = _recompute(terms, folder, entry, checkpoint, accounts)
        if made.entry != entry:
            return Verdict(run, entry.number, rounds, accounts.head, _difference(entry, made.entry))
        accounts.add(entry)
        checkpoint, rounds = made, entry.round
    return Verdict(run, len(entries), rounds, accounts.head)


def _recompute(
    terms: FederationTerms,
    folder: Path,
    entry: Entry,
    checkpoint: RunCheckpoint | None,
    accounts: Accounts,
) -> RunCheckpoint:
    """Return the checkpoint after an entry, from the one before it."""
    if entry.kind == "terms":
        agreed = AgreedTerms.from_json(entry.terms)
        now = _as_agreed(terms, agreed)
        coordinator = _coordinator(now, entry.run, agreed)
        before = {j.name for j in checkpoint.roster} if checkpoint else set()
        new = [name for name in now.members if name not in before]
        tasks = coordinator.invitations()
        joined = _uploads(coordinator, folder, 0, {n: tasks[n] for n in new}, None)
        if checkpoint is None:
            return coordinator.open(joined, accounts)
        return coordinator.change(checkpoint, joined, accounts)
    if checkpoint is None:
        raise MotifairError("The ledger does not start with terms; verify it first.")
    coordinator = _coordinator(_as_agreed(terms, accounts.agreed), entry.run, accounts.agreed)
    present = {x.agent: checkpoint.tasks[x.agent] for x in entry.lines if x.status == "present"}
    accepted = _uploads(coordinator, folder, entry.round, present, checkpoint)
    rejected = {x.agent: x.reason for x in entry.lines if x.status == "rejected"}
    absent = {x.agent: x.reason for x in entry.lines if x.status == "absent"}
    return coordinator.next(checkpoint, accounts, accepted, rejected, absent)[0]


def _as_agreed(terms: FederationTerms, agreed: AgreedTerms) -> FederationTerms:
    """Return the terms with the members and quorum of an entry with terms."""
    config = replace(terms.config, agents=len(agreed.members))
    members = tuple(sorted(agreed.members))
    return replace(terms, members=members, quorum=agreed.quorum, config=config)


def _coordinator(terms: FederationTerms, run: str, agreed: AgreedTerms) -> Coordinator:
    return Coordinator(run, terms, agreed.members, agreed.operator)


def _uploads(
    coordinator: Coordinator,
    folder: Path,
    round: int,
    tasks: dict[str, bytes],
    checkpoint: RunCheckpoint | None,
) -> dict[str, Accepted]:
    """Read and check the uploads of a round."""
    sealed = {}
    for name in tasks:
        path = folder / "uploads" / f"{round:06}" / f"{name}.bin"
        if not path.exists():
            raise MotifairError(
                f"{path} is missing; an audit needs all uploads, which retain_uploads keeps."
            )
        sealed[name] = path.read_bytes()
    accepted, rejected = coordinator.collect(tasks, sealed, checkpoint.roster if checkpoint else ())
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
