"""The server of a deployed federation: write tasks, check uploads, compute rounds.

It maps a `RunCheckpoint` to the next one and has no other state, so that a run can continue from
any saved checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from motifair.consortium.agent import LOST
from motifair.consortium.judging import (
    models_to_judge,
    refuse_incomparable,
    roster_of,
    said_so_far,
)
from motifair.consortium.keys import verifier
from motifair.consortium.member_data import make_model
from motifair.consortium.membership import carry_over
from motifair.consortium.privacy import longest
from motifair.consortium.run_state import (
    JoinedMember,
    RunCheckpoint,
    believed_sizes,
    believed_weights,
    counted_sizes,
    judging_members,
    make_checkpoint,
    needed_tensor,
    update_digest,
)
from motifair.consortium.terms import FederationTerms
from motifair.consortium.validation import Accepted, Shape, open_upload
from motifair.consortium.wire import (
    AGREE,
    FINISH,
    JOIN,
    JUDGE,
    TRAIN,
    BadRecordError,
    Download,
    Upload,
    unseal,
)
from motifair.federation.contract import check_round
from motifair.federation.protocol import Downloads, Judgement, Uploads
from motifair.federation.round import serve_round
from motifair.federation.server import Record, Server, ServerState, masked_blocks
from motifair.graphs.features import reads_labels
from motifair.mechanism.bounds import REJECTED, too_long, too_short, usual_length
from motifair.methods import make_method
from motifair.motifs.vocabulary import MotifIndex
from motifair.motifs.wiring import measure_count
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms, Entry, Line, Status, clean_reason, terms_digest
from motifair.statements.verification import signed_message

MOST_BYTES_TO_JOIN = 2**28


class Coordinator:
    """Computes the rounds of one run for the members of `terms`.

    `keys` are the public keys of the members; `operator` is the public key for the signatures of
    entries, or ''.
    """

    def __init__(
        self, run: str, terms: FederationTerms, keys: Mapping[str, str], operator: str = ""
    ) -> None:
        self.run, self.terms, self.keys, self.operator = run, terms, keys, operator
        self.verify = verifier(keys)
        self.method = make_method(terms.config)
        self.model = make_model(terms.config, terms.schema)
        self.shared = self.model.layout.shared(self.method.share)
        self.units = 0  # whose second moments are made common
        if self.method.shares_moments(self.model.task):
            self.units = sum(n for n, _ in self.model.layout.units(self.shared))

    @property
    def agreed(self) -> AgreedTerms:
        """The terms as written to the ledger."""
        return self.terms.for_ledger(self.keys, self.operator)

    def invitations(self) -> dict[str, bytes]:
        """Return the tasks that ask members to join."""
        return {name: self._task(name, JOIN, 0).encode() for name in self.terms.members}

    def requests_to_judge(
        self, joined: Mapping[str, Accepted], checkpoint: RunCheckpoint | None = None
    ) -> dict[str, bytes]:
        """Return the tasks that ask members to judge models of their peers, if the method does:
        those of who joins, and these those of the others.

        Those to judge newcomers to a run name its last entry, so that answers are about this once.
        """
        if checkpoint is not None and joined:
            refuse_incomparable(checkpoint, judging=self.method.trial_rounds > 0)
        if not self.method.trial_rounds:
            return {}
        roster = roster_of(self.terms.members, checkpoint, joined)
        asked = models_to_judge(roster, joined, self.terms.config.seed)
        round, last = (checkpoint.round, checkpoint.entry) if checkpoint else (0, None)
        tasks = {n: self._task(n, JUDGE, round, last) for n in asked}
        return {n: replace(task, models=asked[n]).encode() for n, task in tasks.items()}

    def requests_to_compare(self, models: Sequence[Tensor], round: int) -> dict[str, bytes]:
        """Return the tasks that ask members how well models of the server's do, if the method has
        members judge models, and these have no parameters of members' own.
        """
        size = self.shared.stop - self.shared.start
        if not self.method.trial_rounds or size < self.model.layout.size or len(models) < 2:
            return {}
        shown = torch.stack(list(models)).numpy()
        tasks = {n: self._task(n, JUDGE, round) for n in self.terms.members}
        return {n: replace(task, models=shown).encode() for n, task in tasks.items()}

    def open(
        self,
        accepted: Mapping[str, Accepted],
        judged: Mapping[str, Accepted],
        accounts: Accounts,
    ) -> RunCheckpoint:
        """Return the first checkpoint from the uploads with which all members joined, and what
        they said of each other's models.
        """
        roster, said = roster_of(self.terms.members, None, accepted), None
        if self.method.trial_rounds:
            said = said_so_far(None, self.terms.members, judged, self.terms.config.seed)
        server = self.server(roster)
        initial = self.model.layout.initial(self.terms.config.seed, torch.float32)
        local = None
        if self.method.uses_prototypes:
            local = torch.cat([needed_tensor(accepted[j.name].upload.prototypes) for j in roster])
        found = None if said is None else Judgement(*said)
        state = server.start(initial[self.shared], local, found)
        entry = accounts.agree(self.agreed)
        tasks = self._tasks(roster, state, _no_rewards(server, state), entry, set())
        return make_checkpoint(roster, state, tasks, entry, {}, said)

    def proposals(self, accounts: Accounts) -> dict[str, bytes]:
        """Return the tasks that ask all members to sign the changed terms."""
        terms, head = self.agreed.to_json(), accounts.head
        tasks = {n: self._task(n, AGREE, accounts.round) for n in self.terms.members}
        return {n: replace(t, changed=terms, head=head).encode() for n, t in tasks.items()}

    def is_signed(self, proposal: bytes, answer: bytes) -> bool:
        """Return whether the answer to a proposal is the member's signature of it."""
        task = Download.decode(proposal)
        about = (task.run, task.round, task.agent, terms_digest(task.changed), task.head)
        try:
            return self.verify(task.agent, signed_message(*about), unseal(answer)[1])
        except BadRecordError:
            return False

    def change(
        self,
        checkpoint: RunCheckpoint,
        accepted: Mapping[str, Accepted],
        judged: Mapping[str, Accepted],
        accounts: Accounts,
        signatures: Mapping[str, str],
    ) -> RunCheckpoint:
        """Return the checkpoint to continue from with other members or terms.

        `accepted` has the uploads with which new members joined, `judged` what was said of their
        models and by them, `signatures` (hex) are those of all members under the terms.
        """
        names = self.terms.members
        roster, said = roster_of(names, checkpoint, accepted), checkpoint.said
        server = self.server(roster)
        state = checkpoint.server
        if roster != checkpoint.roster:
            if said is not None:
                said = said_so_far(checkpoint, names, judged, self.terms.config.seed)
            state = carry_over(checkpoint, roster, self.server(checkpoint.roster), server, said)
        entry = accounts.agree(replace(self.agreed, signatures=dict(signatures)))
        tasks = self._tasks(roster, state, _no_rewards(server, state), entry, set(accepted))
        for name in tasks.keys() - accepted.keys():  # their pending rewards are still to be sent
            pending, task = Download.decode(checkpoint.tasks[name]), tasks[name]
            tasks[name] = replace(pending, task=task.task, terms=task.terms)
        return make_checkpoint(roster, state, tasks, entry, checkpoint.updates, said)

    def collect(
        self,
        tasks: Mapping[str, bytes],
        replies: Mapping[str, bytes],
        roster: Sequence[JoinedMember],
    ) -> tuple[dict[str, Accepted], dict[str, str]]:
        """Check replies; return the accepted uploads, and the reasons for rejecting the others."""
        motifs = {j.name: len(j.motifs) for j in roster}  # empty while members join
        size, p = self.shared.stop - self.shared.start, self.terms.privacy
        max_norm = min(self.terms.max_norm, longest(p.clip_update, p.noise_update, size))
        accepted: dict[str, Accepted] = {}
        rejected: dict[str, str] = {}
        for name, sealed in replies.items():
            task = Download.decode(tasks[name])
            shape = partial(self._shape, motifs.get(name, 0), task)
            if len(sealed) > self._most_bytes(motifs.get(name)):
                rejected[name] = f"an upload of {len(sealed)} bytes"
                continue
            try:
                accepted[name] = open_upload(
                    task,
                    sealed,
                    self.verify,
                    shape=shape,
                    max_norm=max_norm,
                    hashed=bool(self.terms.members_key),
                )
            except BadRecordError as error:
                rejected[name] = str(error)
        return accepted, rejected

    def unusual_lengths(
        self, roster: Sequence[JoinedMember], accepted: Mapping[str, Accepted]
    ) -> dict[str, str]:
        """Return the reasons to reject updates much longer or shorter than others in the round."""
        names = [j.name for j in roster if j.name in accepted]
        updates = [needed_tensor(accepted[name].upload.update) for name in names]
        length = torch.tensor([float(u.double().norm()) for u in updates], dtype=torch.float64)
        steps = self._steps(roster)[[j.name in accepted for j in roster]]
        usual = usual_length(length, steps)
        limits = (
            (too_long(length, steps), f"{REJECTED:g} times that the most"),
            (too_short(length), "a tenth of the median the least"),
        )
        return {
            names[k]: f"an update of length {length[k]:.4g}, where {usual[k]:.4g} is usual in "
            f"this round, and {limit}"
            for unusual, limit in limits
            for k in unusual.nonzero().flatten().tolist()
        }

    def replayed(
        self, checkpoint: RunCheckpoint, accepted: Mapping[str, Accepted]
    ) -> dict[str, str]:
        """Return the reasons to reject updates that their members sent in an earlier round."""
        return {
            name: "the same update as in an earlier round"
            for name, a in accepted.items()
            if update_digest(a.upload) in checkpoint.updates.get(name, ())
        }

    def next(
        self,
        checkpoint: RunCheckpoint,
        accounts: Accounts,
        accepted: Mapping[str, Accepted],
        rejected: Mapping[str, str],
        absent: Mapping[str, str],
    ) -> tuple[RunCheckpoint, Record]:
        """Compute and settle a round; return the next checkpoint and the record of the round.

        Below the quorum, or if the values of the present agents do not add up to more than 0, all
        agents keep their values, and none is rewarded.
        """
        roster, server = checkpoint.roster, self.server(checkpoint.roster)
        present = torch.tensor([j.name in accepted for j in roster])
        enough = len(accepted) >= self.terms.quorum
        idle = not enough or float(checkpoint.server.value[present].sum()) <= 0
        if not idle:
            uploads = self._uploads(roster, accepted)
            state, downloads, record = serve_round(
                server, checkpoint.server, uploads, None if present.all() else present
            )
            row = {name: column.numpy() for name, column in record.items()}
            check_round(self.method, checkpoint.round + 1, [j.name for j in roster], row)
        else:
            state, downloads, record = self._idle(server, checkpoint.server)
        entry = accounts.settle(self._lines(roster, record, accepted, rejected, absent))
        lost = {name for name, reason in absent.items() if LOST in reason}
        # If all agents are to have the server's model, those that missed this round get it whole.
        away = {j.name for j in roster if idle or j.name not in accepted}
        behind = away if self.method.returning == "server" else lost
        tasks = self._tasks(roster, state, downloads, entry, behind)
        updates = dict(checkpoint.updates)
        for name, a in accepted.items():
            updates[name] = (*updates.get(name, ()), update_digest(a.upload))
        return make_checkpoint(roster, state, tasks, entry, updates, checkpoint.said), record

    def server(self, roster: Sequence[JoinedMember]) -> Server:
        """Return the server for these members."""
        index = [MotifIndex.of([j.motifs for j in roster])] if self.method.uses_motifs else []
        return Server(
            self.method,
            counted_sizes(self.terms, roster),
            masked_blocks(self.method, self.model),
            index,
            self.model.hidden,
            torch.tensor(self.terms.config.seed),
            believed=believed_sizes(self.terms, roster),
            graph_weight=believed_weights(self.terms, roster),
            judges=judging_members(self.terms, roster),
            bounded=True,
        )

    def _steps(self, roster: Sequence[JoinedMember]) -> Tensor:
        return self.method.steps(counted_sizes(self.terms, roster))

    def _idle(self, server: Server, state: ServerState) -> tuple[ServerState, Downloads, Record]:
        """Return the state, downloads and record of a round without rewards."""
        new = replace(state, round=state.round + 1)
        record = {
            "value": state.value,
            "alignment": torch.full_like(state.value, torch.nan),
            "diversity": server.diversity,
            "kept": torch.zeros_like(state.value),
        }
        return new, _no_rewards(server, new), record

    def _uploads(self, roster: Sequence[JoinedMember], accepted: Mapping[str, Accepted]) -> Uploads:
        """Return uploads as rows in the order of the roster, zeros for absent agents."""
        uploads = {name: a.upload for name, a in accepted.items()}
        size = self.shared.stop - self.shared.start
        hidden = self.model.hidden

        def rows(name: str, size: int) -> Tensor:
            empty = np.zeros(size, np.float32)
            return torch.from_numpy(
                np.stack(
                    [getattr(uploads[j.name], name) if j.name in uploads else empty for j in roster]
                )
            )

        def numbers(name: str) -> Tensor:
            return torch.tensor([getattr(uploads.get(j.name), name, 0.0) for j in roster])

        prototypes = None
        if self.method.uses_prototypes:
            parts = [
                needed_tensor(uploads[j.name].prototypes)
                if j.name in uploads
                else torch.zeros(len(j.motifs), hidden)
                for j in roster
            ]
            prototypes = torch.cat(parts)
        return Uploads(
            update=rows("update", size),
            gradient=rows("gradient", size) if self.method.uses_gradients else None,
            gradient_norm=numbers("gradient_norm"),
            prototypes=prototypes,
            loss=numbers("loss"),
            moments=rows("moments", self.units) if self.units else None,
        )

    def _lines(
        self,
        roster: Sequence[JoinedMember],
        record: Record,
        accepted: Mapping[str, Accepted],
        rejected: Mapping[str, str],
        absent: Mapping[str, str],
    ) -> list[Line]:
        return [
            Line.unsettled(
                j.name,
                {column: float(numbers[i]) for column, numbers in record.items()},
                _status(j.name, accepted, rejected),
                clean_reason(rejected.get(j.name) or absent.get(j.name, "")),
                accepted[j.name].sha256 if j.name in accepted else "",
                accepted[j.name].signature if j.name in accepted else "",
            )
            for i, j in enumerate(roster)
        ]

    def _tasks(
        self,
        roster: Sequence[JoinedMember],
        state: ServerState,
        downloads: Downloads,
        entry: Entry,
        behind: set[str],
    ) -> dict[str, Download]:
        """Return the task of each agent, with its own reward or, if it is `behind`, a model."""
        round = entry.round + 1
        last = round > self.terms.config.rounds
        initial = self.model.layout.initial(self.terms.config.seed, torch.float32)[self.shared]
        weights = self.server(roster).models(state, initial) if behind else None
        reward = downloads.reward.float().numpy()
        ends = np.cumsum([len(j.motifs) for j in roster])
        tasks = {}
        for i, j in enumerate(roster):
            task = self._task(j.name, FINISH if last else TRAIN, round)
            if weights is not None and j.name in behind:
                task = replace(task, weights=weights[i].float().numpy())
            else:
                retained = float(downloads.retained[i])
                task = replace(task, reward=reward[i], retained=retained)
            if downloads.prototypes is not None and downloads.active is not None:
                own = slice(int(ends[i]) - len(j.motifs), int(ends[i]))
                task = replace(
                    task,
                    prototypes=downloads.prototypes[own].float().numpy(),
                    active=downloads.active[own].numpy(),
                )
            if downloads.moments is not None:
                task = replace(task, moments=downloads.moments[i].numpy())
            tasks[j.name] = task
        return tasks

    def _task(self, name: str, task: str, round: int, last: Entry | None = None) -> Download:
        made = Download(run=self.run, round=round, agent=name, task=task, terms=self.terms.digest)
        return made if last is None else replace(made, number=last.number, head=last.hash)

    def _most_bytes(self, motifs: int | None) -> int:
        """Return the most bytes of an upload; `motifs` is None for an agent that joins."""
        if motifs is None:
            return MOST_BYTES_TO_JOIN
        size = int(self.shared.stop - self.shared.start)
        return 2**16 + 4 * (2 * size + self.units + motifs * self.model.hidden)

    def _shape(self, motifs: int, task: Download, upload: Upload) -> Shape:
        """Return the shape that the arrays of an upload must have.

        An agent that joins sends its motifs in the upload; else it has `motifs` of them.
        """
        if upload.task == FINISH:
            return Shape()
        if upload.task == JUDGE:
            return Shape(judgement=(0 if task.models is None else len(task.models), 2))
        size = self.shared.stop - self.shared.start
        count = len(upload.motifs) if upload.task == JOIN else motifs
        prototypes = (count, self.model.hidden) if self.method.uses_prototypes else None
        if upload.task == JOIN:
            trial = self.model.layout.size if self.method.trial_rounds else None
            if not self.method.believes:
                return Shape(prototypes=prototypes, trial=trial)
            measures = measure_count(labels=reads_labels(self.terms.schema.features))
            prints = upload.graphs
            return Shape(prototypes=prototypes, fingerprints=prints, wiring=measures, trial=trial)
        gradient = size if self.method.uses_gradients else None
        return Shape(size, gradient, prototypes, moments=self.units or None)


def _no_rewards(server: Server, state: ServerState) -> Downloads:
    agents = len(state.value)
    nothing = torch.zeros(agents, len(state.weights))
    return Downloads(nothing, torch.ones(agents), *server.for_agents(state))


def _status(name: str, accepted: Mapping[str, Accepted], rejected: Mapping[str, str]) -> Status:
    if name in accepted:
        return "present"
    return "rejected" if name in rejected else "absent"
