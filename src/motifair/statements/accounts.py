"""Where a run stands after some entries, and what the next entry must be.

The server makes its entries here, and who verifies a ledger makes them again from the recorded
values and compares: there is one way to get from values to payoffs.
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
    """The books of one run: the terms in force and the sums that the next round depends on.

    `carried` is the budget of rounds that were not settled, `earned` and `fined` what each member
    got and paid in all, `value_sum` and `present` its earlier values and how many they are.
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
        """Keep the books over entries that are already there."""
        accounts = cls(run)
        for entry in entries:
            accounts.add(entry)
        return accounts

    @property
    def agreed(self) -> AgreedTerms:
        """The terms in force."""
        if self.terms is None:
            raise ValueError("there are no terms before the first round")
        return self.terms

    def agree(self, terms: AgreedTerms | str) -> Entry:
        """Make the entry by which these terms come into force."""
        text = terms if isinstance(terms, str) else terms.to_json()
        return Entry(
            self.run, self.entries, "terms", self.round, False, 0, text, (), previous=self.head
        )

    def settle(self, lines: Iterable[Line]) -> Entry:
        """Make the entry of the next round; compensations and payoffs of `lines` are filled in.

        Below the quorum, and where nobody can be paid, the round is not settled. A compensation
        stands only where it is paid: with a present member, in a settled round, paid by value.
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
        """Return μ_i of a member in this round, should it be settled."""
        if line.status != "present" or self.agreed.pays != "value":
            return 0
        return compensation_of(line.value, self.value_sum[line.agent], self.present[line.agent])

    def _payoffs(
        self, lines: list[Line], bonus: dict[str, int], budget: int
    ) -> dict[str, int] | None:
        terms = self.agreed
        there = {line.agent: line.status == "present" for line in lines}
        if sum(there.values()) < terms.quorum:
            return None
        try:
            if terms.pays == "equal":
                return apportion({name: int(present) for name, present in there.items()}, budget)
            return settle(
                {x.agent: Share(x.value, bonus[x.agent], there[x.agent]) for x in lines},
                budget=budget,
                max_penalty=terms.max_penalty,
                liability={name: self.liability(name) for name in there},
            )
        except Unsettled:
            return None

    def liability(self, agent: str) -> int:
        """Return how much a member can still be made to pay in all."""
        return max(self.agreed.max_total_penalty - self.fined[agent], 0)

    def add(self, entry: Entry) -> None:
        """Take an entry into the books."""
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
