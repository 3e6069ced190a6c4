"""Entries of a ledger: a hash chain of terms and rounds, a round with one line for each member.

An entry has no timestamp: the same uploads give the same bytes on every machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import Context, Decimal
from functools import cached_property
from hashlib import sha256
from math import isnan
from typing import Any, Literal, get_args

from motifair.files import finite, parse_json
from motifair.mechanism.settlement import to_pico
from motifair.statements.audits import AuditTerms

GENESIS = "0" * 64
KINDS = ("terms", "round", "audit")
Status = Literal["present", "absent", "rejected"]
STATUSES = get_args(Status)
PAYS = ("value", "equal")
EXACT = Context(prec=60)  # digits of the longest amount
LARGEST = 2**63 - 1
LONGEST_REASON = 300
OPTIONAL: dict[str, Any] = {
    "operator": "", "conditions": {}, "reserve": "", "audit": {}, "signatures": {},
}  # of terms  # fmt: skip
NOT_HASHED = ("recorded", "signature")  # fields of an entry that are stored with it


@dataclass(frozen=True)
class AgreedTerms:
    """The terms of a run, as its ledger holds them.

    Amounts (`budget`, for one round, `max_penalty`, `max_total_penalty`) are whole numbers of the
    smallest unit of `currency`, which has `digits` decimal places. `members` maps each member to
    its public key (PEM), '' where uploads are not signed. `pays` is `value` (E5) or `equal`, the
    same for everyone present. `operator` is the public key (PEM) that entries are signed with, ''
    in simulations and in ledgers of motifair 0.1. `conditions` are what else members agree to (see
    `FederationTerms`), {} in simulations. `reserve` is who holds what falls to absent members, ''
    if the present ones share it. `audit` is an `AuditTerms` as JSON, {} for no audit of claims.
    `signatures` are those of the members under terms that were changed in a run; the others have
    none.

    >>> terms = AgreedTerms({"a": "", "b": ""}, 10_000, 2, "EUR", 0, 0, 5, 2, "motifair")
    >>> AgreedTerms.from_json(terms.to_json()) == terms
    True
    """

    members: dict[str, str]
    budget: int
    digits: int
    currency: str
    max_penalty: int
    max_total_penalty: int
    rounds: int
    quorum: int
    method: str
    pays: Literal["value", "equal"] = "value"
    config: dict[str, Any] = field(default_factory=dict)
    operator: str = ""
    conditions: dict[str, Any] = field(default_factory=dict)
    reserve: str = ""
    audit: dict[str, Any] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict, compare=False)

    def to_json(self) -> str:
        """Return the canonical JSON that an entry holds."""
        content = asdict(self)
        for name in OPTIONAL:
            if not content[name]:
                del content[name]
        return canonical(finite(content))

    @classmethod
    def from_json(cls, text: str) -> AgreedTerms:
        """Read the JSON of an entry; raise ValueError with the reason if it is invalid."""
        try:
            content = OPTIONAL | parse_json(text)
            terms = cls(**{f.name: content[f.name] for f in fields(cls)})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"the terms cannot be read ({error!r})") from None
        for flaw in terms.flaws():
            raise ValueError(flaw)
        return terms

    def flaws(self) -> Iterator[str]:
        """Yield a sentence for each invalid value."""
        members = self.members if isinstance(self.members, dict) else {}
        signed = self.signatures if isinstance(self.signatures, dict) else {"": None}
        texts = (
            self.currency, self.method, self.operator, self.reserve, *members, *members.values()
        )  # fmt: skip
        if not members or not all(isinstance(text, str) for text in (*texts, *signed.values())):
            yield "the terms need members with their keys, a currency and a method"
        for name in ("budget", "digits", "max_penalty", "max_total_penalty", "rounds", "quorum"):
            if not _is_count(getattr(self, name)):
                yield f"{name} of the terms is not a whole number of at least 0"
        conditions: Any = self.conditions
        if not isinstance(conditions, dict):
            yield "the conditions of the terms are not named"
        yield from self._audit_flaws()
        if self.pays not in PAYS:
            yield f"pays of the terms is neither {' nor '.join(PAYS)}"

    def _audit_flaws(self) -> Iterator[str]:
        audit: Any = self.audit
        names = {f.name for f in fields(AuditTerms)}
        if not isinstance(audit, dict) or audit.keys() not in (set(), names):
            yield f"audit of the terms has not the fields {', '.join(sorted(names))}"
        elif audit:
            yield from (f"audit of the terms: {flaw}" for flaw in AuditTerms(**audit).flaws())
            if not self.reserve:
                yield "the terms name no reserve, which gets the fines of an audit"


@dataclass(frozen=True)
class Line:
    """One member in one round, or in the audit of claims.

    In an audit `present` has shown all graphs, `rejected` not all and `absent` none; `upload` is
    the SHA-256 of its answer, the payoff is its fine, negative, and all else is 0 or None.
    Value, alignment, diversity and compensation are in units of 1e-12, the payoff in units of
    money. Alignment and diversity are None if the method computes none. `kept` is the number of
    components in its reward. `upload` is the SHA-256 of the upload, `signature` the member's
    signature of it; both in hex, '' if there is none. `recorded` is the hash stored with the line
    in a database, None elsewhere.
    """

    agent: str
    status: Status
    reason: str
    value: int
    alignment: int | None
    diversity: int | None
    compensation: int
    kept: int
    payoff: int
    upload: str
    signature: str
    recorded: str | None = field(default=None, compare=False)

    @classmethod
    def unsettled(
        cls,
        agent: str,
        row: Mapping[str, float],
        status: Status = "present",
        reason: str = "",
        upload: str = "",
        signature: str = "",
    ) -> Line:
        """Return a line before its payoff is settled, from the agent's row of a round's record."""
        aligned, diverse = (
            None if isnan(row[name]) else to_pico(row[name]) for name in ("alignment", "diversity")
        )
        value, kept = to_pico(row["value"]), int(row["kept"])
        return cls(agent, status, reason, value, aligned, diverse, 0, kept, 0, upload, signature)

    def flaws(self) -> Iterator[str]:
        """Yield a sentence for each invalid value."""
        if self.status not in STATUSES:
            yield f"the status is none of {', '.join(STATUSES)}"
        if self.status == "present" and self.reason:
            yield "a member that was present has no reason"
        if not self.reason.isprintable():
            yield "the reason has characters that cannot be printed"
        for name in ("value", "alignment", "diversity", "compensation", "kept", "payoff"):
            number = getattr(self, name)
            if not _is_whole(number) and not (
                number is None and name in ("alignment", "diversity")
            ):
                yield f"{name} is not a whole number of 64 bits"
        if not re.fullmatch(r"([0-9a-f]{64})?", self.upload):
            yield "upload is not a SHA-256 in hex"
        if not re.fullmatch(r"([0-9a-f]{2})*", self.signature):
            yield "signature is not in hex"


@dataclass(frozen=True)
class Entry:
    """One entry of a run: new terms, a round with one line for each member, or the audit of claims
    after the last round, with one for each member that was drawn.

    Entries are numbered from 0, rounds from 1; `round` of other entries is the number of rounds
    before. `budget` is the amount available in the round, including what was carried
    over from rounds that were not settled. `terms` is the JSON of an `AgreedTerms`, '' in rounds.
    `previous` is the hash of the entry before. `position` is the SHA-256 of the server's state
    after the entry, '' in simulations and in older ledgers; entries that differ only in it are
    equal, since processors may differ in its last digits. `recorded` is the hash stored with the
    entry in a database, None elsewhere; `signature` is the operator's signature of the hash, in
    hex.
    """

    run: str
    number: int
    kind: Literal["terms", "round", "audit"]
    round: int
    settled: bool
    budget: int
    terms: str
    lines: tuple[Line, ...]
    previous: str
    position: str = field(default="", compare=False)
    recorded: str | None = field(default=None, compare=False)
    signature: str = field(default="", compare=False)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the whole entry, including the hash of the entry before it."""
        return _digest(self._content())

    def signed(self, sign: Callable[[bytes], bytes]) -> Entry:
        """Return the entry with the operator's signature, which covers all entries before it."""
        return replace(self, signature=sign(self.hash.encode()).hex())

    def line_hash(self, line: Line) -> str:
        """SHA-256 of a line with run and entry number: shows which line of an entry was changed."""
        return _digest({"run": self.run, "number": self.number, "line": _plain(line)})

    def to_json(self) -> str:
        """Return the canonical JSON of the entry, which is what is hashed."""
        return canonical(self._content())

    @classmethod
    def from_json(cls, text: str) -> Entry:
        """Read what `to_json` wrote."""
        content = json.loads(text)
        return cls(**(content | {"lines": tuple(Line(**line) for line in content["lines"])}))

    def flaws(self) -> Iterator[tuple[str, str]]:
        """Yield (agent, sentence) for each invalid value; agent is '' for the entry itself."""
        if self.kind not in KINDS:
            yield "", f"the kind is none of {', '.join(KINDS)}"
        for name in ("number", "round", "budget"):
            if not _is_count(getattr(self, name)):
                yield "", f"{name} is not a whole number of at least 0"
        if self.settled not in (False, True):
            yield "", "settled is neither 0 nor 1"
        agents = [line.agent for line in self.lines]
        if agents != sorted(set(agents)):
            yield "", "the lines are not sorted by agent, one for each"
        if self.kind == "terms" and (self.lines or self.settled or self.budget):
            yield "", "an entry with terms has no lines and pays nothing"
        if self.kind == "audit" and (self.settled or self.budget):
            yield "", "an audit settles no budget"
        if self.kind != "terms" and self.terms:
            yield "", "a round or an audit has no terms of its own"
        if not re.fullmatch(r"([0-9a-f]{64})?", self.position):
            yield "", "position is not a SHA-256 in hex"
        if not re.fullmatch(r"([0-9a-f]{2})*", self.signature):
            yield "", "the operator's signature is not in hex"
        for line in self.lines:
            yield from ((line.agent, flaw) for flaw in line.flaws())

    def _content(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in NOT_HASHED}
        if not self.position:
            del plain["position"]
        return plain | {"lines": [_plain(line) for line in self.lines]}


