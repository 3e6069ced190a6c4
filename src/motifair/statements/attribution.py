"""Attribution of a member's value to its parts, and its influence on the federation in a round.

Given its divisor, E9 is linear: r_i^t = (kept·r_i^{t−1} + α1·x_i) / Z. So every part of a value
(what it began with, contributions of alignment and of diversity) is carried from round to round
like the value itself, and the parts can be recomputed from a ledger, which holds the alignment and
the diversity of all members. It does not hold what graphs are worth, by which members begin that
join later: what these began with is what their first values say.
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

UNEXPLAINED = 1000  # in units of 1e-12: more than rounding can explain


@dataclass(frozen=True)
class ValueParts:
    """Parts that add up to a value, in units of 1e-12.

    `initial` is what is left of the value that it began with. `adjustment` is evidence that was
    raised equally for all members (`value.bounded`), and any remaining difference to the recorded
    value: rounding, unless the value was not `explained`.

    >>> ValueParts(initial=3, alignment=2).value
    5
    """

    initial: int
    alignment: int = 0
    diversity: int = 0
    adjustment: int = 0

    @property
    def value(self) -> int:
        """The sum of the parts."""
        return self.initial + self.alignment + self.diversity + self.adjustment

    def scaled(self, by: Fraction | float, *new: float) -> ValueParts:
        """Return all parts multiplied by `by`, with `new` amounts of alignment, diversity and
        adjustment added, if given.
        """
        alignment, diversity, adjustment = new or (0, 0, 0)
        return ValueParts(
            round(by * self.initial),
            round(by * self.alignment + alignment),
            round(by * self.diversity + diversity),
            round(by * self.adjustment + adjustment),
        )

    def adjusted_to(self, value: int) -> ValueParts:
        """Return the parts with an adjustment that makes them add up to a recorded value."""
        return replace(self, adjustment=self.adjustment + value - self.value)


@dataclass(frozen=True)
class RoundAttribution:
    """One round of a member: the parts of its value, its `lean` (its share in the round's step),
    and whether its value follows from the recorded alignments and diversities, as far as is known.
    """

    value_parts: ValueParts | None = None
    lean: float | None = None
    explained: bool = True


class ValueAttribution:
    """Attributes the value of one member, given the entries of a run in their order.

    `graphs` maps members to their numbers of graphs, as far as known. `parts` is None while the
    agent is not a member, and if the method does not value agents by E9.
    """

    def __init__(self, agent: str, graphs: Mapping[str, int]) -> None:
        self.agent, self.graphs = agent, graphs
        self.rule: Motifair | None = None
        self.parts: ValueParts | None = None
        self.values: dict[str, Fraction] = {}
        self.aligned: dict[str, int] = {}

    def set_terms(self, terms: AgreedTerms) -> None:
        """Continue under these terms: new members start with 1/N, the others share the rest."""
        self.rule = valued_by(terms)
        if self.values.keys() == terms.members.keys():
            return
        equal = Fraction(PICO, len(terms.members))
        stayed = {n: v for n, v in self.values.items() if n in terms.members}
        kept = sum(stayed.values())
        rest = PICO - (len(terms.members) - len(stayed)) * equal
        by = rest / kept if kept > 0 else None
        if self.agent not in terms.members:
            self.parts = None
        elif self.parts is None or by is None:
            self.parts = ValueParts(round(equal))
        else:
            self.parts = self.parts.scaled(by)
        self.values = {
            n: stayed[n] * by if n in stayed and by is not None else equal for n in terms.members
        }
        self.aligned = {n: a for n, a in self.aligned.items() if n in stayed}

    def add_round(self, entry: Entry) -> RoundAttribution:
        """Attribute the value after a round."""
        reported = [x for x in entry.lines if x.alignment is not None and x.diversity is not None]
        place = next((k for k, x in enumerate(reported) if x.agent == self.agent), None)
        lean = None
        if self.rule is not None and place is not None:
            lean = self._lean(self.rule, reported, place)
            self.parts = self._updated(self.rule, reported, place)
        self.values = {x.agent: Fraction(x.value) for x in entry.lines}
        self.aligned |= {x.agent: x.alignment for x in reported if x.alignment is not None}
        if self.parts is None or self.agent not in self.values:
            return RoundAttribution()
        value, due = int(self.values[self.agent]), self.parts.value
        self.parts = self.parts.adjusted_to(value)
        if self.rule is None:
            return RoundAttribution()
        return RoundAttribution(self.parts, lean, explained=abs(value - due) <= UNEXPLAINED)

    def _updated(self, rule: Motifair, reported: Sequence[Line], place: int) -> ValueParts:
        """Apply E9 to the parts: members with evidence share what the others' values leave."""
        assert self.parts is not None
        c = rule.config
        phi, d = _column(reported, "alignment"), _column(reported, "diversity")
        x = EVIDENCE[c.evidence](phi, d, c.diversity_weight)
        aligned = EVIDENCE[c.evidence](phi, d, 0.0)
        kept = 1.0 if c.value_update == "additive" else 1.0 - c.value_rate
        raised = bounded(x) if c.value_guard else x
        total = kept + c.value_rate * float(raised.sum())
        values = [float(self.values[line.agent]) for line in reported]
        before = torch.tensor(values, dtype=torch.float64)
        rest = float(before.sum())
        if rest <= 0 or abs(total) < 1e-12:
            return self.parts
        new = [float(part[place]) for part in (aligned, x - aligned, raised - x)]
        gain = c.value_rate * rest / total
        parts = self.parts
        if c.initial_value == "evidence":
            known = torch.tensor([line.agent in self.aligned for line in reported])
            if not known.any() and raised.sum() > 0:
                by = rest / float(raised.sum())
                parts = parts.scaled(0, *(by * part for part in new))
            else:
                after = torch.tensor([float(line.value) for line in reported], dtype=torch.float64)
                first = (after - gain * raised) * total / kept if kept else after
                parts = _begun(parts, before, first, known, place)
        return parts.scaled(kept / total, *(gain * part for part in new))

    def _lean(self, rule: Motifair, reported: Sequence[Line], place: int) -> float | None:
        """Return the member's share of the aligned part of the aggregated update, or of coverage.

        That is a_i·max(φ_i, 0) over its sum: a_i is the weight of its update, φ_i the alignment of
        this round alone, recovered from the running mean. Coverage has the weights in it: a_i = 1.
        """
        rate = rule.config.alignment_rate
        phi = _column(reported, "alignment")
        before = torch.tensor(
            [self.aligned.get(x.agent, torch.nan) for x in reported], dtype=torch.float64
        )
        alone = (phi - (1 - rate) * before / PICO) / rate
        moved = self._weights(rule, reported) * torch.where(before.isnan(), phi, alone).clamp(min=0)
        total = float(moved.sum())
        return float(moved[place]) / total if total > 0 else None

    def _weights(self, rule: Motifair, reported: Sequence[Line]) -> Tensor:
        """Return the weights of updates; by value where numbers of graphs are unknown."""
        if rule.config.alignment_against == "coverage":
            return torch.ones(len(reported), dtype=torch.float64)
        names = [x.agent for x in reported]
        value = torch.tensor([float(self.values[n]) for n in names], dtype=torch.float64)
        by = rule.config.aggregation if type(rule).weigh is Motifair.weigh else "size"
        if by == "value" or not all(n in self.graphs for n in names):
            return value.clamp(min=0)
        graphs = torch.tensor([self.graphs[n] for n in names], dtype=torch.float64)
        return graphs * (value > 0) if by == "trusted" else graphs


def _begun(
    parts: ValueParts, before: Tensor, first: Tensor, known: Tensor, place: int
) -> ValueParts:
    """Return the parts of a member with new ones: these began with their values in `first`, and the
    others, who are `known`, share the rest in proportion to their values `before`.
    """
    if not known[place]:
        return ValueParts(round(float(first[place])))
    old = float(before[known].sum())
    return parts.scaled(float(before.sum() - first[~known].sum()) / old) if old > 0 else parts


def valued_by(terms: AgreedTerms) -> Motifair | None:
    """Return the method of these terms, if it values agents by E9."""
    try:
        # Terms of 0.1 do not name the guard of E9: it was always on.
        config = make_config({"value_guard": True, **terms.config, "method": terms.method})
        method = make_method(config)
    except MotifairError:  # a method or an option that is not installed here
        return None
    if not isinstance(method, Motifair) or type(method).valuate is not Motifair.valuate:
        return None
    return method if isinstance(method.valuation, RunningValue) else None


def _column(lines: Sequence[Line], name: str) -> Tensor:
    return torch.tensor([getattr(x, name) / PICO for x in lines], dtype=torch.float64)
