"""Whether a ledger fits: its hash chain, every payoff, every signature, and what members kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from motifair.errors import MotifairError
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms, Entry, Line

Head = tuple[int, str]
NOT_SIGNED = "it is not signed by the operator"


class Chains(Protocol):
    """Where entries are read from: a ledger of any kind."""

    def entries(self, run: str) -> Iterable[Entry]:
        """Return the entries of a run, in order."""
        ...

    def strays(self, run: str) -> Iterable[tuple[int, str]]:
        """Return entry number and agent of each line whose entry is missing."""
        ...


@dataclass(frozen=True)
class Finding:
    """The first row that does not fit, and why. `agent` is '' where the entry itself does not."""

    number: int
    round: int | None
    agent: str
    what: str

    def __str__(self) -> str:
        where = f"entry {self.number}"
        where += "" if self.round is None else f", round {self.round}"
        return f"{where}{f', {self.agent}' if self.agent else ''}: {self.what}"


@dataclass(frozen=True)
class Verdict:
    """What verification found: how far the entries fit, and the first one that does not.

    `notes` say how much that is worth where all fit: by whose key entries are signed, and how many
    were compared with the heads that a member kept.
    """

    run: str
    entries: int
    rounds: int
    head: str
    finding: Finding | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def fits(self) -> bool:
        """Whether nothing was found."""
        return self.finding is None

    def __str__(self) -> str:
        if self.finding is not None:
            return f"{self.run}: {self.finding}"
        fit = f"{self.entries} entries, {self.rounds} rounds, all fit; head {self.head}"
        return "\n".join(f"{self.run}: {words}" for words in (fit, *self.notes))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"fits": self.fits, **asdict(self)}


class _Misfit(Exception):  # noqa: N818 - a finding on its way
    def __init__(self, what: str, agent: str = "") -> None:
        self.what, self.agent = what, agent


class Verification:
    """Follows the chain of one run entry by entry, and makes every entry again.

    `heads` are (number, hash) that a member kept: they show when a whole chain was written anew, or
    cut off at its end; None where there is no file of them. `operator` is the public key by which
    entries must be signed; '' takes the one that the terms name first.
    """

    def __init__(self, run: str, heads: Iterable[Head] | None = None, operator: str = "") -> None:
        self.kept = dict(_agreed(heads or ()))
        self.reach = None if heads is None else max(self.kept, default=-1)
        self.operator = operator
        self.signed_from = 0
        self.books = Accounts(run)
        self.finding: Finding | None = None

    def take(self, entry: Entry) -> bool:
        """Take the next entry into the books, or find what does not fit; nothing is taken then."""
        books = self.books
        if self.finding is None and entry.number != books.entries:
            what = f"is missing; what follows is entry {entry.number}"
            self.finding = Finding(books.entries, None, "", what)
        if self.finding is not None:
            return False
        try:
            _check(entry, books, self.kept)
            _check_operator(entry, books, self.operator)
            books.add(entry)
        except _Misfit as misfit:
            self.finding = Finding(entry.number, entry.round, misfit.agent, misfit.what)
            return False
        self.kept.pop(entry.number, None)
        if not books.agreed.operator:
            self.signed_from = books.entries
        return True

    @property
    def verdict(self) -> Verdict:
        """What was found so far, should there be no further entry."""
        books, finding = self.books, self.finding
        missing = min(self.kept, default=None)
        if finding is None and missing is not None:
            what = f"is missing: a member kept its hash {self.kept[missing][:16]}"
            finding = Finding(missing, None, "", what)
        if finding is None and self.operator and books.entries == self.signed_from > 0:
            finding = Finding(0, 0, "", NOT_SIGNED)
        notes = () if finding or not books.entries else tuple(self._notes())
        return Verdict(books.run, books.entries, books.round, books.head, finding, notes)

    def _notes(self) -> Iterator[str]:
        yield from self._about_heads()
        yield from self._about_signatures()

    def _about_heads(self) -> Iterator[str]:
        last = self.books.entries - 1
        if self.reach == -1:
            yield "there is no head of this run in the file: nothing was compared with it"
        elif self.reach is not None:
            later = last - self.reach
            many = "1 later entry was" if later == 1 else f"{later} later entries were"
            rest = f"; {many} compared with nothing" if later else ""
            yield f"the heads reach entry {self.reach} of {last}{rest}"

    def _about_signatures(self) -> Iterator[str]:
        key, first = self.books.agreed.operator, self.signed_from
        if not key:
            yield "entries are not signed by an operator: the terms name no key of one"
            return
        if first:
            yield f"entries before {first} have no signature; that of entry {first} covers them"
        digest = sha256(key.encode()).hexdigest()
        if self.operator:
            yield f"signed by the operator's key {digest}"
        else:
            yield (
                f"signed by the key {digest} that the ledger itself names; whether it is the "
                "operator's, --operator-key tells"
            )


def verify(
    entries: Iterable[Entry], heads: Iterable[Head] | None = None, operator: str = ""
) -> Verdict:
    """Follow the chain of one run and make every entry again from its recorded values."""
    rest = iter(entries)
    first = next(rest, None)
    verification = Verification("" if first is None else first.run, heads, operator)
    for entry in chain(() if first is None else (first,), rest):
        if not verification.take(entry):
            break
    return verification.verdict


def verify_run(
    ledger: Chains, run: str, heads: Iterable[Head] | None = None, operator: str = ""
) -> Verdict:
    """Verify one run of a ledger, lines without an entry included."""
    verdict = verify(ledger.entries(run), heads, operator)
    found = verdict.finding
    if found is None:
        for number, agent in ledger.strays(run):
            found = Finding(number, None, agent, "the entry of this line is missing")
            break
    return replace(verdict, run=run, finding=found, notes=() if found else verdict.notes)


def _agreed(heads: Iterable[Head]) -> Iterator[Head]:
    """Refuse heads that contradict each other: they are of two histories."""
    seen: dict[int, str] = {}
    for number, digest in heads:
        if seen.setdefault(number, digest) != digest:
            raise MotifairError(
                f"The heads name two hashes for entry {number}: {seen[number][:16]} and "
                f"{digest[:16]}. The server told its members different things."
            )
        yield number, digest


def _check(entry: Entry, books: Accounts, kept: Mapping[int, str]) -> None:
    """Compare one entry with what must stand there, what was changed in place first."""
    if entry.run != books.run:
        raise _Misfit(f"it is of run {entry.run}, not of {books.run}")
    for agent, flaw in entry.flaws():
        raise _Misfit(flaw, agent)
    _check_hashes(entry, books, kept)
    if entry.kind == "terms":
        _check_terms(entry, books)
    else:
        _check_round(entry, books)


def _check_hashes(entry: Entry, books: Accounts, kept: Mapping[int, str]) -> None:
    for line in entry.lines:
        if line.recorded not in (None, entry.line_hash(line)):
            raise _Misfit("the line is not the one that was recorded: its hash differs", line.agent)
    if entry.kind == "round":
        _check_members(entry, books)
    if entry.recorded not in (None, entry.hash):
        raise _Misfit("the entry is not the one that was recorded: its hash differs")
    if entry.previous != books.head:
        raise _Misfit(f"it does not follow on the entry before it, whose hash is {books.head[:16]}")
    if kept.get(entry.number, entry.hash) != entry.hash:
        raise _Misfit(f"a member kept another hash for it, {kept[entry.number][:16]}")


def _check_members(entry: Entry, books: Accounts) -> None:
    if books.terms is None:
        raise _Misfit("there are no terms before it")
    there = {line.agent for line in entry.lines}
    for name in sorted(there ^ books.terms.members.keys()):
        raise _Misfit("is not a member" if name in there else "the line is missing", name)


def _check_terms(entry: Entry, books: Accounts) -> None:
    try:
        terms = AgreedTerms.from_json(entry.terms)
    except ValueError as error:
        raise _Misfit(str(error)) from None
    for name, key in sorted(terms.members.items()):
        if key and not _is_key(key):
            raise _Misfit("the public key in the terms is not an RSA key", name)
    before = books.terms
    if before and (before.currency, before.digits) != (terms.currency, terms.digits):
        raise _Misfit("the currency is another one than before")
    if entry.round != books.round:
        raise _Misfit(f"round is {entry.round}, but {books.round} rounds were done before it")


def _check_round(entry: Entry, books: Accounts) -> None:
    terms = books.agreed
    _compare("round", entry.round, books.round + 1)
    if entry.round > terms.rounds:
        raise _Misfit(f"the terms are for {terms.rounds} rounds")
    for line in entry.lines:
        _check_signature(entry, line, terms.members[line.agent])
    due = books.settle(entry.lines)
    for name in ("budget", "settled"):
        _compare(name, getattr(entry, name), getattr(due, name))
    for line, owed in zip(entry.lines, due.lines, strict=True):
        _compare("compensation", line.compensation, owed.compensation, line.agent)
        _compare("payoff", line.payoff, owed.payoff, line.agent)


def _check_operator(entry: Entry, books: Accounts, expected: str) -> None:
    """From the terms on that name an operator's key, every entry is signed by it and no other."""
    before = books.terms.operator if books.terms else ""
    named = AgreedTerms.from_json(entry.terms).operator if entry.kind == "terms" else before
    if before and named != before:
        raise _Misfit("the terms name another operator's key than those before")
    if not named:
        return
    if expected and named != expected:
        raise _Misfit("the terms name another operator's key than the one that was given")
    if not _is_signed(named, entry.signature, entry.hash.encode()):
        raise _Misfit(NOT_SIGNED)


