"""Random histories of a run: any that a ledger may hold, and those that the mechanism produces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

import torch

from motifair.mechanism.settlement import PICO
from motifair.mechanism.value import EVIDENCE
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms, Entry, Line

POOL = ("bank-a", "bank-b", "bank-c", "bank-d", "bank-e", "bank-f", "bank-g", "bank-h")


def terms_of(random: Random, members: list[str], **changes: object) -> AgreedTerms:
    cap = random.choice([0, 5, 2_000, 10**9])
    wanted: dict[str, object] = {
        "members": dict.fromkeys(members, ""),
        "budget": random.choice([0, 1, 7, 10_000, random.randrange(10**6)]),
        "digits": 2,
        "currency": "EUR",
        "max_penalty": cap,
        "max_total_penalty": random.choice([cap, 3 * cap, 10**12]),
        "rounds": 100,
        "quorum": random.randint(0, len(members)),
        "method": "motifair",
        "pays": "value",
        "config": {},
    }
    return AgreedTerms(**(wanted | changes))  # type: ignore[arg-type]


def line_of(name: str, status: str, value: int, alignment: int | None, diversity: int) -> Line:
    reason = "" if status == "present" else "no answer in 60 s"
    return Line(
        agent=name, status=status, reason=reason, value=value,  # type: ignore[arg-type]
        alignment=alignment, diversity=diversity, compensation=0, kept=0, payoff=0, upload="",
        signature="",
    )  # fmt: skip


def any_history(random: Random) -> list[Entry]:
    """Entries with arbitrary values that a ledger may hold."""
    books = Accounts("random")
    entries: list[Entry] = []
    method, pays = random.choice(
        [("motifair", "value"), ("fedavg", "equal"), ("unheard-of", "value")]
    )
    for _ in range(random.randint(1, 3)):
        members = random.sample(POOL, random.randint(1, len(POOL)))
        entries.append(books.agree(terms_of(random, members, method=method, pays=pays)))
        books.add(entries[-1])
        for _ in range(random.randint(0, 4)):
            entries.append(books.settle([_any_line(random, name) for name in members]))
            books.add(entries[-1])
    return entries


def _any_line(random: Random, name: str) -> Line:
    status = random.choice(["present", "present", "present", "absent", "rejected"])
    value = random.choice([0, 1, PICO, -1, random.randrange(PICO), -random.randrange(PICO // 2)])
    alignment = random.choice([None, 0, random.randrange(-PICO, PICO)])
    return line_of(name, status, value, alignment, random.randrange(PICO))


@dataclass
class Naive:
    """The parts of all members' values, carried forward naively in fractions."""

    initial: dict[str, Fraction] = field(default_factory=dict)
    alignment: dict[str, Fraction] = field(default_factory=dict)
    diversity: dict[str, Fraction] = field(default_factory=dict)
    raised: dict[str, Fraction] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    worth: Mapping[str, int] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[dict[str, Fraction], ...]:
        return self.initial, self.alignment, self.diversity, self.raised

    def value(self, name: str) -> Fraction:
        return sum((part[name] for part in self.parts), Fraction(0))

    def change(self, members: list[str]) -> None:
        """New members get 1/N; the others share the rest in proportion."""
        new = [n for n in members if n not in self.initial]
        gone = [n for n in self.initial if n not in members]
        if not new and not gone:
            return
        stay = [n for n in members if n in self.initial]
        kept = sum((self.value(n) for n in stay), Fraction(0))
        rest = 1 - Fraction(len(new), len(members))
        for part in self.parts:
            for name in gone:
                del part[name]
            for name in stay:
                part[name] = part[name] * rest / kept if kept > 0 else Fraction(0)
            part.update(dict.fromkeys(new, Fraction(0)))
        self.seen &= set(stay)
        for name in members if kept <= 0 else new:
            self.initial[name] = Fraction(1, len(members))

    def begin(self, new: Mapping[str, tuple[Fraction, Fraction, Fraction]], rest: Fraction) -> None:
        """Give members without evidence so far what theirs is of the others', with a tenth of what
        their graphs are worth; or all what theirs is, or leave all.
        """
        evidence = {n: sum(parts, Fraction(0)) for n, parts in new.items()}
        known = [n for n in new if n in self.seen]
        decided = not known and sum(evidence.values()) > 0
        if not decided:
            worth = sum(self.worth[n] for n in new)
            evidence = {n: x + Fraction(self.worth[n], 10 * worth) for n, x in evidence.items()}
        said = sum((evidence[n] for n in known or new), Fraction(0))
        held = sum((self.value(n) for n in known), Fraction(0)) if known else said
        if said <= 0 or held <= 0:
            return
        first = {n: self.value(n) if n in known else held / said * evidence[n] for n in new}
        total = sum(first.values())
        if total <= 0:
            return
        for n, parts in new.items():
            by = rest / total
            if n in known:
                for part in self.parts:
                    part[n] *= by
                continue
            for part, x in zip(self.parts[1:], parts, strict=True):
                part[n] = by * held / said * x if decided else Fraction(0)
            self.initial[n] = Fraction(0) if decided else by * first[n]

    def step(
        self, phi: Mapping[str, float], d: Mapping[str, float], c: Mapping[str, object]
    ) -> None:
        """E9 among the members with an alignment."""
        there = sorted(phi)
        rest = sum((self.value(n) for n in there), Fraction(0))
        if rest <= 0:
            return
        rate = Fraction(str(c["value_rate"]))
        kept = 1 if c["value_update"] == "additive" else 1 - rate
        judge = EVIDENCE[str(c["evidence"])]

        def evidence(weight: float) -> dict[str, Fraction]:
            columns = (torch.tensor([x[n] for n in there], dtype=torch.float64) for x in (phi, d))
            judged = judge(*columns, weight).tolist()  # type: ignore[call-arg]
            return {n: Fraction(x) for n, x in zip(there, judged, strict=True)}

        whole, aligned = evidence(float(str(c["diversity_weight"]))), evidence(0.0)
        half = sum(abs(x) for x in whole.values()) / 2
        lift = max(half - sum(whole.values()), Fraction(0)) / len(there)
        total = kept + rate * sum(whole[n] + lift for n in there)
        if total == 0:
            self.seen |= set(there)
            return
        if c["initial_value"] == "evidence":
            self.begin({n: (aligned[n], whole[n] - aligned[n], lift) for n in there}, rest)
        self.seen |= set(there)
        for n in there:
            self.initial[n] = kept * self.initial[n] / total
            self.alignment[n] = (kept * self.alignment[n] + rest * rate * aligned[n]) / total
            new = whole[n] - aligned[n]
            self.diversity[n] = (kept * self.diversity[n] + rest * rate * new) / total
            self.raised[n] = (kept * self.raised[n] + rest * rate * lift) / total
        for part in self.parts:  # or the fractions grow with every round
            part.update({n: Fraction(round(part[n] * 10**18), 10**18) for n in there})