def terms_digest(text: str) -> str:
    """Return the SHA-256 of the terms of an entry without members' signatures, which sign it.

    >>> terms_digest('{"budget": 1, "signatures": {"a": "00"}}') == terms_digest('{"budget": 1}')
    True
    """
    return _digest({k: v for k, v in json.loads(text).items() if k != "signatures"})


def clean_reason(text: str) -> str:
    """Return a text as one printable line of at most 300 characters.

    >>> clean_reason("no answer\\n in 60 s\\x00")
    'no answer in 60 s'
    """
    words = "".join(c if c.isprintable() else " " for c in text).split()
    return " ".join(words)[:LONGEST_REASON]


def canonical(content: Any) -> str:
    """Return JSON in the form that is hashed: keys sorted, no spaces, ASCII.

    >>> canonical({"b": 1, "a": "ü"})
    '{"a":"\\\\u00fc","b":1}'
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(content: Any) -> str:
    return sha256(canonical(content).encode()).hexdigest()


def _plain(line: Line) -> dict[str, Any]:
    return {f.name: getattr(line, f.name) for f in fields(line) if f.name != "recorded"}


def _is_whole(number: Any) -> bool:
    return type(number) is int and abs(number) <= LARGEST


def _is_count(number: Any) -> bool:
    return _is_whole(number) and bool(number >= 0)


def decimal(units: int, digits: int) -> str:
    """Return whole units as a decimal with `digits` decimal places.

    >>> decimal(-5, 2), decimal(0, 12), decimal(7, 0)
    ('-0.05', '0.000000000000', '7')
    """
    return f"{Decimal(units).scaleb(-digits, EXACT):f}"


def readable(amount: str) -> str:
    """Return a decimal for people to read, with thousands separated.

    >>> readable("-12000.05"), readable("7"), readable("-0.05")
    ('-12,000.05', '7', '-0.05')
    """
    sign, digits = ("-", amount[1:]) if amount.startswith("-") else ("", amount)
    whole, point, part = digits.partition(".")
    return f"{sign}{int(whole):,}{point}{part}"
