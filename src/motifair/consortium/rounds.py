"""The rounds of a deployed run; a crash at any time neither loses nor repeats a payment.

After each round the checkpoint is saved with the round's entry, and then the entry is appended to
the ledger, where appending is idempotent. A run that continues from a saved checkpoint appends its
entry again first. A round that was not saved is repeated, with the same result, since agents reply
to the same task with the same bytes.

The last three positions are kept. A run continues from the newest that is not damaged and is in
the ledger's history; rounds after it are computed again from the uploads, and must give the same
entries.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from motifair.consortium.agent import LOST, OTHER_TERMS
from motifair.consortium.audit import rebuild, retained, upload_path
from motifair.consortium.checkpoint import good_checkpoints, missing_entries, save_checkpoint
from motifair.consortium.coordinator import Coordinator
from motifair.consortium.lateness import ANSWERS, late, record_answers
from motifair.consortium.live import LIVE, LiveStatusWriter
from motifair.consortium.run_state import RunCheckpoint
from motifair.consortium.store.lease import LedgerUnavailable
from motifair.consortium.store.ledger import Ledger
from motifair.consortium.transports import OnReply, Transport, ignore_reply
from motifair.consortium.validation import Accepted
from motifair.consortium.wire import digest, unseal
from motifair.errors import MotifairError
from motifair.files import write_atomic, write_json
from motifair.mechanism.judgement import handed_out
from motifair.statements.accounts import Accounts
from motifair.statements.entry import Entry

RESULT = "result.json"
JOIN_TRIES = 3
CHANGED = "it joined before with other graphs or terms; give it another name"
PAUSE = 2.0  # least seconds between two exchanges of one round
PATIENCE = 600.0  # seconds that a ledger may be unavailable before the run ends


@dataclass(frozen=True)
class RunDriver:
    """Runs the server's side of a run, with checkpoints in `folder`, the run's own.

    `on_entry` is called with every entry, `on_finish` with the checkpoint whose model is handed
    out, before the run counts as finished. `sign` signs entries with the key of the coordinator's
    `operator`.
    """

    transport: Transport
    coordinator: Coordinator
    ledger: Ledger
    folder: Path
    on_entry: Callable[[Entry], None] = lambda entry: None
    on_finish: Callable[[RunCheckpoint], None] = lambda checkpoint: None
    sign: Callable[[bytes], bytes] | None = None

    @cached_property
    def live(self) -> LiveStatusWriter:
        """Live status of the current exchange."""
        return LiveStatusWriter(self.folder / LIVE)

    def __call__(self, *, rounds: int | None = None) -> bool:
        """Start or continue the run, for at most `rounds` rounds; return whether it is finished."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / RESULT).exists():
            return True
        with self.ledger.lease(self.coordinator.run), self.live:
            return self._continue(rounds)

    def _continue(self, rounds: int | None) -> bool:
        checkpoint = self._recover() or self._open()
        accounts = self._accounts()
        if accounts.agreed.operator not in ("", self.coordinator.operator):
            raise MotifairError(
                f"The terms of run {self.coordinator.run} name another operator's key; put back "
                "the operator.key with which it began, or start a new run."
            )
        if accounts.agreed != self.coordinator.agreed:
            checkpoint = self._change(checkpoint)
            accounts = self._accounts()
        last = self.coordinator.terms.config.rounds
        until = last if rounds is None else min(last, checkpoint.round + rounds)
        first = checkpoint.round  # agents start up, or already have their answers
        while checkpoint.round < until:
            checkpoint = self._round(checkpoint, accounts, timed=checkpoint.round > first)
        if checkpoint.round < last:
            return False
        self._finish(checkpoint)
        return True

    def _recover(self) -> RunCheckpoint | None:
        """Return the checkpoint of the ledger's last entry; None if there is no entry.

        Entries of saved positions that the ledger lacks are appended. Without a good position of
        the last entry it is rebuilt from an earlier one, or from the start, by the uploads.
        """
        saved = list(good_checkpoints(self.folder))[::-1]
        entries = list(self.ledger.entries(self.coordinator.run))
        for entry in missing_entries(saved, entries):
            self._append(entry)
            entries.append(entry)
        if not entries:
            return None
        if entries[-1].kind == "audit":
            raise MotifairError(
                f"Run {self.coordinator.run} is closed: its audit of claims is recorded. Start a "
                "new run."
            )
        hashes = {entry.hash for entry in entries}
        fitting = [c for c in saved if c.entry.hash in hashes]
        newest = fitting[-1] if fitting else None
        if newest is not None and newest.entry.hash == entries[-1].hash:
            return newest
        try:
            rebuilt = rebuild(self.coordinator.terms, self._earlier, entries, newest)
        except MotifairError as error:
            raise MotifairError(
                f"No position in {self.folder} is good and fits the ledger, and it cannot be "
                f"rebuilt ({str(error).rstrip('.')}); restore a backup of the folder, or start "
                "a new run."
            ) from error
        save_checkpoint(self.folder, rebuilt)
        return rebuilt

    def _earlier(self, round: int, tasks: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return earlier uploads: retained, or sent again, since agents keep their last rounds."""
        if self.coordinator.terms.retain_uploads:
            return retained(self.folder, round, tasks)
        replies, failures = self._exchange(round, tasks)
        for name, reason in failures.items():
            raise MotifairError(
                f"'{name}' did not send its upload of round {round} again: {reason}"
            )
        return replies

    def _open(self) -> RunCheckpoint:
        joined = self._join(self.coordinator.terms.members)
        judged = self._judge(joined, None)
        return self._save(self.coordinator.open(joined, judged, self._accounts()))

    def _change(self, checkpoint: RunCheckpoint) -> RunCheckpoint:
        """Let new members join and be judged, and all sign; return the checkpoint with the new
        terms.
        """
        accounts = self._accounts()
        self._refuse_other_graphs(checkpoint, accounts)
        before = {j.name for j in checkpoint.roster}
        new = [n for n in self.coordinator.terms.members if n not in before]
        joined = self._join(new, accounts.keys)
        judged = self._judge(joined, checkpoint)
        signatures = self._consent(accounts) if accounts.agreed.operator else {}
        return self._save(self.coordinator.change(checkpoint, joined, judged, accounts, signatures))

    def _refuse_other_graphs(self, checkpoint: RunCheckpoint, accounts: Accounts) -> None:
        """Refuse terms under which a run's model or fingerprints could not go on."""
        terms, shared = self.coordinator.terms, self.coordinator.shared
        then = terms.as_agreed(accounts.agreed)
        fixed = ("name", "schema", "members_key")
        same = all(getattr(then, name) == getattr(terms, name) for name in fixed)
        if not same or shared.stop - shared.start != len(checkpoint.server.weights):
            raise MotifairError(
                "The federation's name, the schema of its graphs, the members' key and the shape "
                "of its model are fixed within a run; put back those of "
                f"{self.coordinator.run}, or start a new run."
            )

    def _consent(self, accounts: Accounts) -> dict[str, str]:
        """Ask all members to sign the changed terms; refuse to continue without one of them."""
        tasks = self.coordinator.proposals(accounts)
        signed: dict[str, str] = {}
        reasons: dict[str, str] = {}
        for _ in range(JOIN_TRIES):
            replies, reasons = self._exchange(
                accounts.round, {n: t for n, t in tasks.items() if n not in signed}
            )
            for name, answer in replies.items():
                if self.coordinator.is_signed(tasks[name], answer):
                    signed[name] = unseal(answer)[1].hex()
            if len(signed) == len(tasks):
                return signed
        name = min(tasks.keys() - signed.keys())
        raise MotifairError(
            f"'{name}' did not sign the changed terms ({reasons.get(name, 'not with its key')}); "
            "hand it the present terms (motifair federation terms) and start its agent, or remove "
            "it from the federation."
        )

    def _join(self, names: Sequence[str], former: Collection[str] = ()) -> dict[str, Accepted]:
        """Let members join; refuse to start without one.

        One of the `former` members joins as it did before: by that it was paid, and its claims can
        be audited.
        """
        tasks = self.coordinator.invitations()
        files = {n: upload_path(self.folder, 0, n, tasks[n]) for n in names if n in former}
        before = {n: digest(unseal(f.read_bytes())[0]) for n, f in files.items() if f.is_file()}
        return self._ask_all({n: tasks[n] for n in names}, "join", before=before)

    def _judge(
        self, joined: Mapping[str, Accepted], checkpoint: RunCheckpoint | None
    ) -> dict[str, Accepted]:
        """Have the models of who joins judged; refuse to go on without a judge that is asked."""
        tasks = self.coordinator.requests_to_judge(joined, checkpoint)
        return self._ask_all(tasks, "judge its peers", checkpoint.round if checkpoint else 0)

    def _ask_all(
        self,
        tasks: Mapping[str, bytes],
        what: str,
        round: int = 0,
        before: Mapping[str, str] | None = None,
    ) -> dict[str, Accepted]:
        """Ask members until all have given a valid answer, for some the one whose digest they gave
        `before`; refuse to start without one.
        """
        answers: dict[str, Accepted] = {}
        reasons: dict[str, str] = {}
        for _ in range(JOIN_TRIES):
            missing = {n: task for n, task in tasks.items() if n not in answers}
            if not missing:
                break
            replies, reasons = self._exchange(round, missing)
            accepted, rejected = self.coordinator.collect(missing, replies, ())
            rejected |= {
                name: CHANGED
                for name, first in (before or {}).items()
                if name in accepted and accepted[name].sha256 != first
            }
            accepted = {name: a for name, a in accepted.items() if name not in rejected}
            self._retain(round, {name: replies[name] for name in accepted}, tasks)
            answers |= accepted
            reasons |= rejected
        for name in tasks:
            if name not in answers:
                raise MotifairError(
                    f"'{name}' did not {what} ({reasons.get(name, 'no answer')}); start its agent, "
                    "or remove it from the federation."
                )
        return answers

    def _exchange(
        self, round: int, tasks: Mapping[str, bytes], on_reply: OnReply = ignore_reply
    ) -> tuple[dict[str, bytes], dict[str, str]]:
        """Send tasks, with the live status kept; return the replies, and why others are missing.

        `on_reply` is called as by `Transport.exchange`.
        """
        deadline = self.coordinator.terms.deadline

        def replied(name: str, seconds: float) -> None:
            self.live.replied(name)
            on_reply(name, seconds)

        self.live.started(round, tasks, deadline)
        try:
            return self.transport.exchange(tasks, deadline, replied)
        finally:
            self.live.ended()

    def _save(self, checkpoint: RunCheckpoint) -> RunCheckpoint:
        """Sign a checkpoint's entry, save it, append the entry to the ledger, and return it."""
        if self.sign is not None:
            checkpoint = checkpoint.under(checkpoint.entry.signed(self.sign))
        save_checkpoint(self.folder, checkpoint)
        self._append(checkpoint.entry)
        return checkpoint

    def _round(
        self, checkpoint: RunCheckpoint, accounts: Accounts, *, timed: bool
    ) -> RunCheckpoint:
        """Compute and save one round; where it is `timed`, answers may be late."""
        replies, absent, seconds = self._quorum(checkpoint)
        accepted, rejected = self._check(checkpoint, replies)
        record_answers(self.folder / ANSWERS, checkpoint.round + 1, seconds)
        absent |= self._late({n: seconds[n] for n in accepted}) if timed else {}
        accepted = {name: a for name, a in accepted.items() if name not in absent}
        differing = sorted(name for name, reason in absent.items() if OTHER_TERMS in reason)
        if differing and len(accepted) < self.coordinator.terms.quorum:
            raise MotifairError(
                f"'{differing[0]}' agreed to other terms, and too few are left; give members the "
                "present terms (motifair federation terms) and the same version of motifair, then "
                "start this again."
            )
        if alike := rejected_alike(rejected, len(checkpoint.roster)):
            raise MotifairError(
                f"Most uploads of round {checkpoint.round + 1} were rejected for one reason "
                f"({rejected[alike[0]]}): {', '.join(alike)}. Nothing was written; mend the cause "
                "(terms, versions, a server's model that diverged), then run this again."
            )
        valid = {name: replies[name] for name in accepted}
        self._retain(checkpoint.round + 1, valid, checkpoint.tasks)
        new, _ = self.coordinator.next(checkpoint, accounts, accepted, rejected, absent)
        saved = self._save(new)
        accounts.add(saved.entry)
        return saved

    def _late(self, seconds: Mapping[str, float]) -> dict[str, str]:
        """Return the reasons for valid answers that are late, if the quorum is kept without."""
        terms = self.coordinator.terms
        found = late(seconds, terms.max_time_ratio)
        return found if len(seconds) - len(found) >= terms.quorum else {}

    def _quorum(
        self, checkpoint: RunCheckpoint
    ) -> tuple[dict[str, bytes], dict[str, str], dict[str, float]]:
        """Ask for the uploads of a round until enough are valid; return them, who is absent, and
        how many seconds each took.

        Members that did not answer are asked again. An invalid upload, or an agent that needs the
        server's model, which it gets with the next round, is not waited for.
        """
        quorum = self.coordinator.terms.quorum
        replies: dict[str, bytes] = {}
        absent: dict[str, str] = {}
        asked = dict(checkpoint.tasks)
        began, seconds = time.monotonic(), dict[str, float]()
        while True:
            now = time.monotonic()
            again = now + PAUSE  # agents may fail at once

            def replied(name: str, took: float, waited: float = now - began) -> None:
                seconds[name] = waited + took

            answered, failed = self._exchange(checkpoint.round + 1, asked, replied)
            replies |= answered
            absent = {n: r for n, r in (absent | failed).items() if n not in replies}
            valid = len(self._check(checkpoint, replies)[0])
            asked = {n: checkpoint.tasks[n] for n, r in absent.items() if not _final(r)}
            if valid >= quorum or valid + len(asked) < quorum:
                return replies, absent, {name: seconds[name] for name in replies}
            time.sleep(max(0.0, again - time.monotonic()))

    def _check(
        self, checkpoint: RunCheckpoint, replies: Mapping[str, bytes]
    ) -> tuple[dict[str, Accepted], dict[str, str]]:
        """Return the valid uploads, and the reasons for rejecting the others."""
        accepted, rejected = self.coordinator.collect(checkpoint.tasks, replies, checkpoint.roster)
        rejected |= self.coordinator.unusual_lengths(checkpoint.roster, accepted)
        rejected |= self.coordinator.replayed(checkpoint, accepted)
        return {name: a for name, a in accepted.items() if name not in rejected}, rejected

    def _finish(self, checkpoint: RunCheckpoint) -> None:
        """Send agents their last reward, and write their final accuracies."""
        tasks = checkpoint.tasks
        replies, _ = self._exchange(checkpoint.round, tasks)
        accepted, _ = self.coordinator.collect(tasks, replies, checkpoint.roster)
        accuracy = {name: a.upload.accuracy for name, a in sorted(accepted.items())}
        chosen = self._handed_out(checkpoint)
        self.on_finish(chosen)
        result = {
            "run": self.coordinator.run,
            "rounds": checkpoint.round,
            "model_of_round": chosen.round,
            "head": checkpoint.entry.hash,
            "accuracy": accuracy,
            "metric": self.coordinator.terms.config.metric,
        }
        write_json(self.folder / RESULT, result)

    def _handed_out(self, last: RunCheckpoint) -> RunCheckpoint:
        """Return the checkpoint whose model is handed out: the last, or, if members find that
        worse than one of the last three, an earlier one. If too few answer, it is the last.
        """
        coordinator = self.coordinator
        saved = [c for c in good_checkpoints(self.folder) if c.entry.hash != last.entry.hash]
        kept = [*saved[::-1], last]
        models = [server_model(coordinator, c) for c in kept]
        requests = coordinator.requests_to_compare(models, last.round)
        replies, _ = self._exchange(last.round, requests) if requests else ({}, {})
        accepted, _ = coordinator.collect(requests, replies, ())
        if not requests or len(accepted) < coordinator.terms.quorum:
            return last
        self._retain(last.round, {name: replies[name] for name in accepted}, requests)
        said = [a.upload.judgement for a in accepted.values()]
        loss = np.stack([each[:, 0] for each in said if each is not None], axis=1)
        return kept[handed_out(torch.from_numpy(loss))]

    def _append(self, entry: Entry) -> None:
        """Append an entry to the ledger; retry while it is unavailable."""
        end, pause = time.monotonic() + PATIENCE, 0.2
        while True:
            try:
                self.ledger.append(entry)
                break
            except LedgerUnavailable:
                if time.monotonic() > end:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 5.0)
        self.on_entry(entry)

    def _accounts(self) -> Accounts:
        run = self.coordinator.run
        try:
            return Accounts.of(run, self.ledger.entries(run))
        except ValueError as error:
            raise MotifairError(
                f"The ledger {self.ledger.name} is damaged ({error}); see motifair ledger verify, "
                "and restore a backup."
            ) from error

    def _retain(self, round: int, replies: Mapping[str, bytes], tasks: Mapping[str, bytes]) -> None:
        """Write uploads to files if the terms ask for it, so that values can be recomputed."""
        if not self.coordinator.terms.retain_uploads:
            return
        for name, sealed in replies.items():
            path = upload_path(self.folder, round, name, tasks[name])
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, sealed)


def rejected_alike(rejected: Mapping[str, str], members: int) -> list[str]:
    """Return the members rejected for one reason, numbers in it aside, if they are most; else none.

    Then the fault is not one member's, and going on would lose all rounds that are left.

    >>> rejected_alike({"a": "3 bytes", "b": "4 bytes", "c": "cut off"}, 3)
    ['a', 'b']
    """
    alike: dict[str, list[str]] = {}
    for name, reason in rejected.items():
        alike.setdefault(re.sub(r"[-+.e\d]*\d", "#", reason), []).append(name)
    return next((sorted(names) for names in alike.values() if 2 * len(names) > members), [])


def _final(reason: str) -> bool:
    """Return whether asking again in this round is of no use."""
    return LOST in reason or OTHER_TERMS in reason


def server_model(coordinator: Coordinator, checkpoint: RunCheckpoint) -> torch.Tensor:
    """Return the server's model as a full row `(D,)`; unshared parameters have initial values."""
    row = coordinator.model.layout.initial(coordinator.terms.config.seed, torch.float32)
    row[coordinator.shared] = checkpoint.server.weights.float()
    return row
