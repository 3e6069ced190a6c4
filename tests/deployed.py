"""A small deployed federation in one process: real sites, signatures, ledger and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from torch import Tensor

from motifair.consortium.agent import MemberAgent, StoredRound
from motifair.consortium.checkpoint import load_checkpoint
from motifair.consortium.coordinator import Coordinator
from motifair.consortium.keys import new_key, signer
from motifair.consortium.member_data import prepare_member_data
from motifair.consortium.rounds import RunDriver
from motifair.consortium.run_state import RunCheckpoint
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.terms import FederationTerms, make_terms
from motifair.consortium.transports.inprocess import InProcess
from motifair.consortium.wire import JUDGE, Download, Upload, digest, seal, unseal
from motifair.errors import MotifairError
from motifair.federation.agents import own_seed
from motifair.federation.simulation import Simulation
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.planted import planted
from motifair.graphs.schema import Schema
from motifair.learning.randomness import stream_keys
from motifair.statements.entry import Entry, Line
from motifair.statements.signatures import public_text
from motifair.statements.verification import signed_message

BELIEVED = {
    "alignment_against": "coverage", "alignment_rate": 1.0, "evidence": "sum",
    "diversity_weight": 0.0, "size": "believed",
}  # value by coverage, by the graphs that are believed  # fmt: skip
VOTED = {
    "alignment_against": "peers-by-value", "alignment_rate": 0.1, "evidence": "judged",
    "diversity_weight": 8.0, "value_rate": 0.05, "size": "claimed",
}  # value by the votes of the others' gradients  # fmt: skip
NAMES = ("bank-a", "bank-b", "bank-c", "bank-d")
MORE = ("name", "deadline", "max_size_ratio", "max_time_ratio", "members_key")  # of [federation]
SEEDS = {name: 100 + k for k, name in enumerate(NAMES)}
MEMBERS_KEY = b"shared by the members, not with the operator"
JUDGING = -1  # in place of the round for tasks to judge peers, which are of round 0, as joining is
COMPARING = -2  # the same for tasks to judge the server's last models


@cache
def key_of(name: str) -> RSAPrivateKey:
    return new_key()


@cache
def graphs_of(name: str) -> GraphSet:
    made = planted(len(NAMES), seed=3)
    mine = np.flatnonzero(made.owner == NAMES.index(name))[:24]
    return made.graphs.select(mine)


@cache
def schema() -> Schema:
    return Schema.of(GraphSet.concatenate("all", [graphs_of(n) for n in NAMES]), "label")


@cache
def site_of(name: str, terms: FederationTerms) -> MemberAgent:
    keys = terms.fingerprint_key, MEMBERS_KEY if terms.members_key else b""
    own = prepare_member_data(terms.config, terms.schema, name, graphs_of(name), SEEDS[name], *keys)
    sign = signer(key_of(name))
    return MemberAgent(
        name, terms, own, Path("nowhere"), sign=sign, seed=SEEDS[name],
        operator=public_text(key_of("operator")),
    )  # fmt: skip


def content_of(**training: Any) -> dict[str, Any]:
    """Content of `federation.toml`; other keywords are options of training."""
    about: dict[str, Any] = {"members": list(NAMES), "quorum": 2, "max_norm": 1e4}
    about |= {k: training.pop(k) for k in (*about, *MORE) if k in training}
    about["members"] = list(about["members"])
    money = training.pop("money", {})
    # One round before judgement; test_deployed_equals_simulation.py has longer ones.
    judged = {"trial_rounds": 1} if training.get("method", "motifair") == "motifair" else {}
    more = {name: training.pop(name) for name in ("privacy", "audit") if name in training}
    return {
        "federation": {"name": "trial", "deadline": 300} | about,
        "money": {
            "currency": "EUR",
            "budget": "100.00",
            "max_penalty": "20.00",
            "max_total_penalty": "50.00",
            **money,
        },
        "training": {"hidden": 16, "rounds": 4, "seed": 5, **judged, **training},
        "schema": schema().to_json(),
        **more,
    }


def terms_of(**training: Any) -> FederationTerms:
    return make_terms(content_of(**training))


class Secretive(Simulation):
    """A simulation whose members have secret seeds, and so random streams, of their own."""

    def _keys(self, seeds: Sequence[int]) -> Tensor:
        common = self.members[0].seed
        derived = (int, own_seed)
        (derive,) = (d for d in derived if [d(common)] == list(seeds))
        return torch.cat([stream_keys(derive(SEEDS[n]), [n], self.device) for n in NAMES])


class Away(MotifairError):  # noqa: N818 - not an error
    """Raised for an agent that does not answer."""


Answer = Callable[[], bytes]
Meddle = Callable[[str, Download, Answer], bytes]
"""Hook between server and agent: `answer()` calls the agent, the returned or raised value reaches
the server."""


def honest(name: str, task: Download, answer: Answer) -> bytes:
    return answer()


def away(pattern: Mapping[str, Any], *, late: bool = False, bad: bool = False) -> Meddle:
    """Make agents absent in the rounds of `pattern`; if `late`, they train, but answer too late;
    if `bad`, they answer with nonsense, so that a round below the quorum does not wait for them.
    """

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if task.round not in pattern.get(name, ()):
            return answer()
        if late:
            answer()
        if bad:  # for two reasons, so that no majority is rejected for one
            return b"nonsense" if NAMES.index(name) % 2 else b"\0\0nonsense"
        raise Away("no answer today")

    return meddle


def opened(sealed: bytes) -> Upload:
    return Upload.decode(unseal(sealed)[0])


def sealed(upload: Upload, *, key: str = "") -> bytes:
    """An upload sealed by its agent, or with another `key`."""
    return sealed_content(upload.encode(), upload, key=key)


def sealed_content(content: bytes, upload: Upload, *, key: str = "") -> bytes:
    text = signed_message(upload.run, upload.round, upload.agent, digest(content), upload.head)
    return seal(content, signer(key_of(key or upload.agent))(text))


@dataclass
class World:
    """Sites and a server, all of whose memory is in `folder`.

    The rest is what a test may look at: entries that were told, the last task of each agent and
    round (`JUDGING` and `COMPARING` are none), and what was answered to it.
    """

    folder: Path
    terms: FederationTerms = field(default_factory=terms_of)
    meddle: Meddle = honest
    run: str = "trial-1"
    heard: list[Entry] = field(default_factory=list)
    tasks: dict[tuple[str, int], bytes] = field(default_factory=dict)
    answers: dict[tuple[str, int], bytes] = field(default_factory=dict)

    def site(self, name: str) -> MemberAgent:
        """A newly started agent: its state is in its folder; prepared data is shared."""
        site = copy(site_of(name, self.terms))
        site.folder = self.folder / "sites" / name
        return site

    def handlers(self) -> dict[str, Callable[[bytes], bytes]]:
        def handler(name: str, site: MemberAgent) -> Callable[[bytes], bytes]:
            def handle(task: bytes) -> bytes:
                download = Download.decode(task)
                # Tasks to judge newcomers name the last entry; those to compare models do not.
                judging = COMPARING if download.round and not download.head else JUDGING
                round = judging if download.task == JUDGE else download.round
                self.tasks[name, round] = task
                answer = self.meddle(name, download, lambda: site(task))
                self.answers[name, round] = answer
                return answer

            return handle

        return {name: handler(name, self.site(name)) for name in self.terms.members}

    def coordinator(self) -> Coordinator:
        keys = {name: public_text(key_of(name)) for name in self.terms.members}
        return Coordinator(self.run, self.terms, keys, public_text(key_of("operator")))

    @contextmanager
    def server(self, folder: str = "run") -> Iterator[RunDriver]:
        """The server's process: an open ledger, and new objects from the files on disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open_ledger(self.folder / "ledger.sqlite", write=True) as ledger:
            transport, coordinator = InProcess(self.handlers()), self.coordinator()
            yield RunDriver(
                transport,
                coordinator,
                ledger,
                self.folder / folder,
                on_entry=self.heard.append,
                sign=signer(key_of("operator")),
            )

    def drive(self, rounds: int | None = None) -> bool:
        with self.server() as drive:
            return drive(rounds=rounds)

    def entries(self) -> list[Entry]:
        with open_ledger(self.folder / "ledger.sqlite", write=False) as ledger:
            return list(ledger.entries(self.run))

    def rounds(self) -> list[Entry]:
        return [entry for entry in self.entries() if entry.kind == "round"]

    def line(self, round: int, name: str) -> Line:
        (line,) = [x for x in self.rounds()[round - 1].lines if x.agent == name]
        return line

    def values(self, round: int) -> dict[str, int]:
        return {line.agent: line.value for line in self.rounds()[round - 1].lines}

    def checkpoint(self) -> RunCheckpoint:
        checkpoint = load_checkpoint(self.folder / "run")
        assert checkpoint is not None
        return checkpoint

    def kept(self, name: str, round: int) -> StoredRound:
        """The stored round of an agent."""
        site = self.site(name)
        stored = site._stored(site._path(self.run, round))
        assert stored is not None
        return stored

    def task(self, name: str, round: int) -> Download:
        return Download.decode(self.tasks[name, round])

    def upload(self, name: str, round: int) -> Upload:
        """An upload retained by the server."""
        file = f"{name}.judgement.bin" if round == JUDGING else f"{name}.bin"
        path = self.folder / "run" / "uploads" / f"{max(round, 0):06}" / file
        return opened(path.read_bytes())
