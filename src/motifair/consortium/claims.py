"""Audits of claims: whether the graphs that a member says it has are there.

Before the first round members send a fingerprint of each training graph, and the ledger's entries
name the position that holds them: a commitment. After the last round the hash of the last entry,
which nobody knew then, draws members and some of their fingerprints. Each of them, or an auditor at
its desk, shows which of its graphs these are. A fingerprint that was invented has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np

from motifair.consortium.audit import upload_path
from motifair.consortium.checkpoint import load_checkpoint
from motifair.consortium.members_key import hashed_fingerprints
from motifair.consortium.terms import FederationTerms
from motifair.consortium.wire import JOIN, Download, Upload, unseal
from motifair.errors import MotifairError
from motifair.files import read_json
from motifair.graphs.features import as_read
from motifair.graphs.fingerprints import Words, fingerprints
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.schema import conform
from motifair.learning.randomness import derive_seed
from motifair.statements.accounts import Accounts
from motifair.statements.audits import AuditTerms, found_out
from motifair.statements.entry import Line, canonical
from motifair.statements.signatures import is_signed
from motifair.statements.verification import signed_message


@dataclass(frozen=True)
class Question:
    """The fingerprints that a member is asked to show graphs for, and how many it claimed.

    `hash` is that of the last entry of the run, by which they were drawn, `round` its last round.
    """

    federation: str
    run: str
    member: str
    round: int
    hash: str
    claimed: int
    asked: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the question as JSON values."""
        return asdict(self) | {"asked": [f"{w:016x}" for w in self.asked]}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Read what `to_json` wrote; raise ValueError, TypeError or KeyError if it is none."""
        asked = tuple(int(word, 16) for word in content["asked"])
        made = cls(**(content | {"asked": asked}))
        whole = isinstance(made.round, int) and isinstance(made.claimed, int)
        texts = (made.federation, made.run, made.member, made.hash)
        if not asked or not whole or not all(isinstance(text, str) for text in texts):
            raise ValueError
        return made

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a question; refuse a file that is none."""
        try:
            return cls.from_json(read_json(path))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise MotifairError(
                f"{path} is not a question; the operator makes one with: motifair federation ask."
            ) from None


@dataclass(frozen=True)
class Answer:
    """Which of the member's graphs have the fingerprints that were asked for; -1 for none.

    `signature` is the member's, in hex, of the answer and of the entry by which it was asked.
    """

    question: Question
    graphs: tuple[int, ...]
    signature: str = ""

    @property
    def missing(self) -> int:
        """How many have no graph."""
        return sum(g < 0 for g in self.graphs)

    @property
    def digest(self) -> str:
        """SHA-256 of question and graphs."""
        content = {"question": self.question.to_json(), "graphs": self.graphs}
        return sha256(canonical(content).encode()).hexdigest()

    @property
    def message(self) -> bytes:
        """What the member signs, like an upload of the last round that has seen its entry."""
        q = self.question
        return signed_message(q.run, q.round, q.member, self.digest, q.hash)

    def refused(self, graphs: Sequence[int]) -> Answer:
        """Return the answer without graphs that an auditor does not accept: made-up ones."""
        for g in graphs:
            if g not in self.graphs:
                raise MotifairError(f"Graph {g} is not among those shown; name those that are.")
        return replace(self, graphs=tuple(-1 if g in graphs else g for g in self.graphs))

    def signed(self, sign: Callable[[bytes], bytes]) -> Answer:
        """Return the answer with the member's signature."""
        return replace(self, signature=sign(self.message).hex())

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return {
            "question": self.question.to_json(),
            "graphs": list(self.graphs),
            "missing": self.missing,
            "signature": self.signature,
        }

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read an answer; refuse a file that is none."""
        try:
            content = read_json(path)
            question = Question.from_json(content["question"])
            graphs, signature = tuple(content["graphs"]), content["signature"]
            if not all(type(g) is int for g in graphs) or len(graphs) != len(question.asked):
                raise ValueError
            if not isinstance(signature, str):
                raise ValueError
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise MotifairError(
                f"{path} is not an answer; the member makes one with: motifair federation answer."
            ) from None
        return cls(question, graphs, signature)

    def __str__(self) -> str:
        q, m = self.question, len(self.graphs)
        if not self.missing:
            seen = found_out(0.1, m)
            return (
                f"{q.member} has all {m} graphs that were asked for, of {q.claimed} that it "
                f"claimed. Had a tenth of them been invented, {seen:.0%} of such questions would "
                "have found it."
            )
        return (
            f"{q.member} has no graph for {self.missing} of the {m} fingerprints that were asked "
            f"for, of {q.claimed} that it claimed."
        )


def questions(federation: str, folder: Path, accounts: Accounts) -> list[Question]:
    """Return the questions to the members that the last hash of a run drew; its files are in
    `folder`.
    """
    run, terms = accounts.run, accounts.agreed
    if not terms.audit:
        raise MotifairError(
            f"The terms of run {run} have no audit of claims; the next run's may: [audit]."
        )
    if accounts.audited is not None:
        raise MotifairError(f"The audit of run {run} is recorded in its ledger; nobody is asked.")
    if accounts.round < terms.rounds:
        raise MotifairError(
            f"Run {run} is at round {accounts.round} of {terms.rounds}; members are drawn by the "
            "entry of its last round."
        )
    graphs = AuditTerms(**terms.audit).graphs
    claims = {name: claimed(folder, run, name) for name in accounts.drawn}
    return [
        Question(
            federation,
            run,
            name,
            accounts.round,
            accounts.head,
            len(words),
            drawn_words(words, graphs, accounts.head, name),
        )
        for name, words in claims.items()
    ]


def claimed(folder: Path, run: str, member: str) -> Words:
    """Return the fingerprints with which a member joined a run, also if it has left since."""
    checkpoint = load_checkpoint(folder)
    for joined in checkpoint.roster if checkpoint else ():
        if joined.name == member and joined.summary is not None:
            return joined.summary.fingerprints
    task = Download(run=run, round=0, agent=member, task=JOIN, terms="").encode()
    path = upload_path(folder, 0, member, task)
    words = Upload.decode(unseal(path.read_bytes())[0]).fingerprints if path.is_file() else None
    if words is None:
        raise MotifairError(
            f"There are no fingerprints of {member} in {folder}; restore a backup of the folder."
        )
    return words


def drawn_words(words: Words, graphs: int, head: str, member: str) -> tuple[int, ...]:
    """Draw so many of a member's fingerprints by a hash."""
    rng = np.random.default_rng(derive_seed(int(head[:15], 16), f"claims/{member}"))
    drawn = rng.choice(len(words), size=min(graphs, len(words)), replace=False)
    return tuple(int(words[k]) for k in sorted(drawn))


