"""Statements: what a member was paid and why, by round and in total, from the entries of a ledger.

Amounts are whole units of money. Each part of a payoff is rounded separately, and the part
`rounding` is the difference, so that the parts always add up to the payoff.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from motifair.errors import MotifairError
from motifair.motifs.fragments import fragment
from motifair.statements.attribution import valued_by
from motifair.statements.entry import AgreedTerms, Entry, decimal, readable
from motifair.statements.explanations import (
    ALIGNED,
    LEANED_ON,
    NEVER_LEANED_ON,
    alignment_kind,
    how_long,
    how_paid,
    how_to_repeat,
    how_to_verify,
    is_judged,
    what_an_audit_said,
    what_is_unknown,
    what_limits_changed,
    what_was_withheld,
)
from motifair.statements.payment import Payment, payments_of

PARTS = {
    "initial": "what is left of the value that it began with",
    "alignment": ALIGNED["alignment"],
    "diversity": "the variety of motifs in its graphs",
    "adjustment": "evidence that was raised equally for all, and the rest of the value",
    "value": "its value, by the rule of the method",
    "equal": "the same for all members present",
    "compensation": "for a late contribution: a value above its own earlier mean",
    "redistribution": "penalties paid by others, distributed in the same proportions",
    "penalty": "for a negative value: its updates harmed the others",
    "fine": "by an audit, for graphs that it claimed and did not show; it goes to the reserve",
    "rounding": "amounts are rounded separately; this makes them add up to the payoff",
}
MOST_LEANED_ON = 5  # rounds


@dataclass(frozen=True)
class Motif:
    """A motif of the member, the number of other members that have it, and whether it counts as
    diversity (None where that has no weight). `smiles` is that of a fragment of molecules, else
    empty.
    """

    key: str
    others: int
    counts: bool | None
    smiles: str = ""


@dataclass(frozen=True)
class Statement:
    """What a member was paid and why; made by `make_statement`.

    `rounds` are those in which the agent was a member. `entries` and `head` are the length and the
    last hash of the ledger. `federation` is its name, '' if unknown. `received` is the share of the
    update that the agent was given, on average over settled rounds and relative to the most that
    anybody was given (None if nobody was given any), `accuracy` the score of its model on its own
    test graphs by the `metric` (None if unknown). `alignments` says what the part `alignment` is:
    `alignment`, `coverage`, or both if the terms changed; `judged` has the rounds before which it
    joined and peers judged a model of it. `motifs` is None if unknown. `sentences`
    explain how it was paid, `verification` has pairs of a command and what it does. `issuer` is the
    SHA-256 of the operator's public key in the terms, `signature` its signature of the head; '' in
    simulations.
    """

    run: str
    agent: str
    method: str
    currency: str
    digits: int
    entries: int
    head: str
    rounds: tuple[Payment, ...]
    alignments: tuple[str, ...]
    motifs: tuple[Motif, ...] | None
    sentences: tuple[str, ...]
    verification: tuple[tuple[str, str], ...]
    federation: str = ""
    received: float | None = None
    accuracy: float | None = None
    metric: str = "accuracy"
    issuer: str = ""
    signature: str = ""
    judged: tuple[int, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that are not zero in some round, in the order of `PARTS`."""
        used = {name for p in self.rounds for name, units in p.amounts.items() if units}
        return tuple(name for name in PARTS if name in used)

    @property
    def meaning(self) -> dict[str, str]:
        """What each of `PARTS` is, in words."""
        return {**PARTS, "alignment": "; ".join(ALIGNED[kind] for kind in self.alignments)}

    @property
    def leaning(self) -> str:
        """What the `lean` of a round is, in words, or why there is none."""
        if self.leaned_on:
            return " ".join(LEANED_ON[kind] for kind in self.alignments)
        if any(p.lean is not None for p in self.rounds):
            return " ".join(NEVER_LEANED_ON[kind] for kind in self.alignments)
        return "This ledger holds no alignment."

    @property
    def totals(self) -> dict[str, int]:
        """The sum of each part over all rounds, in units of money."""
        return {name: sum(p.amounts.get(name, 0) for p in self.rounds) for name in PARTS}

    @property
    def payoff(self) -> int:
        """The total payoff, in units of money."""
        return sum(p.payoff for p in self.rounds)

    @property
    def equal(self) -> int:
        """The total payoff if all present members had been paid the same."""
        return sum(p.equal for p in self.rounds)

    @property
    def shapley(self) -> int | None:
        """The total payoff by the Shapley value of data sizes; None if sizes are unknown."""
        known = [p.shapley for p in self.rounds if p.shapley is not None]
        return sum(known) if len(known) == len(self.rounds) else None

    @property
    def leaned_on(self) -> tuple[Payment, ...]:
        """The rounds with the largest `lean`, largest first."""
        leaned = [p for p in self.rounds if p.lean]
        return tuple(sorted(leaned, key=lambda p: (-(p.lean or 0), p.round))[:MOST_LEANED_ON])

    def money(self, units: int | None) -> str:
        """Return an amount for people to read, with thousands separated; '' for None."""
        return "" if units is None else readable(self.exact(units))

    def exact(self, units: int) -> str:
        """Return an amount as a decimal, for programs."""
        return decimal(units, self.digits)

    def only(self, round: int) -> Statement:
        """Return the statement restricted to one round; raise MotifairError if it has no such."""
        chosen = tuple(p for p in self.rounds if p.round == round)
        if not chosen:
            numbers = [p.round for p in self.rounds] or [0]
            raise MotifairError(
                f"{self.agent} was not a member in round {round}; its rounds are {min(numbers)} to "
                f"{max(numbers)}."
            )
        return replace(self, rounds=chosen, received=None, accuracy=None)

    def to_json(self) -> dict[str, Any]:
        """Return the statement as JSON values; amounts and values are exact decimals, as text."""
        names = self.parts
        shapley = self.shapley
        return {
            "run": self.run,
            "agent": self.agent,
            "federation": self.federation,
            "method": self.method,
            "currency": self.currency,
            "payoff": self.exact(self.payoff),
            "parts": {name: self.exact(self.totals[name]) for name in names},
            "meaning": {name: self.meaning[name] for name in names},
            "sentences": list(self.sentences),
            "instead": {
                "equal": self.exact(self.equal),
                "shapley": None if shapley is None else self.exact(shapley),
            },
            "besides": {
                "received": self.received,
                "accuracy": self.accuracy,
                "metric": self.metric,
            },
            "motifs": None if self.motifs is None else [asdict(m) for m in self.motifs],
            "leaned_on": {
                "meaning": self.leaning,
                "rounds": [{"round": p.round, "part": p.lean} for p in self.leaned_on],
            },
            "ledger": {"entries": self.entries, "head": self.head},
            "issued": {"operator_key_sha256": self.issuer, "signature_of_head": self.signature},
            "verification": [{"command": c, "does": does} for c, does in self.verification],
            "rounds": [self._payment_json(p, names) for p in self.rounds],
        }

    def _payment_json(self, p: Payment, names: Sequence[str]) -> dict[str, Any]:
        value_parts = {} if p.value_parts is None else asdict(p.value_parts)
        return {
            "round": p.round,
            "kind": p.kind,
            "entry": p.number,
            "hash": p.hash,
            "settled": p.settled,
            "status": p.status,
            "note": p.note,
            "payoff": self.exact(p.payoff),
            "parts": {name: self.exact(p.amounts.get(name, 0)) for name in names},
            "value": decimal(p.value, 12),
            "value_parts": {name: decimal(pico, 12) for name, pico in value_parts.items()},
            "compensation": decimal(p.compensation, 12),
            "lean": p.lean,
            "withheld": self.exact(p.withheld),
            "instead": {
                "equal": self.exact(p.equal),
                "shapley": None if p.shapley is None else self.exact(p.shapley),
            },
        }


