"""What a member was paid and why, round by round and in total, from the entries of a ledger.

Amounts are whole units of money: each part of a payoff is rounded by itself, and `rounding` is what
is missing to the payoff, so that they always add up to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import torch

from motifair.errors import MotifairError
from motifair.mechanism.payoff import shapley_payoff
from motifair.mechanism.settlement import Share, apportion, to_pico
from motifair.statements.accounts import Accounts
from motifair.statements.attribution import Origin, Origins, valued_by
from motifair.statements.entry import AgreedTerms, Entry, Line, decimal
from motifair.statements.wording import how_paid, how_to_repeat, how_to_verify, what_is_unknown

PARTS = {
    "initial": "what is left of the equal value that all members begin with",
    "alignment": "how well its updates went where the members' data point",
    "diversity": "the variety of motifs in its graphs",
    "adjustment": "evidence that was raised for all alike, and what else is missing to the value",
    "value": "its value, by the rule of the method",
    "equal": "the same for everybody who was there",
    "compensation": "for late contribution: a value above its own earlier mean",
    "redistribution": "penalties that others paid, shared out in the same proportions",
    "penalty": "for a negative value: its updates harmed the others",
    "rounding": "each amount is rounded by itself; this makes them add up to the payoff",
}
LEANED = 5
LEANED_ON = (
    "Its part in what moved the federation where the members' data point: the weight of its update "
    "in the sum of all, times the alignment of that update where it is positive, over the same of "
    "all members."
)


@dataclass(frozen=True)
class Payment:
    """One round: what was paid, by part, in units of money; and what another rule would have paid.

    `amounts` add up to `payoff`. Value, compensation and the parts of the value (`origin`, None
    where they are not known) are in units of 1e-12. `lean` is the member's part in what moved the
    federation; `note` says what is unusual. `hash` is that of the ledger's entry `number`.
    """

    round: int
    number: int
    hash: str
    settled: bool
    status: str
    note: str
    value: int
    origin: Origin | None
    compensation: int
    amounts: Mapping[str, int]
    payoff: int
    equal: int
    shapley: int | None
    lean: float | None


@dataclass(frozen=True)
class Motif:
    """A motif that the member brings: how many others have it, and whether it counts."""

    key: str
    others: int
    counts: bool


@dataclass(frozen=True)
class Statement:
    """What a member was paid and why.

    `rounds` are those in which it was a member. `motifs` is None where they are not known.
    `sentences` say how it was paid, `verification` has commands and what each of them does.
    """

    run: str
    agent: str
    method: str
    currency: str
    digits: int
    entries: int
    head: str
    rounds: tuple[Payment, ...]
    motifs: tuple[Motif, ...] | None
    sentences: tuple[str, ...]
    verification: tuple[tuple[str, str], ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that are not zero in every round, in the order of `PARTS`."""
        there = {name for p in self.rounds for name, units in p.amounts.items() if units}
        return tuple(name for name in PARTS if name in there)

    @property
    def totals(self) -> dict[str, int]:
        """Each part over all rounds: the sum of what stands in its column."""
        return {name: sum(p.amounts.get(name, 0) for p in self.rounds) for name in PARTS}

    @property
    def payoff(self) -> int:
        """What it was paid in all."""
        return sum(p.payoff for p in self.rounds)

    @property
    def equal(self) -> int:
        """What it would have been paid, had all who were there got the same."""
        return sum(p.equal for p in self.rounds)

    @property
    def shapley(self) -> int | None:
        """What it would have been paid by data size; None where sizes are not known."""
        found = [p.shapley for p in self.rounds if p.shapley is not None]
        return sum(found) if len(found) == len(self.rounds) else None

    @property
    def leaned_on(self) -> tuple[Payment, ...]:
        """The rounds in which the federation leaned on its update most."""
        found = [p for p in self.rounds if p.lean]
        return tuple(sorted(found, key=lambda p: (-(p.lean or 0), p.round))[:LEANED])

    def money(self, units: int | None) -> str:
        """Write an amount."""
        return "" if units is None else decimal(units, self.digits)

    def only(self, round: int) -> Statement:
        """Return the statement of one round."""
        found = tuple(p for p in self.rounds if p.round == round)
        if not found:
            numbers = [p.round for p in self.rounds] or [0]
            raise MotifairError(
                f"{self.agent} was no member in round {round}; its rounds are from {min(numbers)} "
                f"to {max(numbers)}."
            )
        return replace(self, rounds=found)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; amounts and values are exact decimals, as text."""
        names = self.parts
        shapley = self.shapley
        return {
            "run": self.run,
            "agent": self.agent,
            "method": self.method,
            "currency": self.currency,
            "payoff": self.money(self.payoff),
            "parts": {name: self.money(self.totals[name]) for name in names},
            "meaning": {name: PARTS[name] for name in names},
            "sentences": list(self.sentences),
            "instead": {
                "equal": self.money(self.equal),
                "shapley": None if shapley is None else self.money(shapley),
            },
            "motifs": None if self.motifs is None else [asdict(m) for m in self.motifs],
            "leaned_on": {
                "meaning": LEANED_ON,
                "rounds": [{"round": p.round, "part": p.lean} for p in self.leaned_on],
            },
            "ledger": {"entries": self.entries, "head": self.head},
            "verification": [{"command": c, "does": does} for c, does in self.verification],
            "rounds": [self._payment_json(p, names) for p in self.rounds],
        }

    def _payment_json(self, p: Payment, names: Sequence[str]) -> dict[str, Any]:
        value_parts = {} if p.origin is None else asdict(p.origin)
        return {
            "round": p.round,
            "entry": p.number,
            "hash": p.hash,
            "settled": p.settled,
            "status": p.status,
            "note": p.note,
            "payoff": self.money(p.payoff),
            "parts": {name: self.money(p.amounts.get(name, 0)) for name in names},
            "value": decimal(p.value, 12),
            "value_parts": {name: decimal(pico, 12) for name, pico in value_parts.items()},
            "compensation": decimal(p.compensation, 12),
            "lean": p.lean,
            "instead": {
                "equal": self.money(p.equal),
                "shapley": None if p.shapley is None else self.money(p.shapley),
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
) -> Statement:
    """Make the statement of a member from the entries of one run, the first of which are terms.

    `graphs` is how many graphs each member trains on, `motifs` has the keys of its motifs; both may
    be empty. `ledger` (a file, or a URL, whose password is left out), the `folder` of the run or
    the operator, and the `split` of a simulation are for the commands by which a reader verifies.
    """
    agreed = _agreed(entries)
    known = sorted({name for terms in agreed for name in terms.members})
    if agent not in known:
        raise MotifairError(
            f"There is no agent '{agent}' in run {entries[0].run}; there are {', '.join(known)}."
        )
    run, last = entries[0].run, agreed[-1]
    return Statement(
        run=run,
        agent=agent,
        method=last.method,
        currency=last.currency,
        digits=last.digits,
        entries=len(entries),
        head=entries[-1].hash,
        rounds=tuple(_payments(entries, agent, graphs)),
        motifs=_motifs(agent, motifs, last),
        sentences=(*dict.fromkeys(how_paid(t) for t in agreed), *what_is_unknown(known, graphs)),
        verification=(
            how_to_verify(run, agent, ledger, folder)
            if any(last.members.values())
            else how_to_repeat(agent, folder, split)
        ),
    )


def _agreed(entries: Sequence[Entry]) -> list[AgreedTerms]:
    """Read all terms of a run; it begins with some."""
    try:
        found = [AgreedTerms.from_json(e.terms) for e in entries if e.kind == "terms"]
    except ValueError as error:
        raise MotifairError(
            f"This ledger is damaged ({error}); `motifair ledger verify` says where."
        ) from None
    if not found or entries[0].kind != "terms":
        raise MotifairError("This run has no terms; `motifair ledger verify` says what is missing.")
    return found


def _payments(entries: Sequence[Entry], agent: str, graphs: Mapping[str, int]) -> Iterator[Payment]:
    books, origins = Accounts(entries[0].run), Origins(agent, graphs)
    by_size: dict[str, int] | None = None
    for entry in entries:
        if entry.kind == "terms":
            books.add(entry)
            origins.agree(books.agreed)
            by_size = _sizes(books.agreed, graphs)
            continue
        _refuse_misfit(entry, books)
        step = origins.follow(entry)
        for line in (x for x in entry.lines if x.agent == agent):
            yield Payment(
                round=entry.round,
                number=entry.number,
                hash=entry.hash,
                settled=entry.settled,
                status=line.status,
                note=_note(entry, line, books, step.explained),
                value=line.value,
                origin=step.origin,
                compensation=line.compensation,
                amounts=_amounts(entry, line, books.agreed, step.origin),
                payoff=line.payoff,
                equal=_instead(entry, agent, dict.fromkeys(books.agreed.members, 1)),
                shapley=None if by_size is None else _instead(entry, agent, by_size),
                lean=step.lean,
            )
        books.add(entry)


def _refuse_misfit(entry: Entry, books: Accounts) -> None:
    """A statement of payoffs that do not follow from what is recorded would explain nothing."""
    members = [x.agent for x in entry.lines] == sorted(books.agreed.members)
    if not members or books.settle(entry.lines) != entry:
        raise MotifairError(
            f"Round {entry.round} of run {entry.run} does not follow from what is recorded before "
            "it; `motifair ledger verify` says where."
        )


def _amounts(entry: Entry, line: Line, terms: AgreedTerms, origin: Origin | None) -> dict[str, int]:
    """Take a payoff apart: everything is in proportion to p_i = r_i + μ_i, and so is each part.

    The budget pays the parts of value and compensation; the penalties of others are a part of
    their own, so that who reads it sees what came from the federation and what from its members.
    """
    if not entry.settled or (line.status != "present" and line.value >= 0):
        return {}
    if terms.pays == "equal":
        present = sum(x.status == "present" for x in entry.lines)
        exact = {"equal": Fraction(entry.budget, present)} if line.status == "present" else {}
    elif line.value < 0:
        return {"penalty": line.payoff}
    else:
        rate = paid_per_value(entry)
        fines = sum(max(-x.payoff, 0) for x in entry.lines)
        parts = {"value": line.value} if origin is None else asdict(origin)
        parts["compensation"] = line.compensation
        exact = {name: rate * pico for name, pico in parts.items()}
        exact["redistribution"] = Fraction(fines * _weight(line), _gains(entry))
    shown = {name: round(amount) for name, amount in exact.items()}
    return shown | {"rounding": line.payoff - sum(shown.values())}


def paid_per_value(entry: Entry) -> Fraction:
    """Return the units of money that the budget of a settled round, paid by value, pays for one
    unit (1e-12) of value or compensation.
    """
    return Fraction(entry.budget, _gains(entry))


def _gains(entry: Entry) -> int:
    return sum(max(_weight(x), 0) for x in entry.lines)


def _weight(line: Line) -> int:
    return Share(line.value, line.compensation, line.status == "present").weight


def _note(entry: Entry, line: Line, books: Accounts, explained: bool) -> str:
    """Say in a few words what is unusual about a round."""
    words = []
    if line.status != "present":
        words.append(line.status + (f" ({line.reason})" if line.reason else ""))
    if not entry.settled:
        few = sum(x.status == "present" for x in entry.lines) < books.agreed.quorum
        why = "below the quorum" if few else "nobody there could be paid"
        words.append(f"not settled ({why}), the budget is carried over")
    elif books.agreed.pays == "value" and line.value < 0:
        words.append(_limit(entry, line, books))
    if not explained:
        words.append("the value does not follow from what is recorded: ask for an audit")
    return "; ".join(word for word in words if word)


def _limit(entry: Entry, line: Line, books: Accounts) -> str:
    """Say which limit kept a penalty low, if one did."""
    total = sum(_weight(x) for x in entry.lines)
    if total > 0 and -line.payoff >= entry.budget * -line.value // total:
        return ""
    if books.liability(line.agent) < books.agreed.max_penalty:
        return "penalty limited by what the terms allow in all"
    return "penalty limited by what the terms allow in a round"


def _instead(entry: Entry, agent: str, weights: Mapping[str, int]) -> int:
    """Return what a member would have been paid of this budget, shared out by other weights."""
    present = {x.agent: weights[x.agent] for x in entry.lines if x.status == "present"}
    return apportion(present, entry.budget).get(agent, 0) if entry.settled else 0


def _sizes(terms: AgreedTerms, graphs: Mapping[str, int]) -> dict[str, int] | None:
    """Weigh members by the Shapley value of their numbers of graphs; None where one is unknown."""
    names = sorted(terms.members)
    counts = [graphs.get(name, 0) for name in names]
    if min(counts) < 1:
        return None
    shares = shapley_payoff(torch.tensor(counts), 1.0)
    return {name: to_pico(float(share)) for name, share in zip(names, shares, strict=True)}


def _motifs(
    agent: str, motifs: Mapping[str, tuple[str, ...]], terms: AgreedTerms
) -> tuple[Motif, ...] | None:
    """List a member's motifs, those first that fewest others have."""
    if agent not in motifs:
        return None
    rule = valued_by(terms)
    needed = 1 if rule is None else rule.config.corroboration
    others = [set(keys) for name, keys in motifs.items() if name != agent]
    holders = {key: sum(key in keys for keys in others) for key in motifs[agent]}
    ordered = sorted(holders, key=lambda key: (holders[key], len(key), key))
    return tuple(Motif(key, holders[key], holders[key] + 1 >= needed) for key in ordered)
