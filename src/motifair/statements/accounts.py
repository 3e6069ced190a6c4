"""Accounts of a run after some entries, and from them its next entry.

The server makes its entries here, and verification makes them again from the recorded values and
compares: there is one way from values to payoffs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from motifair.mechanism.settlement import Share, Unsettled, apportion, compensation_of, settle
from motifair.statements.audits import AuditTerms
from motifair.statements.entry import GENESIS, AgreedTerms, Entry, Line


def _zeros() -> defaultdict[str, int]:
    return defaultdict(int)


@dataclass
class Accounts:
    """Accounts of one run: the terms in force and the sums that the next round depends on.

    `entries` and `round` count entries and rounds, `head` is the last hash. `carried` is the budget
    of rounds that were not settled, `reserve` what settled rounds did not pay to members. `earned`
    and `fined` are the sums of positive payoffs and of penalties by member, `value_sum` and
    `present` the sum and number of its earlier values. `keys` are the public keys of all that were
    ever members, `audited` the fines of the audit of claims by member, None before it.

    >>> from motifair.statements.entry import AgreedTerms
    >>> accounts = Accounts("run-1")
    >>> accounts.add(accounts.agree(AgreedTerms({"a": ""}, 100, 2, "EUR", 0, 0, 5, 1, "motifair")))
    >>> accounts.entries, accounts.round, accounts.agreed.currency
    (1, 0, 'EUR')
    """

    run: str
    terms: AgreedTerms | None = None
    entries: int = 0
    head: str = GENESIS
    round: int = 0
    carried: int = 0
    reserve: int = 0
    earned: defaultdict[str, int] = field(default_factory=_zeros)
    fined: defaultdict[str, int] = field(default_factory=_zeros)
    value_sum: defaultdict[str, int] = field(default_factory=_zeros)
    present: defaultdict[str, int] = field(default_factory=_zeros)
    keys: dict[str, str] = field(default_factory=dict)
    audited: dict[str, int] | None = None

    @classmethod
    def of(cls, run: str, entries: Iterable[Entry]) -> Accounts:
        """Return the accounts after existing entries."""
        accounts = cls(run)
        for entry in entries:
            accounts.add(entry)
        return accounts

    @property
    def agreed(self) -> AgreedTerms:
        """The terms in force; raises ValueError before the first."""
        if self.terms is None:
            raise ValueError("there are no terms before the first round")
        return self.terms

    def agree(self, terms: AgreedTerms | str) -> Entry:
        """Return the entry that puts these terms into force; `add` it to proceed."""
        text = terms if isinstance(terms, str) else terms.to_json()
        return Entry(
            self.run, self.entries, "terms", self.round, False, 0, text, (), previous=self.head
        )

    def settle(self, lines: Iterable[Line]) -> Entry:
        """Return the entry of the next round, with compensations and payoffs of `lines` filled in.

        A round below the quorum, or in which nobody can be paid, is not settled. A compensation is
        recorded only where it is paid: for a present member, in a settled round, paid by value.
        """
        ordered = sorted(lines, key=lambda line: line.agent)
        budget = self.agreed.budget + self.carried
        bonus = {line.agent: self.compensation(line) for line in ordered}
        payoffs = self._payoffs(ordered, bonus, budget)
        if payoffs is None:
            bonus = {}
        paid = payoffs or {}
        filled = tuple(
            replace(x, compensation=bonus.get(x.agent, 0), payoff=paid.get(x.agent, 0))
            for x in ordered
        )
        return Entry(
            run=self.run,
            number=self.entries,
            kind="round",
            round=self.round + 1,
            settled=payoffs is not None,
            budget=budget,
            terms="",
            lines=filled,
            previous=self.head,
        )

    @property
    def drawn(self) -> list[str]:
        """The members whose claims are audited, by the last hash; none before the last round."""
        terms = self.agreed
        if not terms.audit or self.round < terms.rounds or self.audited is not None:
            return []
        audit = AuditTerms(**terms.audit)
        return [name for name in sorted(self.keys) if audit.draws(self.head, name)]

    def audit(self, lines: Iterable[Line]) -> Entry:
        """Return the entry of the audit of claims, with the fines of `lines` filled in."""
        fine = AuditTerms(**self.agreed.audit).fine
        nothing: dict[str, Any] = {
            "value": 0,
            "alignment": None,
            "diversity": None,
            "compensation": 0,
            "kept": 0,
        }
        filled = tuple(
            replace(x, **nothing, payoff=-fine * self.earned[x.agent] * (x.status != "present"))
            for x in sorted(lines, key=lambda line: line.agent)
        )
        return Entry(
            self.run, self.entries, "audit", self.round, False, 0, "", filled, previous=self.head
        )

    def compensation(self, line: Line) -> int:
        """Return μ_i of a member in this round, provided that the round is settled."""
        if line.status != "present" or self.agreed.pays != "value":
            return 0
        return compensation_of(line.value, self.value_sum[line.agent], self.present[line.agent])

    def withheld(self, entry: Entry) -> dict[str, int]:
        """Return what of the next round falls to absent members, which the reserve gets."""
        if not entry.settled or not self.agreed.reserve:
            return {}
        bonus = {x.agent: x.compensation for x in entry.lines}
        shares = self._shares(entry.lines, bonus, entry.budget) or {}
        absent = [x.agent for x in entry.lines if x.status != "present"]
        return {name: max(shares[name], 0) for name in absent}

    def _payoffs(
        self, lines: Sequence[Line], bonus: Mapping[str, int], budget: int
    ) -> dict[str, int] | None:
        """Return what falls to each member; an absent one is paid nothing, and pays penalties."""
        shares = self._shares(lines, bonus, budget)
        if shares is None:
            return None
        here = {x.agent for x in lines if x.status == "present"}
        return {name: part if name in here else min(part, 0) for name, part in shares.items()}

    def _shares(
        self, lines: Sequence[Line], bonus: Mapping[str, int], budget: int
    ) -> dict[str, int] | None:
        """Return what of a budget falls to each member, None if the round is not settled.

        Where the terms name a reserve, absent members have a share as if they were present.
        """
        terms = self.agreed
        here = {x.agent for x in lines if x.status == "present"}
        counts = {x.agent: bool(terms.reserve) or x.agent in here for x in lines}
        if len(here) < terms.quorum:
            return None
        try:
            if terms.pays == "equal":
                return apportion({name: int(count) for name, count in counts.items()}, budget)
            shares = {x.agent: Share(x.value, bonus[x.agent], counts[x.agent]) for x in lines}
            if not any(shares[name].weight > 0 for name in here):
                return None
            return settle(
                shares,
                budget=budget,
                max_penalty=terms.max_penalty,
                liability={name: self.liability(name) for name in counts},
            )
        except Unsettled:
            return None

    def balance(self, agent: str) -> int:
        """Return what a member is owed: payoffs, less penalties and the fine of an audit."""
        fine = (self.audited or {}).get(agent, 0)
        return self.earned.get(agent, 0) - self.fined.get(agent, 0) - fine

    def liability(self, agent: str) -> int:
        """Return how much of its total penalty limit a member has left."""
        return max(self.agreed.max_total_penalty - self.fined[agent], 0)

    def add(self, entry: Entry) -> None:
        """Update the accounts by an entry, which is not verified here."""
        self.entries, self.head, self.round = entry.number + 1, entry.hash, entry.round
        if entry.kind == "terms":
            self.terms = AgreedTerms.from_json(entry.terms)
            self.keys |= self.terms.members
            return
        if entry.kind == "audit":
            self.audited = {line.agent: -line.payoff for line in entry.lines}
            self.reserve += sum(self.audited.values())
            return
        self.carried = 0 if entry.settled else entry.budget
        if entry.settled:
            self.reserve += entry.budget - sum(line.payoff for line in entry.lines)
        for line in entry.lines:
            self.earned[line.agent] += max(line.payoff, 0)
            self.fined[line.agent] += max(-line.payoff, 0)
            if entry.settled and line.status == "present":
                self.value_sum[line.agent] += line.value
                self.present[line.agent] += 1
