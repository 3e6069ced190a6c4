"""Accounts of a run after some entries, and from them its next entry.

The server makes its entries here, and verification makes them again from the recorded values and
compares: there is one way from values to payoffs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from motifair.mechanism.settlement import Share, Unsettled, apportion, compensation_of, settle
from motifair.statements.entry import GENESIS, AgreedTerms, Entry, Line


def _zeros() -> defaultdict[str, int]:
    return defaultdict(int)


@dataclass
class Accounts:
    """Accounts of one run: the terms in force and the sums that the next round depends on.

    `entries` and `round` count entries and rounds, `head` is the last hash. `carried` is the budget
    of rounds that were not settled, `earned` and `fined` are the sums of positive payoffs and of
    penalties by member, `value_sum` and `present` the sum and number of its earlier values.

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
    earned: defaultdict[str, int] = field(default_factory=_zeros)
    fined: defaultdict[str, int] = field(default_factory=_zeros)
    value_sum: defaultdict[str, int] = field(default_factory=_zeros)
    present: defaultdict[str, int] = field(default_factory=_zeros)

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

    def compensation(self, line: Line) -> int:
        """Return μ_i of a member in this round, provided that the round is settled."""
        if line.status != "present" or self.agreed.pays != "value":
            return 0
        return compensation_of(line.value, self.value_sum[line.agent], self.present[line.agent])

    def _payoffs(
        self, lines: list[Line], bonus: dict[str, int], budget: int
    ) -> dict[str, int] | None:
        terms = self.agreed
        is_present = {line.agent: line.status == "present" for line in lines}
        if sum(is_present.values()) < terms.quorum:
            return None
        try:
            if terms.pays == "equal":
                return apportion({name: int(here) for name, here in is_present.items()}, budget)
            return settle(
                {x.agent: Share(x.value, bonus[x.agent], is_present[x.agent]) for x in lines},
                budget=budget,
                max_penalty=terms.max_penalty,
                liability={name: self.liability(name) for name in is_present},
            )
        except Unsettled:
            return None

    def liability(self, agent: str) -> int:
        """Return how much of its total penalty limit a member has left."""
        return max(self.agreed.max_total_penalty - self.fined[agent], 0)

    def add(self, entry: Entry) -> None:
        """Update the accounts by an entry, which is not verified here."""
        self.entries, self.head, self.round = entry.number + 1, entry.hash, entry.round
        if entry.kind == "terms":
            self.terms = AgreedTerms.from_json(entry.terms)
            return
        self.carried = 0 if entry.settled else entry.budget
        for line in entry.lines:
            self.earned[line.agent] += max(line.payoff, 0)
            self.fined[line.agent] += max(-line.payoff, 0)
            if entry.settled and line.status == "present":
                self.value_sum[line.agent] += line.value
                self.present[line.agent] += 1