def answer(
    question: Question, terms: FederationTerms, graphs: GraphSet, members_key: bytes = b""
) -> Answer:
    """Find the member's graphs with the fingerprints that were asked for, which are hashed if the
    members share a key.

    A fingerprint that is asked for twice takes two graphs: copies are claimed as such.
    """
    if question.federation != terms.name:
        raise MotifairError(
            f"The question is of federation {question.federation}, the kit of {terms.name}."
        )
    schema = terms.schema
    read = as_read(conform(graphs, schema), schema.features)
    words = fingerprints(read, terms.fingerprint_key, edges=bool(schema.edges))
    if members_key:
        words = hashed_fingerprints(members_key, words)
    places: dict[int, list[int]] = {}
    for place, word in enumerate(words.tolist()):
        places.setdefault(word, []).append(place)
    shown = [places.get(word, []) for word in question.asked]
    return Answer(question, tuple(found.pop(0) if found else -1 for found in shown))


def outcome(
    asked: Sequence[Question],
    answers: Sequence[Answer],
    accounts: Accounts,
    finished: datetime,
    now: datetime,
) -> list[Line]:
    """Return the lines of the audit: who showed all graphs, who did not, who gave no answer.

    A missing answer counts when the days of the terms have passed since the run was `finished`.
    """
    given = {a.question.member: _checked(a, asked, accounts.keys) for a in answers}
    days = AuditTerms(**accounts.agreed.audit).days
    until, lines = finished + timedelta(days=days), []
    for name in (q.member for q in asked):
        if name not in given and now < until:
            raise MotifairError(
                f"'{name}' has not answered, and has time until {until:%Y-%m-%d %H:%M} UTC; hand "
                "in its answer, or wait."
            )
        if name not in given:
            lines.append(_line(name, "absent", f"no answer in {days} days"))
            continue
        a = given[name]
        status = "rejected" if a.missing else "present"
        reason = f"{a.missing} of {len(a.graphs)} graphs were not shown" if a.missing else ""
        lines.append(_line(name, status, reason, a.digest, a.signature))
    return lines


def _checked(a: Answer, asked: Sequence[Question], keys: Mapping[str, str]) -> Answer:
    """Refuse an answer to another question, or one that the member did not sign."""
    if a.question not in asked:
        raise MotifairError(
            f"The answer of '{a.question.member}' is not to a question of this run; make the "
            "questions again with: motifair federation ask."
        )
    key = keys[a.question.member]
    if key and not is_signed(key, a.signature, a.message):
        raise MotifairError(f"The answer of '{a.question.member}' is not signed with its key.")
    return a


def _line(name: str, status: Any, reason: str, upload: str = "", signature: str = "") -> Line:
    return Line(name, status, reason, 0, None, None, 0, 0, 0, upload, signature)