def make_statement(
    entries: Sequence[Entry],
    agent: str,
    *,
    graphs: Mapping[str, int] = {},
    motifs: Mapping[str, tuple[str, ...]] = {},
    ledger: str | None = None,
    folder: str | None = None,
    split: int = 0,
    federation: str = "",
    accuracy: Mapping[str, float] = {},
    counted: Mapping[str, float] = {},
    seconds: Mapping[str, float] = {},
) -> Statement:
    """Make the statement of a member from the entries of one run.

    Args:
        entries: All entries in their order, from `Ledger.entries`, `Accounts` or a simulation; the
            first holds terms. They are not verified here, see `verification.verify`.
        agent: Name of the member.
        graphs: Number of training graphs by member, as far as known.
        motifs: Keys of the motifs by member, as far as known.
        ledger, folder, split: File or URL of the ledger (its password is left out), folder of the
            run or the operator, and split of a simulation, as shown in `verification`.
        federation: Name of the federation.
        accuracy: Accuracy by member, as far as known.
        counted: How many of its graphs count under the terms, by member, as far as known.
        seconds: How long its answers took in the median round, by member, as far as known.

    Returns:
        The `Statement`. Raises MotifairError if the agent is not a member or payoffs do not follow
        from the recorded values.

    Example:
        >>> from motifair.statements.accounts import Accounts
        >>> from motifair.statements.entry import AgreedTerms, Line
        >>> accounts = Accounts("run-1")
        >>> terms = accounts.agree(
        ...     AgreedTerms({"a": "", "b": ""}, 100, 2, "EUR", 0, 0, 5, 1, "fedavg", pays="equal")
        ... )
        >>> accounts.add(terms)
        >>> lines = [Line(n, "present", "", 0, None, None, 0, 0, 0, "", "") for n in "ab"]
        >>> statement = make_statement([terms, accounts.settle(lines)], "a")
        >>> statement.money(statement.payoff), statement.parts
        ('0.50', ('equal',))
    """
    agreed = _agreed(entries)
    known = sorted({name for terms in agreed for name in terms.members})
    if agent not in known:
        raise MotifairError(
            f"There is no agent '{agent}' in run {entries[0].run}; there are {', '.join(known)}."
        )
    run, last = entries[0].run, agreed[-1]
    alignments = tuple(dict.fromkeys(alignment_kind(t) for t in agreed))
    payments = tuple(payments_of(entries, agent, graphs))
    return Statement(
        run=run,
        agent=agent,
        method=last.method,
        currency=last.currency,
        digits=last.digits,
        entries=len(entries),
        head=entries[-1].hash,
        rounds=payments,
        alignments=alignments,
        motifs=_motifs(agent, motifs, last),
        sentences=(
            *dict.fromkeys(how_paid(t) for t in agreed),
            *what_limits_changed(
                [(p.status, p.note) for p in payments if p.kind == "round"],
                graphs.get(agent),
                counted.get(agent),
            ),
            *what_was_withheld(decimal(sum(p.withheld for p in payments), last.digits), last),
            *what_an_audit_said(
                [p.note for p in payments if p.kind == "audit"], last, entries[-1].kind
            ),
            *how_long(agent, seconds),
            *what_is_unknown(known, graphs, alignments),
        ),
        verification=(
            how_to_verify(run, agent, ledger, folder)
            if any(last.members.values())
            else how_to_repeat(agent, folder, split)
        ),
        federation=federation,
        received=_received(entries, agent),
        accuracy=accuracy.get(agent),
        metric=str(last.config.get("metric", "accuracy")),
        issuer=sha256(last.operator.encode()).hexdigest() if last.operator else "",
        signature=entries[-1].signature,
        judged=tuple(_judged(entries, agent)),
    )


