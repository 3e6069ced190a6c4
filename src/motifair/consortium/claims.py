"""Audits of claims: whether the graphs that a member says it has are there.

Before the first round members send a fingerprint of each training graph, and the ledger's entries
name the position that holds them: a commitment. The operator asks for some of them, drawn by the
hash of an entry that came later: the member cannot know which, and the operator only decides after
which round. The member, or an auditor at its desk, shows which of its graphs these are. A
fingerprint that was invented has none.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from motifair.consortium.checkpoint import load_checkpoint
from motifair.consortium.members_key import hashed_fingerprints
from motifair.consortium.terms import FederationTerms
from motifair.errors import MotifairError
from motifair.files import read_json
from motifair.graphs.features import as_read
from motifair.graphs.fingerprints import fingerprints
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.read import conform
from motifair.learning.randomness import derive_seed


@dataclass(frozen=True)
class Question:
    """The fingerprints that a member is asked to show graphs for, and how many it claimed.

    `entry` and `hash` are of the ledger's entry by whose hash they were drawn.
    """

    federation: str
    run: str
    member: str
    entry: int
    hash: str
    claimed: int
    asked: tuple[int, ...]

    def to_json(self) -> str:
        """Return the question as a file for the member."""
        return json.dumps(asdict(self) | {"asked": [f"{w:016x}" for w in self.asked]}, indent=2)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a question; refuse a file that is none."""
        try:
            content = read_json(path)
            asked = tuple(int(word, 16) for word in content.pop("asked"))
            made = cls(**content, asked=asked)
            if not asked or not all(isinstance(n, int) for n in (made.entry, made.claimed)):
                raise ValueError
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise MotifairError(
                f"{path} is not a question; the operator makes one with: motifair federation ask."
            ) from None
        return made


@dataclass(frozen=True)
class Answer:
    """Which of the member's graphs have the fingerprints that were asked for; -1 for none."""

    question: Question
    graphs: tuple[int, ...]

    @property
    def missing(self) -> int:
        """How many have no graph."""
        return sum(g < 0 for g in self.graphs)

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        each = zip(self.question.asked, self.graphs, strict=True)
        return {
            "member": self.question.member,
            "asked": len(self.graphs),
            "missing": self.missing,
            "graphs": [{"fingerprint": f"{w:016x}", "graph": g} for w, g in each],
        }

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


def ask(terms: FederationTerms, folder: Path, run: str, member: str, graphs: int) -> Question:
    """Draw so many of the fingerprints that a member claimed in a run, whose position is in
    `folder`.
    """
    checkpoint = load_checkpoint(folder)
    if checkpoint is None:
        raise MotifairError(f"{folder} has no position of run {run}; check its name.")
    joined = {j.name: j for j in checkpoint.roster}
    if member not in joined:
        raise MotifairError(f"'{member}' is no member of run {run}: {', '.join(sorted(joined))}.")
    summary, entry = joined[member].summary, checkpoint.entry
    if summary is None:
        raise MotifairError(
            f'Run {run} has no fingerprints to ask for; its terms need size = "believed".'
        )
    if entry.round < 1:
        raise MotifairError(f"Run {run} has no round yet, by whose entry the graphs are drawn.")
    # Nobody knew this hash when the fingerprints were sent.
    rng = np.random.default_rng(derive_seed(int(entry.hash[:15], 16), f"claims/{member}"))
    claimed = summary.fingerprints
    drawn = rng.choice(len(claimed), size=min(graphs, len(claimed)), replace=False)
    asked = tuple(int(claimed[k]) for k in sorted(drawn))
    return Question(terms.name, run, member, entry.number, entry.hash, len(claimed), asked)


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


def found_out(invented: float, asked: int) -> float:
    """Return the probability 1 − (1 − f)^m that a question of m graphs finds a claim of which the
    share f is invented.

    >>> round(found_out(0.5, 5), 3), found_out(0.0, 5)
    (0.969, 0.0)
    """
    return 1.0 - (1.0 - invented) ** asked


def least_fine(gain: float, audited: float, invented: float, asked: int) -> float:
    """Return the fine from which on claiming does not pay, in the unit of the `gain`.

    A share `audited` of members is asked for so many graphs: the expected fine is
    audited · (1 − (1 − f)^m) · fine.

    >>> round(least_fine(0.87, audited=0.2, invented=0.5, asked=10), 2)
    4.35
    """
    caught = audited * found_out(invented, asked)
    return gain / caught if caught > 0 else float("inf")
