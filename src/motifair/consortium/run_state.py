"""The state of a deployed run between two rounds: its members, what of their graphs counts, and the
checkpoint from which it can continue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from motifair.consortium.terms import FederationTerms
from motifair.consortium.wire import (
    BadRecordError,
    Download,
    Floats,
    Upload,
    digest,
)
from motifair.errors import MotifairError
from motifair.federation.belief import (
    GraphSummary,
    believed_graphs,
    graph_weights,
    judge_shares,
)
from motifair.federation.server import ServerState
from motifair.federation.tensor_file import tensors_digest
from motifair.mechanism.bounds import (
    capped_sizes,
)
from motifair.methods import make_method
from motifair.statements.entry import Entry


@dataclass(frozen=True)
class JoinedMember:
    """A member: its name, number of training graphs, motifs and, if the method believes only some
    graphs, what it says of them, and its own model `(D,)`, trained alone for its peers to judge, as
    sent when it joined.
    """

    name: str
    graphs: int
    motifs: tuple[str, ...]
    summary: GraphSummary | None = field(default=None, compare=False)  # arrays have no one truth
    trial: Floats | None = field(default=None, compare=False)

    @classmethod
    def of(cls, upload: Upload) -> Self:
        """Return the member that joins with this upload."""
        summary = None
        if upload.fingerprints is not None and upload.wiring is not None:
            summary = GraphSummary(upload.fingerprints, upload.wiring)
        return cls(upload.agent, upload.graphs, upload.motifs, summary, upload.trial)


@dataclass(frozen=True)
class RunCheckpoint:
    """State of a run: members, the server's state, the tasks of the next round by agent, the last
    entry of the ledger, the digests of all updates that were accepted of each member, and what
    members `said` of each other's models, `(2, A, A)` as in `Judgement`; None where nobody judges.
    """

    roster: tuple[JoinedMember, ...]
    server: ServerState
    tasks: Mapping[str, bytes]
    entry: Entry
    updates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    said: Tensor | None = None

    @property
    def round(self) -> int:
        """Number of rounds done."""
        return self.entry.round

    def under(self, entry: Entry) -> Self:
        """Return the checkpoint with the entry of a ledger, which all its tasks name."""

        def named(task: bytes) -> bytes:
            number, head, receipt = entry.number, entry.hash, entry.signature
            download = Download.decode(task)
            return replace(download, number=number, head=head, receipt=receipt).encode()

        tasks = {name: named(task) for name, task in self.tasks.items()}
        return replace(self, entry=entry, tasks=tasks)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the checkpoint without its entry, which holds this digest."""
        tasks = {name: Download.decode(task) for name, task in self.tasks.items()}
        return _position(self.roster, self.server, tasks, self.updates, self.said)


def counted_sizes(terms: FederationTerms, roster: Sequence[JoinedMember]) -> Tensor:
    """Return the number of training graphs of each member, capped by the terms."""
    return capped_sizes(torch.tensor([j.graphs for j in roster]), terms.max_size_ratio)


def believed_sizes(terms: FederationTerms, roster: Sequence[JoinedMember]) -> Tensor | None:
    """Return how many graphs of each member are believed, at most as many as `counted_sizes`; None
    if the terms ask for no fingerprints.

    Not at most `max_size_ratio` times the median of what is believed: members that are not
    believed would lower what is believed of the others.
    """
    if not make_method(terms.config).believes:
        return None
    believed = torch.from_numpy(believed_graphs(_summaries(roster)))
    return torch.minimum(believed, counted_sizes(terms, roster))


def believed_weights(terms: FederationTerms, roster: Sequence[JoinedMember]) -> Tensor | None:
    """Return how much one graph of each member counts in coverage; None if all count the same."""
    if not make_method(terms.config).believes:
        return None
    return torch.from_numpy(graph_weights(_summaries(roster), terms.schema.classes))


def judging_members(terms: FederationTerms, roster: Sequence[JoinedMember]) -> Tensor | None:
    """Return how much members count as judges of each other, `(A, A)`; None if all alike."""
    if not make_method(terms.config).believes:
        return None
    return torch.from_numpy(judge_shares(_summaries(roster)))


def _summaries(roster: Sequence[JoinedMember]) -> list[GraphSummary]:
    summaries = [j.summary for j in roster if j.summary is not None]
    if len(summaries) < len(roster):  # they joined under other terms
        raise MotifairError(
            "Members joined this run without fingerprints of their graphs, which size=believed "
            'needs; set size = "claimed" in [training], or start a new run.'
        )
    return summaries


def make_checkpoint(
    roster: tuple[JoinedMember, ...],
    server: ServerState,
    tasks: Mapping[str, Download],
    entry: Entry,
    updates: Mapping[str, tuple[str, ...]],
    said: Tensor | None,
) -> RunCheckpoint:
    """Return a checkpoint whose entry names its digest, and whose tasks name that entry."""
    kept = {j.name: updates[j.name] for j in roster if j.name in updates}
    entry = replace(entry, position=_position(roster, server, tasks, kept, said))
    sent = {name: task.encode() for name, task in tasks.items()}
    return RunCheckpoint(roster, server, sent, entry, kept, said).under(entry)


def update_digest(upload: Upload) -> str:
    """Return a digest of what an agent trained, which does not depend on round and head."""
    return digest(needed_tensor(upload.update).numpy().tobytes())


def _position(
    roster: Sequence[JoinedMember],
    server: ServerState,
    tasks: Mapping[str, Download],
    updates: Mapping[str, tuple[str, ...]],
    said: Tensor | None,
) -> str:
    """Return the digest of a position; tasks count without the entry that they name."""
    tensors = {name: t for name, t in vars(server).items() if name != "memory"}
    tensors |= joined_tensors(roster) | ({} if said is None else {"said": said})
    about = {}
    for j in roster:
        task = replace(tasks[j.name], number=-1, head="", receipt="")
        sent = " ".join(updates.get(j.name, ()))
        about[j.name] = f"{j.graphs} {digest(task.encode())} {json.dumps(j.motifs)} {sent}"
    return tensors_digest(tensors, about)


def joined_tensors(roster: Sequence[JoinedMember]) -> dict[str, Tensor]:
    """Return the arrays with which members joined, as a position has them."""
    arrays: dict[str, np.ndarray] = {}
    for j in roster:
        if j.summary is not None:
            arrays[f"fingerprints.{j.name}"] = j.summary.fingerprints
            arrays[f"wiring.{j.name}"] = j.summary.wiring
        if j.trial is not None:
            arrays[f"trial.{j.name}"] = j.trial
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def needed_tensor(array: np.ndarray | None) -> Tensor:
    """Return an array of an upload as a tensor; refuse an upload without it."""
    if array is None:
        raise BadRecordError("an array is missing that the method needs")
    return torch.from_numpy(array)
