"""Settlement: payoffs in whole units of money, computed alike by the server and by verifiers.

All numbers are integers, so that two parties that settle the same round get exactly the same
result. Values and compensations are in units of 1e-12, money in the smallest unit of its currency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

PICO = 10**12


class Unsettled(Exception):  # noqa: N818 - not an error
    """No member can be paid in this round; the budget is carried over to the next one."""


@dataclass(frozen=True)
class Share:
    """Input of a settlement for one member: r_i and μ_i in units of 1e-12, and presence."""

    value: int
    compensation: int
    present: bool

    @property
    def weight(self) -> int:
        """p_i: r_i if negative, present or not; else r_i + μ_i if present, and 0 if absent."""
        if self.value < 0:
            return self.value
        return self.value + self.compensation if self.present else 0


def to_pico(x: float) -> int:
    """Convert to units of 1e-12, rounded half to even.

    A number that was rounded to 12 decimals before is converted exactly.

    >>> to_pico(0.333333333333), to_pico(-2.5e-12)
    (333333333333, -2)
    """
    return int(Decimal(repr(float(x))).scaleb(12).to_integral_value(ROUND_HALF_EVEN))


def compensation_of(value: int, earlier_sum: int, earlier_count: int) -> int:
    """E4 in whole units: μ_i = max(r_i − mean of its earlier values, 0).

    The mean is over the settled rounds in which the member was present, rounded towards zero. The
    compensation is 0 in the first of them, and if the value is negative.

    >>> compensation_of(500, 700, 2), compensation_of(500, -5, 2), compensation_of(500, 0, 0)
    (150, 502, 0)
    """
    if earlier_count == 0 or value < 0:
        return 0
    size = abs(earlier_sum) // earlier_count
    return max(value - (size if earlier_sum >= 0 else -size), 0)


def apportion(weights: Mapping[str, int], units: int) -> dict[str, int]:
    """Split `units` in proportion to non-negative `weights`, by the largest remainder method.

    Every member gets the whole units of its share; those left over go to the largest remainders,
    ties by name. Raises `Unsettled` if all weights are 0.

    >>> apportion({"a": 1, "b": 1, "c": 1}, 100)
    {'a': 34, 'b': 33, 'c': 33}
    """
    total = sum(weights.values())
    if total <= 0:
        raise Unsettled
    parts = {name: divmod(units * weight, total) for name, weight in weights.items()}
    left = units - sum(whole for whole, _ in parts.values())
    first = set(sorted(parts, key=lambda name: (-parts[name][1], name))[:left])
    return {name: whole + (name in first) for name, (whole, _) in parts.items()}


def settle(
    shares: Mapping[str, Share], *, budget: int, max_penalty: int, liability: Mapping[str, int]
) -> dict[str, int]:
    """E5 in whole units, with caps and absences: the payoff of each member, negative for a penalty.

    - p_i = r_i + μ_i for a present member with r_i ≥ 0; p_i = r_i for every member with r_i < 0,
      present or not, so that absence avoids no penalty; p_i = 0 for an absent member with r_i ≥ 0.
    - A member with p_i < 0 pays ⌊B·|p_i| / Σ_j p_j⌋, at most `max_penalty` and at most its
      `liability`, the total it can still be charged; if Σ_j p_j ≤ 0 it pays that maximum.
    - B and the penalties are apportioned among the members with p_i > 0, in proportion to p_i.

    The payoffs sum to B exactly. Without caps and absences they are those of E5, with penalties
    rounded towards 0, which reduces the amount paid out accordingly. Raises `Unsettled` if no
    present member has p_i > 0.

    >>> shares = {"a": Share(75, 25, True), "b": Share(50, 0, True), "c": Share(-25, 0, False)}
    >>> settle(shares, budget=100, max_penalty=50, liability=dict.fromkeys("abc", 50))
    {'a': 80, 'b': 40, 'c': -20}
    >>> settle(shares, budget=100, max_penalty=50, liability=dict.fromkeys("abc", 5))
    {'a': 70, 'b': 35, 'c': -5}
    """
    weights = {name: share.weight for name, share in shares.items()}
    total = sum(weights.values())
    penalties = {}
    for name in (name for name, weight in weights.items() if weight < 0):
        most = min(max_penalty, liability[name])
        penalties[name] = min(budget * -weights[name] // total, most) if total > 0 else most
    gains = {name: weight for name, weight in weights.items() if weight > 0}
    paid = apportion(gains, budget + sum(penalties.values()))
    return {name: paid.get(name, 0) - penalties.get(name, 0) for name in shares}
