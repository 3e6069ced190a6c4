"""A member's agent, which answers the server's tasks.

Its state is saved by run and round before an answer is sent, so that a repeated task (after a
crash) gets the same answer, and nothing is trained twice.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motifair.consortium.member_data import MemberData
from motifair.consortium.privacy import NOISE_KEY, check_task, noise_secret, reveal
from motifair.consortium.terms import NAME, FederationTerms
from motifair.consortium.wire import (
    AGREE,
    FINISH,
    JOIN,
    JUDGE,
    TRAIN,
    Download,
    Floats,
    Upload,
    digest,
    seal,
    unseal,
)
from motifair.errors import MotifairError
from motifair.federation.agents import Agents, AgentsState, local_training, own_seed
from motifair.federation.protocol import Downloads
from motifair.federation.state import agent_tensors, read_agents
from motifair.federation.tensor_file import DamagedFileError, read_tensors, write_tensors
from motifair.learning.randomness import stream_keys
from motifair.methods import make_method
from motifair.statements.entry import AgreedTerms, terms_digest
from motifair.statements.signatures import is_signed
from motifair.statements.verification import Head, head_line, signed_message

logger = logging.getLogger(__name__)

FORMAT = "motifair-round-2"  # of a stored round; those before had no checksum
CPU = torch.device("cpu")
ROUNDS_KEPT = 3
OTHER_TERMS = "the server's terms are not those this member agreed to"
HEADS = "heads.jsonl"
LOST = "a model to begin from is needed"  # in the answer of an agent that lost its state


@dataclass(frozen=True)
class StoredRound:
    """A round on disk: the digest of the task, the answer, the state after training, and the shared
    weights before it.
    """

    task: str
    answer: bytes
    state: AgentsState
    before: Tensor


class MemberAgent:
    """One member's agent; `sign` signs with its key, `seed` is its secret, `operator` is the public
    key of the operator, if it is known.
    """

    def __init__(
        self,
        name: str,
        terms: FederationTerms,
        data: MemberData,
        folder: Path,
        *,
        sign: Callable[[bytes], bytes],
        seed: int,
        operator: str = "",
    ) -> None:
        self.operator = operator
        self.name, self.terms, self.data, self.folder = name, terms, data, folder
        self.sign, self._seed, self._number = sign, digest(str(seed).encode()), seed
        self.method = make_method(terms.config)
        self.agents = Agents(
            stream_keys(seed, [name], CPU),
            stream_keys(own_seed(seed), [name], CPU),
            [data.train],
            [data.test],
            self.method,
            local_training(terms.config, self.method, data.model, CPU),
            batch_size=terms.config.batch_size,
            local_steps=terms.config.local_steps,
            stacks=[[0]],
            threads=1,
            federations=1,
            dtype=torch.float32,
        )
        self.shared = self.agents.shared

    def __call__(self, task: bytes) -> bytes:
        """Return the sealed answer to a task of the server."""
        download = Download.decode(task)
        self._check(download)
        if download.task == AGREE:
            return seal(b"", self._agree(download))
        if download.task == JUDGE:  # said again at little cost; the answer to join is kept
            return self._sealed(self._judge(download))
        path = self._path(download.run, download.round)
        stored = self._stored(path)
        if stored is None or stored.task != digest(task):
            if self.terms.privacy.noisy:
                self._refuse_lost(download)
            do = {JOIN: self._join, TRAIN: self._train, FINISH: self._finish}[download.task]
            upload, state, before = do(download)
            answer = self._sealed(self._revealed(upload))
            if self.terms.privacy.noisy:
                self._refuse_more(download, stored, answer)
            stored = StoredRound(digest(task), answer, state, before)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._keep_head(download)
            self._write(path, stored)
            self._path(download.run, download.round - ROUNDS_KEPT).unlink(missing_ok=True)
        return stored.answer

    def state(self, run: str) -> tuple[int, AgentsState]:
        """Return the last round with a saved state, and that state."""
        last = max(self._rounds(run), default=None)
        if last is None:
            raise MotifairError(f"'{self.name}' has not taken part in run {run} yet.")
        kept = self._stored(self._path(run, last))
        if kept is None:
            raise MotifairError(
                f"{self._path(run, last)} is damaged; restore a backup of the state."
            )
        return last, kept.state

    def _check(self, download: Download) -> None:
        if not NAME.fullmatch(download.run) or download.round < 0:
            raise MotifairError(f"a run cannot be called {download.run!r:.40}")
        if download.agent != self.name:
            raise MotifairError(f"a task for '{download.agent}' came to '{self.name}'")
        if download.terms != self.terms.digest:
            raise MotifairError(OTHER_TERMS)
        if download.task not in (JOIN, JUDGE, TRAIN, FINISH, AGREE):
            raise MotifairError(f"there is no task '{download.task}'")
        if download.task == JUDGE and not self.method.trial_rounds:
            raise MotifairError("the terms ask nobody to judge models")
        receipt = (self.operator, download.receipt, download.head.encode())
        if self.operator and download.task in (TRAIN, FINISH) and not is_signed(*receipt):
            raise MotifairError(f"{OTHER_TERMS}: the ledger's head is not signed by the operator")

    def _agree(self, download: Download) -> bytes:
        """Sign terms that were changed if they are those in this member's kit.

        Who else takes part may differ: members come and go.
        """
        try:
            changed = AgreedTerms.from_json(download.changed)
        except ValueError as error:
            raise MotifairError(f"{OTHER_TERMS}: {error}") from None
        mine = self.terms.with_members(changed.members)
        if mine.for_ledger(changed.members, self.operator or changed.operator) != changed:
            raise MotifairError(OTHER_TERMS)
        about = (download.run, download.round, self.name)
        message = signed_message(*about, terms_digest(download.changed), download.head)
        signature = self.sign(message)
        if not is_signed(changed.members.get(self.name, ""), signature.hex(), message):
            raise MotifairError(f"{OTHER_TERMS}: they name another key of this member")
        return signature

    def _refuse_lost(self, download: Download) -> None:
        """Refuse a run that was answered before if its noise key or its rounds are lost: with a new
        key, or another count of answers, the server could average noise away.

        An agent that joined a run has its last rounds, so only a task to join may find none.
        """
        run = download.run
        kept = bool(self._rounds(run))
        whole = kept and (self.folder / run / NOISE_KEY).exists()
        heads = self.folder / HEADS
        answered = kept or (
            heads.exists() and f'"run": "{run}"' in heads.read_text(errors="replace")
        )
        if not whole and (answered or download.task != JOIN):
            raise MotifairError(
                f"the noise key of run {run}, or the count of its answers, is lost; answering "
                "again would reveal more than agreed: start a new run"
            )

    def _refuse_more(self, download: Download, stored: StoredRound | None, answer: bytes) -> None:
        """Refuse an answer that would reveal more than agreed, such as a second one to a round."""
        check_task(download, self.terms.config.rounds, max(self._rounds(download.run), default=-1))
        if stored is not None and _without_head(stored.answer) != _without_head(answer):
            raise MotifairError("this round was answered, and another answer would give more away")

    def _join(self, download: Download) -> tuple[Upload, AgentsState, Tensor]:
        own, summary = self._own(), self.data.summary
        state = self._start(own)
        upload = replace(
            self._blank(download),
            graphs=len(self.data.train),
            motifs=self.data.motifs,
            prototypes=self._prototypes(state),
            fingerprints=None if summary is None else summary.fingerprints,
            wiring=None if summary is None else summary.wiring,
            trial=own.weights[0].numpy() if own and self.method.trial_rounds else None,
        )
        return upload, state, state.weights[:, self.shared]

    def _judge(self, download: Download) -> Upload:
        """Say how well models of peers, or of the server's own, do on its training graphs."""
        models, size = download.models, self.data.model.layout.size
        if models is None or models.ndim != 2 or models.shape[1] != size:
            raise MotifairError("the server sent models of another shape to judge")
        each = [m[None] for m in torch.from_numpy(models.copy())]
        said = self.agents.judge(each, as_they_are=download.compares)
        return replace(self._blank(download), judgement=torch.cat(said, dim=1).numpy())

    def _train(self, download: Download) -> tuple[Upload, AgentsState, Tensor]:
        before = self._adopted(download)
        prototypes = active = None
        if self.method.uses_prototypes:
            prototypes, active = _tensor(download.prototypes), _tensor(download.active)
        own = download.round > self.method.trial_rounds  # until then it is ahead
        number = torch.tensor(download.round)
        trained, sent = self.agents.train(before, number, prototypes, active, own=own)
        upload = replace(
            self._blank(download),
            graphs=len(self.data.train),
            update=sent.update[0].numpy(),
            gradient=None if sent.gradient is None else sent.gradient[0].numpy(),
            gradient_norm=float(sent.gradient_norm[0]),
            prototypes=None if sent.prototypes is None else sent.prototypes.numpy(),
            loss=float(sent.loss[0]),
            moments=None if sent.moments is None else sent.moments[0].numpy(),
        )
        return upload, trained, before.weights[:, self.shared]

    def _finish(self, download: Download) -> tuple[Upload, AgentsState, Tensor]:
        state = self._adopted(download)
        accuracy = float(self.agents.evaluate(state)[0])
        upload = replace(self._blank(download), accuracy=accuracy)
        return upload, state, state.weights[:, self.shared]

    def _adopted(self, download: Download) -> AgentsState:
        """Return the state after the last saved round, updated with what the server sent.

        An agent that was absent continues from its own model, or from the server's if it was sent.
        One whose last state is lost or damaged asks for the server's, and is absent for a round.
        """
        earlier = sorted(
            (r for r in self._rounds(download.run) if r < download.round), reverse=True
        )
        states = [self._stored(self._path(download.run, r)) for r in earlier]
        kept = next((s for s in states if s is not None), None)
        if (kept is None or kept is not states[0]) and download.weights is None:
            raise MotifairError(f"no state of an earlier round; {LOST}")
        if kept is None:
            fresh = self._start(self._own())
            kept = StoredRound("", b"", fresh, fresh.weights[:, self.shared])
        if self.method.own_weight and kept.state.own is None:
            # The terms had no separate models of agents before.
            kept = replace(kept, state=replace(kept.state, own=self._own()))
        common = None
        if download.moments is not None:
            common = torch.from_numpy(download.moments.copy())[None]
        if download.weights is not None:
            weights = kept.state.weights.clone()
            weights[:, self.shared] = torch.from_numpy(download.weights)
            moments = self.agents.with_common(kept.state.moments, common)
            return replace(kept.state, weights=weights, moments=moments)
        old = kept.state.weights.clone()
        old[:, self.shared] = kept.before
        reward = (
            torch.zeros_like(kept.before) if download.reward is None else _tensor(download.reward)
        )
        retained = torch.tensor([download.retained], dtype=torch.float64)
        return self.agents.adopt(
            replace(kept.state, weights=old),
            kept.state,
            Downloads(reward.view(1, -1), retained, None, None, common),
        )

    def _start(self, own: AgentsState | None) -> AgentsState:
        return self.agents.start(self._initial(self.terms.config.seed), own)

    def _own(self) -> AgentsState | None:
        """Return this member's own model, trained alone where its peers judge it."""
        initial = self._initial(own_seed(self.terms.config.seed))
        return self.agents.train_alone(initial, self.method.trial_rounds)

    def _initial(self, seed: int) -> Tensor:
        return self.data.model.layout.initial(seed, torch.float32)[None]

    def _prototypes(self, state: AgentsState) -> Floats | None:
        if not self.method.uses_prototypes:
            return None
        return self.agents.prototypes(state).numpy()

    def _blank(self, download: Download) -> Upload:
        about = {name: getattr(download, name) for name in ("run", "round", "task", "head")}
        return Upload(agent=self.name, **about)

    def _revealed(self, upload: Upload) -> Upload:
        noisy = self.terms.privacy.noisy
        secret = noise_secret(self.folder / upload.run) if noisy else b""
        return reveal(upload, self.terms.privacy, secret)

    def _sealed(self, upload: Upload) -> bytes:
        content = upload.encode()
        text = signed_message(upload.run, upload.round, self.name, digest(content), upload.head)
        return seal(content, self.sign(text))

    def _keep_head(self, download: Download) -> None:
        """Append the head of the ledger to the file that `ledger verify --heads` reads."""
        if download.head:
            with (self.folder / HEADS).open("a") as file:
                if _torn(self.folder / HEADS):  # the disk was full: that line alone is lost
                    file.write("\n")
                head = Head(download.number, download.head, download.receipt)
                file.write(head_line(download.run, head))
                file.flush()
                os.fsync(file.fileno())

    def _write(self, path: Path, kept: StoredRound) -> None:
        tensors = {
            **agent_tensors(kept.state),
            "before": kept.before,
            "answer": torch.from_numpy(np.frombuffer(kept.answer, np.uint8).copy()),
        }
        write_tensors(path, tensors, {"format": FORMAT, "task": kept.task, "seed": self._seed})

    def _stored(self, path: Path) -> StoredRound | None:
        """Read a stored round; None if there is none, or it is damaged or made with another seed.

        Another seed would train on what were test graphs.
        """
        if not path.exists():
            return None
        try:
            about, tensors = read_tensors(path, FORMAT, "it counts as lost")
        except DamagedFileError as error:
            logger.warning("%s", error)
            return None
        if (about.get("format"), about.get("seed")) != (FORMAT, self._seed):
            return None
        answer = tensors["answer"].numpy().tobytes()
        return StoredRound(about["task"], answer, read_agents(tensors), tensors["before"])

    def _path(self, run: str, round: int) -> Path:
        return self.folder / run / f"round-{round:06}.safetensors"

    def _rounds(self, run: str) -> list[int]:
        return [int(p.stem[6:]) for p in (self.folder / run).glob("round-*.safetensors")]


def _without_head(answer: bytes) -> bytes:
    """Return what an answer reveals: after a change of terms it names another head."""
    return replace(Upload.decode(unseal(answer)[0]), head="").encode()


def _torn(path: Path) -> bool:
    """Return whether the last line of a file was not written to its end."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1))
        return file.read() not in (b"", b"\n")


def _tensor(array: np.ndarray | None) -> Tensor:
    if array is None:
        raise MotifairError("the server sent no prototypes, but the method needs them")
    return torch.from_numpy(array.copy())