def _judged(entries: Sequence[Entry], agent: str) -> Iterator[int]:
    """Yield the first round of a member each time that it joined and its peers judged a model."""
    member = False
    for entry in entries:
        if entry.kind != "terms":
            continue
        terms = AgreedTerms.from_json(entry.terms)
        joins, member = agent in terms.members and not member, agent in terms.members
        if joins and is_judged(terms):
            yield entry.round + 1


def _received(entries: Sequence[Entry], agent: str) -> float | None:
    """Return the mean share of the update that a member was given, None if nobody was given any."""
    settled = [e for e in entries if e.kind == "round" and e.settled]
    most = max((x.kept for e in settled for x in e.lines), default=0)
    own = [x.kept for e in settled for x in e.lines if x.agent == agent]
    return sum(own) / (len(own) * most) if own and most else None


def _agreed(entries: Sequence[Entry]) -> list[AgreedTerms]:
    """Read all terms of a run, which must start with some."""
    try:
        agreed = [AgreedTerms.from_json(e.terms) for e in entries if e.kind == "terms"]
    except ValueError as error:
        raise MotifairError(
            f"This ledger is damaged ({error}); `motifair ledger verify` says where."
        ) from None
    if not agreed or entries[0].kind != "terms":
        raise MotifairError("This run has no terms; `motifair ledger verify` says what is missing.")
    return agreed


def _motifs(
    agent: str, motifs: Mapping[str, tuple[str, ...]], terms: AgreedTerms
) -> tuple[Motif, ...] | None:
    """Return a member's motifs, rarest among the others first; None if unknown."""
    if agent not in motifs:
        return None
    rule = valued_by(terms)
    needed = 1 if rule is None else rule.config.corroboration
    weighs = rule is None or rule.config.diversity_weight > 0
    others = [set(keys) for name, keys in motifs.items() if name != agent]
    holders = {key: sum(key in keys for keys in others) for key in motifs[agent]}
    ordered = sorted(holders, key=lambda key: (holders[key], len(key), key))
    known = {key: fragment(key) for key in ordered if terms.config.get("smiles")}
    smiles = {key: found.smiles for key, found in known.items() if found is not None}
    return tuple(
        Motif(k, holders[k], holders[k] + 1 >= needed if weighs else None, smiles.get(k, ""))
        for k in ordered
    )
