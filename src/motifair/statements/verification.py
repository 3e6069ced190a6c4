"""Verification of a ledger: hash chain, payoffs, signatures, and the heads that members kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from motifair.errors import MotifairError
from motifair.files import parse_json
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms, Entry, Line, decimal, terms_digest

NOT_SIGNED = "it is not signed by the operator"


class Head(NamedTuple):
    """Number and hash of an entry that a member kept, and the operator's signature of that hash in
    hex (a receipt), '' if it has none.
    """

    number: int
    hash: str
    receipt: str = ""


class EntrySource(Protocol):
    """A source of entries: a ledger of any kind."""

    def entries(self, run: str) -> Iterable[Entry]:
        """Return the entries of a run, in order."""
        ...

    def strays(self, run: str) -> Iterable[tuple[int, str]]:
        """Return (entry number, agent) of each line whose entry is missing."""
        ...


@dataclass(frozen=True)
class Mismatch:
    """The first row that failed verification; `agent` is '' if it is the entry itself."""

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
    """Result of a verification: the number of verified entries and rounds, the hash of the last of
    them (`head`), and the first mismatch (`finding`), None if there is none.

    `notes` say what a verified ledger was checked against: the key that entries are signed with,
    and how many were compared with the heads that a member kept.
    """

    run: str
    entries: int
    rounds: int
    head: str
    finding: Mismatch | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def fits(self) -> bool:
        """Whether all entries were verified."""
        return self.finding is None

    def __str__(self) -> str:
        if self.finding is not None:
            return f"{self.run}: {self.finding}"
        verified = f"{self.entries} entries, {self.rounds} rounds, verified; head {self.head}"
        return "\n".join(f"{self.run}: {text}" for text in (verified, *self.notes))

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return {"fits": self.fits, **asdict(self)}


class _MismatchError(Exception):
    def __init__(self, what: str, agent: str = "") -> None:
        self.what, self.agent = what, agent


class Verification:
    """Verifies the chain of one run entry by entry, by recomputing every entry.

    `heads` are those that a member kept: they show if a whole chain was rewritten or truncated;
    None if there is no file of them. `operator` is the public key that entries must be signed with;
    '' accepts the first one that the terms name.
    """

    def __init__(self, run: str, heads: Iterable[Head] | None = None, operator: str = "") -> None:
        self.kept = {head.number: head for head in _agreed(heads or ())}
        self.reach = None if heads is None else max(self.kept, default=-1)
        self.receipts = sum(_is_receipt(head, operator) for head in self.kept.values())
        self.operator = operator
        self.signed_from = 0
        self.books = Accounts(run)
        self.finding: Mismatch | None = None

    def take(self, entry: Entry) -> bool:
        """Verify the next entry and add it to `books`; return False, adding nothing, on failure."""
        books = self.books
        if self.finding is None and entry.number != books.entries:
            what = f"is missing; the next one is entry {entry.number}"
            self.finding = Mismatch(books.entries, None, "", what)
        if self.finding is not None:
            return False
        try:
            _check(entry, books, self.kept, self.operator)
            _check_operator(entry, books, self.operator)
            _check_consent(entry, books)
            books.add(entry)
        except _MismatchError as misfit:
            self.finding = Mismatch(entry.number, entry.round, misfit.agent, misfit.what)
            return False
        self.kept.pop(entry.number, None)
        if not books.agreed.operator:
            self.signed_from = books.entries
        return True

    @property
    def verdict(self) -> Verdict:
        """The verdict if there is no further entry."""
        books, finding = self.books, self.finding
        missing = min(self.kept, default=None)
        if finding is None and missing is not None:
            head = self.kept[missing]
            what = f"is missing: {_whose(head, self.operator)} its hash {head.hash[:16]}"
            finding = Mismatch(missing, None, "", what)
        if finding is None and self.operator and books.entries == self.signed_from > 0:
            finding = Mismatch(0, 0, "", NOT_SIGNED)
        notes = () if finding or not books.entries else tuple(self._notes())
        return Verdict(books.run, books.entries, books.round, books.head, finding, notes)

    def _notes(self) -> Iterator[str]:
        yield from self._about_heads()
        yield from self._about_signatures()
        books = self.books
        if books.carried:
            amount = f"{decimal(books.carried, books.agreed.digits)} {books.agreed.currency}"
            over = books.round >= books.agreed.rounds
            yield f"{amount} of rounds that were not settled " + (
                "was paid to nobody: after the last round it stays with the operator"
                if over
                else "is carried over to the next round"
            )
        if books.agreed.audit and books.audited is None and books.round >= books.agreed.rounds:
            names = ", ".join(books.drawn) or "nobody"
            yield f"the audit of claims is not recorded yet; drawn: {names}"
        if books.agreed.reserve:
            amount = f"{decimal(books.reserve, books.agreed.digits)} {books.agreed.currency}"
            yield f"{amount} is in the reserve, which {books.agreed.reserve} holds"

    def _about_heads(self) -> Iterator[str]:
        last = self.books.entries - 1
        if self.reach == -1:
            yield "the file has no head of this run: nothing was compared"
        elif self.reach is not None:
            later = last - self.reach
            many = "1 later entry was" if later == 1 else f"{later} later entries were"
            rest = f"; {many} not compared" if later else ""
            yield f"the heads reach entry {self.reach} of {last}{rest}"
            if self.operator:
                yield f"{self.receipts} of the heads are receipts that the operator signed"

    def _about_signatures(self) -> Iterator[str]:
        key, first = self.books.agreed.operator, self.signed_from
        if not key:
            yield "entries are not signed: the terms name no operator's key"
            return
        if first:
            yield f"entries before {first} have no signature; that of entry {first} covers them"
        digest = sha256(key.encode()).hexdigest()
        if self.operator:
            yield f"signed by the operator's key {digest}"
        else:
            yield (
                f"signed by the key {digest} that the ledger itself names; pass --operator-key to "
                "check that it is the operator's"
            )


def verify(
    entries: Iterable[Entry], heads: Iterable[Head] | None = None, operator: str = ""
) -> Verdict:
    """Verify the entries of one run, each recomputed from its recorded values.

    `heads` are those that a member kept, `operator` is the public key (PEM) that entries must be
    signed with; both are optional. Return a `Verdict`.

    >>> from motifair.statements.accounts import Accounts
    >>> from motifair.statements.entry import AgreedTerms
    >>> accounts = Accounts("run-1")
    >>> entry = accounts.agree(AgreedTerms({"a": ""}, 100, 2, "EUR", 0, 0, 5, 1, "motifair"))
    >>> verify([entry]).fits, verify([replace(entry, budget=5)]).finding.what
    (True, 'an entry with terms has no lines and pays nothing')
    """
    rest = iter(entries)
    first = next(rest, None)
    verification = Verification("" if first is None else first.run, heads, operator)
    for entry in chain(() if first is None else (first,), rest):
        if not verification.take(entry):
            break
    return verification.verdict


def verify_run(
    ledger: EntrySource, run: str, heads: Iterable[Head] | None = None, operator: str = ""
) -> Verdict:
    """Verify one run of a ledger, including lines without an entry. Arguments as for `verify`."""
    verdict = verify(ledger.entries(run), heads, operator)
    finding = verdict.finding
    if finding is None:
        for number, agent in ledger.strays(run):
            finding = Mismatch(number, None, agent, "the entry of this line is missing")
            break
    return replace(verdict, run=run, finding=finding, notes=() if finding else verdict.notes)


def _agreed(heads: Iterable[Head]) -> Iterator[Head]:
    """Refuse heads that contradict each other: they belong to two histories."""
    seen: dict[int, str] = {}
    for head in heads:
        if seen.setdefault(head.number, head.hash) != head.hash:
            raise MotifairError(
                f"The heads name two hashes for entry {head.number}: {seen[head.number][:16]} and "
                f"{head.hash[:16]}. The server sent its members different histories."
            )
        yield head


def _is_receipt(head: Head, operator: str) -> bool:
    return bool(operator) and _is_signed(operator, head.receipt, head.hash.encode())


def _whose(head: Head, operator: str) -> str:
    """Say who vouches for a head: the operator itself, if it signed it."""
    return "the operator signed a receipt for" if _is_receipt(head, operator) else "a member kept"


def _check(entry: Entry, books: Accounts, kept: Mapping[int, Head], operator: str) -> None:
    """Verify one entry; check first that it was not changed in place."""
    if entry.run != books.run:
        raise _MismatchError(f"it belongs to run {entry.run}, not to {books.run}")
    if books.audited is not None:
        raise _MismatchError("nothing follows the audit of claims")
    for agent, flaw in entry.flaws():
        raise _MismatchError(flaw, agent)
    _check_hashes(entry, books)
    if (head := kept.get(entry.number)) and head.hash != entry.hash:
        raise _MismatchError(f"{_whose(head, operator)} a different hash of it, {head.hash[:16]}")
    if entry.kind == "terms":
        _check_terms(entry, books)
    elif entry.kind == "round":
        _check_round(entry, books)
    else:
        _check_audit(entry, books)


def _check_hashes(entry: Entry, books: Accounts) -> None:
    for line in entry.lines:
        if line.recorded not in (None, entry.line_hash(line)):
            raise _MismatchError(
                "the line was changed: its hash is not the recorded one", line.agent
            )
    if entry.kind == "round":
        _check_members(entry, books)
    if entry.recorded not in (None, entry.hash):
        raise _MismatchError("the entry was changed: its hash is not the recorded one")
    if entry.previous != books.head:
        raise _MismatchError(
            f"its `previous` is not the hash of the entry before it, {books.head[:16]}"
        )


def _check_members(entry: Entry, books: Accounts) -> None:
    if books.terms is None:
        raise _MismatchError("there are no terms before it")
    named = {line.agent for line in entry.lines}
    for name in sorted(named ^ books.terms.members.keys()):
        raise _MismatchError("is not a member" if name in named else "the line is missing", name)


def _check_terms(entry: Entry, books: Accounts) -> None:
    try:
        terms = AgreedTerms.from_json(entry.terms)
    except ValueError as error:
        raise _MismatchError(str(error)) from None
    for name, key in sorted(terms.members.items()):
        if key and not _is_key(key):
            raise _MismatchError("the public key in the terms is not an RSA key", name)
    before = books.terms
    if before and (before.currency, before.digits) != (terms.currency, terms.digits):
        raise _MismatchError("the currency differs from that of the terms before")
    if entry.round != books.round:
        raise _MismatchError(
            f"round is {entry.round}, but {books.round} rounds were done before it"
        )


def _check_consent(entry: Entry, books: Accounts) -> None:
    """Require that all members signed terms that were changed, with the keys that they had."""
    before = books.terms
    if entry.kind != "terms" or before is None or not before.operator:
        return
    terms, digest = AgreedTerms.from_json(entry.terms), terms_digest(entry.terms)
    for name, key in sorted(terms.members.items()):
        if before.members.get(name, key) != key:
            raise _MismatchError("the changed terms have another key of this member", name)
        message = signed_message(entry.run, entry.round, name, digest, entry.previous)
        if key and not _is_signed(key, terms.signatures.get(name, ""), message):
            raise _MismatchError("it did not sign the changed terms", name)


def _check_round(entry: Entry, books: Accounts) -> None:
    terms = books.agreed
    _compare("round", entry.round, books.round + 1)
    if entry.round > terms.rounds:
        raise _MismatchError(f"the terms are for {terms.rounds} rounds")
    for line in entry.lines:
        _check_signature(entry, line, terms.members[line.agent])
    due = books.settle(entry.lines)
    for name in ("budget", "settled"):
        _compare(name, getattr(entry, name), getattr(due, name))
    for line, owed in zip(entry.lines, due.lines, strict=True):
        _compare("compensation", line.compensation, owed.compensation, line.agent)
        _compare("payoff", line.payoff, owed.payoff, line.agent)


def _check_audit(entry: Entry, books: Accounts) -> None:
    """Verify that all who were drawn are there, and pay what is due if they did not answer."""
    if books.terms is None or not books.terms.audit:
        raise _MismatchError("the terms have no audit of claims")
    if books.round < books.terms.rounds:
        raise _MismatchError("the audit of claims is after the last round")
    _compare("round", entry.round, books.round)
    drawn, named = set(books.drawn), {line.agent for line in entry.lines}
    for name in sorted(drawn ^ named):
        what = "was not drawn" if name in named else "was drawn, and its line is missing"
        raise _MismatchError(what, name)
    for line, due in zip(entry.lines, books.audit(entry.lines).lines, strict=True):
        key = books.keys[line.agent]
        _check_signature(entry, line, key)
        if key and line.status == "rejected" and not line.signature:
            raise _MismatchError("its answer is not signed: then it has given none", line.agent)
        _compare("payoff", line.payoff, due.payoff, line.agent)
        if line != due:
            raise _MismatchError("an audit has neither values nor rewards", line.agent)


def _check_operator(entry: Entry, books: Accounts, expected: str) -> None:
    """Require the operator's signature from the first terms on that name an operator's key."""
    before = books.terms.operator if books.terms else ""
    named = AgreedTerms.from_json(entry.terms).operator if entry.kind == "terms" else before
    if before and named != before:
        raise _MismatchError("the terms name another operator's key than the terms before")
    if not named:
        return
    if expected and named != expected:
        raise _MismatchError("the terms name another operator's key than the expected one")
    if not _is_signed(named, entry.signature, entry.hash.encode()):
        raise _MismatchError(NOT_SIGNED)


def _compare(name: str, recorded: Any, due: Any, agent: str = "") -> None:
    if recorded != due:
        raise _MismatchError(f"{name} is {recorded}, but the recorded values give {due}", agent)


def signed_message(run: str, round_: int, agent: str, upload: str, head: str = "") -> bytes:
    """Return the message that a member signs for an upload with SHA-256 `upload` (hex).

    `head` is the hash of the last entry that it has seen, which is the one before its round's: so
    the entries before cannot be changed without its key. There is none when members join, and in
    runs of earlier versions.
    """
    return "/".join([run, str(round_), agent, upload, *([head] if head else [])]).encode()


def _check_signature(entry: Entry, line: Line, key: str) -> None:
    """Require a signature of each present member with a key, and that any signature is valid."""
    if line.signature:
        about = (entry.run, entry.round, line.agent, line.upload)
        # Members of earlier versions did not sign the entry before; others sign nothing else.
        messages = (signed_message(*about, entry.previous), signed_message(*about))
        if not key or not any(_is_signed(key, line.signature, m) for m in messages):
            raise _MismatchError(
                "the signature of the upload does not match the member's key", line.agent
            )
    elif key and line.status == "present":
        raise _MismatchError("the upload is not signed", line.agent)


def _is_key(pem: str) -> bool:
    from motifair.statements.signatures import is_key

    return is_key(pem)


def _is_signed(key: str, signature: str, message: bytes) -> bool:
    from motifair.statements.signatures import is_signed

    return is_signed(key, signature, message)


def head_line(run: str, head: Head) -> str:
    """Return a line of a member's file of heads."""
    return json.dumps({"run": run, **head._asdict()}) + "\n"


def read_heads(path: Path) -> tuple[dict[str, list[Head]], list[int]]:
    """Read a member's file of heads, by run, and the numbers of the lines that cannot be read, as a
    full disk leaves them.
    """
    heads: dict[str, list[Head]] = {}
    damaged = []
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        raise MotifairError(f"There is no file {path} with heads.") from None
    for place, text in enumerate(lines, 1):
        try:
            kept = parse_json(text)
            head = Head(int(kept["number"]), str(kept["hash"]), str(kept.get("receipt", "")))
            heads.setdefault(str(kept["run"]), []).append(head)
        except (ValueError, KeyError, TypeError):
            damaged.append(place)
    if damaged and not heads:
        raise MotifairError(
            f"{path} is not a file of heads: each of its lines is JSON with run, number and hash."
        )
    return heads, damaged
