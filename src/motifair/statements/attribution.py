"""Where a member's value comes from, and how far the federation leaned on its updates.

Given what it is divided by, E9 is linear: r_i^t = (kept·r_i^{t−1} + α1·x_i) / Z. So every part of a
value (the equal share at the beginning, what alignment brought, what diversity brought) is carried
from round to round like the value itself, and the parts can be found again from a ledger, which has
the alignment and the diversity of everybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import torch
from torch import Tensor

from motifair.config import make_config
from motifair.errors import MotifairError
from motifair.mechanism.settlement import PICO
from motifair.mechanism.value import EVIDENCE, bounded
from motifair.methods import make_method
from motifair.methods.motifair import Motifair
from motifair.methods.valuations import RunningValue
from motifair.statements.entry import AgreedTerms, Entry, Line

UNEXPLAINED = 1000  # of 1e-12: more than rounding leaves


@dataclass(frozen=True)
class Origin:
    """A value by where it comes from, in units of 1e-12.

    `adjustment` is evidence that was raised for all alike (`value.bounded`), and whatever else is
    missing to the recorded value: its last digits, unless a value was not `explained`.
    """

    initial: int
    alignment: int = 0
    diversity: int = 0
    adjustment: int = 0

    @property
    def value(self) -> int:
        """The parts together."""
        return self.initial + self.alignment + self.diversity + self.adjustment

    def scaled(self, by: Fraction | float, *new: float) -> Origin:
        """Carry each part on in the same proportion; alignment, diversity and adjustment may get
        something new.
        """
        alignment, diversity, adjustment = new or (0, 0, 0)
        return Origin(
            round(by * self.initial),
            round(by * self.alignment + alignment),
            round(by * self.diversity + diversity),
            round(by * self.adjustment + adjustment),
        )

    def ending(self, value: int) -> Origin:
        """Let the adjustment make the parts add up to a recorded value."""
        return replace(self, adjustment=self.adjustment + value - self.value)


@dataclass(frozen=True)
class Step:
    """A round of a member: where its value comes from, its `lean`, and whether its value follows
    from the recorded alignments and diversities, as far as is known.
    """

    origin: Origin | None = None
    lean: float | None = None
    explained: bool = True


class Origins:
    """Follows the value of one member through the entries of a run, in their order.

    `origin` is None while it is no member, and where the method does not value agents by E9.
    """

    def __init__(self, agent: str, graphs: Mapping[str, int]) -> None:
        self.agent, self.graphs = agent, graphs
        self.rule: Motifair | None = None
        self.origin: Origin | None = None
        self.values: dict[str, Fraction] = {}
        self.aligned: dict[str, int] = {}

    def agree(self, terms: AgreedTerms) -> None:
        """Go on under these terms: a newcomer begins with 1/N, who stays shares the rest."""
        self.rule = valued_by(terms)
        if self.values.keys() == terms.members.keys():
            return
        equal = Fraction(PICO, len(terms.members))
        stayed = {n: v for n, v in self.values.items() if n in terms.members}
        kept = sum(stayed.values())
        rest = PICO - (len(terms.members) - len(stayed)) * equal
        by = rest / kept if kept > 0 else None
        if self.agent not in terms.members:
            self.origin = None
        elif self.origin is None or by is None:
            self.origin = Origin(round(equal))
        else:
            self.origin = self.origin.scaled(by)
        self.values = {
            n: stayed[n] * by if n in stayed and by is not None else equal for n in terms.members
        }
        self.aligned = {n: a for n, a in self.aligned.items() if n in stayed}

    def follow(self, entry: Entry) -> Step:
        """Take a round."""
        told = [x for x in entry.lines if x.alignment is not None and x.diversity is not None]
        place = next((k for k, x in enumerate(told) if x.agent == self.agent), None)
        lean = None
        if self.rule is not None and place is not None:
            lean = self._lean(self.rule, told, place)
            self.origin = self._moved(self.rule, told, place)
        self.values = {x.agent: Fraction(x.value) for x in entry.lines}
        self.aligned |= {x.agent: x.alignment for x in told if x.alignment is not None}
        if self.origin is None or self.agent not in self.values:
            return Step()
        value, due = int(self.values[self.agent]), self.origin.value
        self.origin = self.origin.ending(value)
        if self.rule is None:
            return Step()
        return Step(self.origin, lean, explained=abs(value - due) <= UNEXPLAINED)

    def _moved(self, rule: Motifair, told: Sequence[Line], place: int) -> Origin:
        """E9 on the parts: those who told something share what the values of the others leave."""
        assert self.origin is not None
        c = rule.config
        phi, d = _column(told, "alignment"), _column(told, "diversity")
        x = EVIDENCE[c.evidence](phi, d, c.diversity_weight)
        aligned = EVIDENCE[c.evidence](phi, d, 0.0)
        kept = 1.0 if c.value_update == "additive" else 1.0 - c.value_rate
        raised = bounded(x) if c.value_guard else x
        total = kept + c.value_rate * float(raised.sum())
        rest = float(sum(self.values[line.agent] for line in told))
        if rest <= 0 or abs(total) < 1e-12:
            return self.origin
        gain = c.value_rate * rest / total
        new = (aligned[place], (x - aligned)[place], (raised - x)[place])
        return self.origin.scaled(kept / total, *(gain * float(part) for part in new))

    def _lean(self, rule: Motifair, told: Sequence[Line], place: int) -> float | None:
        """Return a member's part in what moved the federation where the members wanted it.

        That is a_i·max(φ_i, 0) over its sum: a_i weighs its update in the sum of all, φ_i is the
        alignment of this round alone, which the running mean hides.
        """
        rate = rule.config.alignment_rate
        phi = _column(told, "alignment")
        before = torch.tensor(
            [self.aligned.get(x.agent, torch.nan) for x in told], dtype=torch.float64
        )
        alone = (phi - (1 - rate) * before / PICO) / rate
        moved = self._weights(rule, told) * torch.where(before.isnan(), phi, alone).clamp(min=0)
        total = float(moved.sum())
        return float(moved[place]) / total if total > 0 else None

    def _weights(self, rule: Motifair, told: Sequence[Line]) -> Tensor:
        """Weigh updates as the method does; by value where nobody knows the numbers of graphs."""
        names = [x.agent for x in told]
        value = torch.tensor([float(self.values[n]) for n in names], dtype=torch.float64)
        by = rule.config.aggregation if type(rule).weigh is Motifair.weigh else "size"
        if by == "value" or not all(n in self.graphs for n in names):
            return value.clamp(min=0)
        graphs = torch.tensor([self.graphs[n] for n in names], dtype=torch.float64)
        return graphs * (value > 0) if by == "trusted" else graphs


def valued_by(terms: AgreedTerms) -> Motifair | None:
    """Return the method of these terms, if it values agents by E9."""
    try:
        # Terms older than the option do not name the guard of E9: it was always on.
        config = make_config({"value_guard": True, **terms.config, "method": terms.method})
        method = make_method(config)
    except MotifairError:  # a method or an option that is not installed here
        return None
    if not isinstance(method, Motifair) or type(method).valuate is not Motifair.valuate:
        return None
    return method if isinstance(method.valuation, RunningValue) else None


def _column(lines: Sequence[Line], name: str) -> Tensor:
    return torch.tensor([getattr(x, name) / PICO for x in lines], dtype=torch.float64)