def true_history(random: Random, low: float = -0.3) -> tuple[list[Entry], list[Naive]]:
    """Entries that the mechanism produces from random alignments, with absences, joins, leaves."""
    config = {
        "value_rate": random.choice([0.05, 0.3, 0.9]),
        "value_update": random.choice(["additive", "ema"]),
        "evidence": random.choice(["sum", "judged"]),
        "diversity_weight": random.choice([0.0, 1.0, 8.0]),
        "initial_value": random.choice(["equal", "evidence"]),
    }
    worth = {name: random.randint(1, 9) for name in POOL}
    books, naive = Accounts("random"), Naive(worth=worth)
    entries: list[Entry] = []
    states: list[Naive] = []
    for _ in range(random.randint(1, 3)):
        members = sorted(random.sample(POOL, random.randint(1, len(POOL))))
        naive.change(members)
        entries.append(books.agree(terms_of(random, members, config=config)))
        books.add(entries[-1])
        d = {n: round(random.random(), 6) for n in members}
        for _ in range(random.randint(1, 5)):
            there = [n for n in members if random.random() < 0.8]
            phi = {n: round(random.uniform(low, 1), 6) for n in there}
            if phi and sum((naive.value(n) for n in there), Fraction(0)) > 0:
                naive.step(phi, d, config)
            else:
                phi = {}
            lines = [
                line_of(
                    n, "present" if n in there else "absent", round(naive.value(n) * PICO),
                    round(phi[n] * PICO) if n in phi else None, round(d[n] * PICO),
                )
                for n in members
            ]  # fmt: skip
            entries.append(books.settle(lines))
            books.add(entries[-1])
            states.append(Naive(*(dict(part) for part in naive.parts), set(naive.seen)))
    return entries, states
