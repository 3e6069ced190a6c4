"""What a member was paid in each round: its payoff divided into parts, and what is unusual."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

import torch

from motifair.errors import MotifairError
from motifair.mechanism.payoff import shapley_payoff
from motifair.mechanism.settlement import Share, apportion, to_pico
from motifair.statements.accounts import Accounts
from motifair.statements.attribution import ValueAttribution, ValueParts
from motifair.statements.entry import AgreedTerms, Entry, Line, decimal
from motifair.statements.explanations import (
    LIMITED,
)


@dataclass(frozen=True)
class Payment:
    """One round of a statement, or the audit of claims (`kind`): the payoff by part, and what other
    rules would have paid.

    `amounts` maps parts (`PARTS`) to units of money; they add up to `payoff`. `value`,
    `compensation` and `value_parts` (None if unknown) are in units of 1e-12. `equal` and `shapley`
    (None if numbers of graphs are unknown) are the payoffs under these rules. `lean` is the
    member's share in the round's step (`Statement.leaning`). `withheld` is its share of the round
    that the reserve got, since it was absent. `note` says what is unusual about the round. `hash`
    is that of entry `number` of the ledger.
    """

    round: int
    number: int
    hash: str
    settled: bool
    status: str
    note: str
    value: int
    value_parts: ValueParts | None
    compensation: int
    amounts: Mapping[str, int]
    payoff: int
    equal: int
    shapley: int | None
    lean: float | None
    withheld: int = 0
    kind: str = "round"


def payments_of(
    entries: Sequence[Entry], agent: str, graphs: Mapping[str, int]
) -> Iterator[Payment]:
    """Yield the rounds of a member; refuse a round that does not follow from those before it."""
    books, attribution = Accounts(entries[0].run), ValueAttribution(agent, graphs)
    by_size: dict[str, int] | None = None
    for entry in entries:
        if entry.kind == "terms":
            books.add(entry)
            attribution.set_terms(books.agreed)
            by_size = _sizes(books.agreed, graphs)
            continue
        if entry.kind == "audit":
            yield from _audits(entry, agent, books, by_size is not None)
            continue
        _refuse_misfit(entry, books)
        step = attribution.add_round(entry)
        for line in (x for x in entry.lines if x.agent == agent):
            withheld = books.withheld(entry).get(agent, 0)
            yield Payment(
                round=entry.round,
                number=entry.number,
                hash=entry.hash,
                settled=entry.settled,
                status=line.status,
                note=_note(entry, line, books, step.explained, withheld),
                value=line.value,
                value_parts=step.value_parts,
                compensation=line.compensation,
                amounts=_amounts(entry, line, books.agreed, step.value_parts),
                payoff=line.payoff,
                equal=_instead(entry, agent, dict.fromkeys(books.agreed.members, 1), books.agreed),
                shapley=None if by_size is None else _instead(entry, agent, by_size, books.agreed),
                lean=step.lean,
                withheld=withheld,
            )
        books.add(entry)


def _audits(entry: Entry, agent: str, books: Accounts, sizes: bool) -> Iterator[Payment]:
    """Yield what a member paid by an audit, if it was drawn."""
    asked, fine = books.agreed.audit["graphs"], books.agreed.audit["fine"]
    for line in (x for x in entry.lines if x.agent == agent):
        note = f"audit of claims: all of the {asked} graphs that were asked for were shown"
        if line.status != "present":
            note = f"audit of claims: {line.reason}; the fine is {fine} times what the run paid"
        yield Payment(
            round=entry.round,
            number=entry.number,
            hash=entry.hash,
            settled=True,
            status=line.status,
            note=note,
            value=0,
            value_parts=None,
            compensation=0,
            amounts={"fine": line.payoff},
            payoff=line.payoff,
            equal=0,
            shapley=0 if sizes else None,
            lean=None,
            kind="audit",
        )


def _refuse_misfit(entry: Entry, books: Accounts) -> None:
    """Refuse a round whose payoffs do not follow from the recorded values."""
    members = [x.agent for x in entry.lines] == sorted(books.agreed.members)
    if not members or books.settle(entry.lines) != entry:
        raise MotifairError(
            f"Round {entry.round} of run {entry.run} does not follow from the entries before it; "
            "`motifair ledger verify` says where."
        )


def _amounts(
    entry: Entry, line: Line, terms: AgreedTerms, value_parts: ValueParts | None
) -> dict[str, int]:
    """Divide a payoff into parts: all of it is in proportion to p_i = r_i + μ_i, so is each part.

    The budget pays the parts of value and compensation; the penalties of others are a part of
    their own, so that a reader sees what came from the federation and what from its members.
    """
    if not entry.settled or (line.status != "present" and line.value >= 0):
        return {}
    if terms.pays == "equal":
        counted = sum(x.status == "present" or bool(terms.reserve) for x in entry.lines)
        exact = {"equal": Fraction(entry.budget, counted)} if line.status == "present" else {}
    elif line.value < 0:
        return {"penalty": line.payoff}
    else:
        rate = paid_per_value(entry, terms)
        fines = sum(max(-x.payoff, 0) for x in entry.lines)
        parts = {"value": line.value} if value_parts is None else asdict(value_parts)
        parts["compensation"] = line.compensation
        exact = {name: rate * pico for name, pico in parts.items()}
        exact["redistribution"] = Fraction(fines * _weight(line, terms), _gains(entry, terms))
    shown = {name: round(amount) for name, amount in exact.items()}
    return shown | {"rounding": line.payoff - sum(shown.values())}


def paid_per_value(entry: Entry, terms: AgreedTerms) -> Fraction:
    """Return how many units of money one unit (1e-12) of value or compensation is paid from the
    budget of a settled round that pays by value.
    """
    return Fraction(entry.budget, _gains(entry, terms))


def _gains(entry: Entry, terms: AgreedTerms) -> int:
    return sum(max(_weight(x, terms), 0) for x in entry.lines)


def _weight(line: Line, terms: AgreedTerms) -> int:
    counts = line.status == "present" or bool(terms.reserve)
    return Share(line.value, line.compensation, counts).weight


def _note(entry: Entry, line: Line, books: Accounts, explained: bool, withheld: int) -> str:
    """Return what is unusual about a round."""
    notes = []
    if line.status != "present":
        notes.append(line.status + (f" ({line.reason})" if line.reason else ""))
    if withheld:
        amount = decimal(withheld, books.agreed.digits)
        notes.append(f"its share of {amount} went to the reserve")
    if not entry.settled:
        few = sum(x.status == "present" for x in entry.lines) < books.agreed.quorum
        why = "below the quorum" if few else "no present member could be paid"
        notes.append(f"not settled ({why}), the budget is carried over")
    elif books.agreed.pays == "value" and line.value < 0:
        notes.append(_limit(entry, line, books))
    if not explained:
        notes.append("the value does not follow from the recorded evidence: ask for an audit")
    return "; ".join(note for note in notes if note)


def _limit(entry: Entry, line: Line, books: Accounts) -> str:
    """Return which limit of the terms reduced a penalty, '' if none did."""
    total = sum(_weight(x, books.agreed) for x in entry.lines)
    if total > 0 and -line.payoff >= entry.budget * -line.value // total:
        return ""
    if books.liability(line.agent) < books.agreed.max_penalty:
        return f"{LIMITED} in total"
    return f"{LIMITED} per round"


def _instead(entry: Entry, agent: str, weights: Mapping[str, int], terms: AgreedTerms) -> int:
    """Return what a member would have been paid if the budget were divided by these weights."""
    here = {x.agent for x in entry.lines if x.status == "present"}
    counted = {x.agent: weights[x.agent] for x in entry.lines if x.agent in here or terms.reserve}
    paid = apportion(counted, entry.budget) if entry.settled else {}
    return paid.get(agent, 0) if agent in here else 0


def _sizes(terms: AgreedTerms, graphs: Mapping[str, int]) -> dict[str, int] | None:
    """Return Shapley values of the numbers of graphs as weights; None if a number is unknown."""
    names = sorted(terms.members)
    counts = [graphs.get(name, 0) for name in names]
    if min(counts) < 1:
        return None
    shares = shapley_payoff(torch.tensor(counts), 1.0)
    return {name: to_pico(float(share)) for name, share in zip(names, shares, strict=True)}