def _compare(name: str, found: Any, due: Any, agent: str = "") -> None:
    if found != due:
        raise _Misfit(f"{name} is {found}, but what is recorded gives {due}", agent)


def signed_message(run: str, round_: int, agent: str, upload: str) -> bytes:
    """Return what a member signs of an upload whose SHA-256 in hex is `upload`."""
    return f"{run}/{round_}/{agent}/{upload}".encode()


def _check_signature(entry: Entry, line: Line, key: str) -> None:
    """A present member with a key has signed; whatever signature stands there is its own."""
    if line.signature:
        message = signed_message(entry.run, entry.round, line.agent, line.upload)
        if not key or not _is_signed(key, line.signature, message):
            raise _Misfit("the signature of the upload is not by the member's key", line.agent)
    elif key and line.status == "present":
        raise _Misfit("the upload is not signed", line.agent)


def _is_key(pem: str) -> bool:
    from motifair.statements.signatures import is_key

    return is_key(pem)


def _is_signed(key: str, signature: str, message: bytes) -> bool:
    from motifair.statements.signatures import is_signed

    return is_signed(key, signature, message)


def head_line(run: str, number: int, digest: str) -> str:
    """Return the line by which a member keeps a head in its file of heads."""
    return json.dumps({"run": run, "number": number, "hash": digest}) + "\n"


def read_heads(path: Path) -> dict[str, list[Head]]:
    """Read a member's file of heads: for each run, number and hash of entries."""
    heads: dict[str, list[Head]] = {}
    try:
        for text in path.read_text().splitlines():
            kept = json.loads(text)
            heads.setdefault(str(kept["run"]), []).append((int(kept["number"]), str(kept["hash"])))
    except FileNotFoundError:
        raise MotifairError(f"There is no file {path} with heads.") from None
    except (ValueError, KeyError, TypeError, OSError):
        raise MotifairError(
            f"{path} is no file of heads: each of its lines is JSON with run, number and hash."
        ) from None
    return heads
