"""The payment in whole units of money: one settlement, for the server and for who checks it.

Everything is an integer here, so that two parties who settle the same round get the same result to
the last unit. Values and compensations are counted in units of 1e-12, money in the smallest unit of
its currency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

PICO = 10**12


class Unsettled(Exception):  # noqa: N818 - not an error
    """Nobody can be paid in this round; the budget is carried over to the next one."""


@dataclass(frozen=True)
class Share:
    """What a member brings into a settlement: r_i and μ_i in units of 1e-12, and was it there."""

    value: int
    compensation: int
    present: bool

    @property
    def weight(self) -> int:
        """p_i: r_i below zero, there or not; else r_i + μ_i of who was there, 0 of who was not."""
        if self.value < 0:
            return self.value
        return self.value + self.compensation if self.present else 0


def to_pico(x: float) -> int:
    """Return the nearest multiple of 1e-12, of two equally near ones the even one.

    A number that was rounded to 12 decimals before is met exactly.

    >>> to_pico(0.333333333333), to_pico(-2.5e-12)
    (333333333333, -2)
    """
    return int(Decimal(repr(float(x))).scaleb(12).to_integral_value(ROUND_HALF_EVEN))


def compensation_of(value: int, earlier_sum: int, earlier_count: int) -> int:
    """E4 in whole units: μ_i = max(r_i − mean of its earlier values, 0).

    The mean is over the settled rounds in which the member was present, rounded towards zero. In
    the first of them, and where the value is negative, there is no compensation.

    >>> compensation_of(500, 700, 2), compensation_of(500, -5, 2), compensation_of(500, 0, 0)
    (150, 502, 0)
    """
    if earlier_count == 0 or value < 0:
        return 0
    size = abs(earlier_sum) // earlier_count
    return max(value - (size if earlier_sum >= 0 else -size), 0)


def apportion(weights: Mapping[str, int], units: int) -> dict[str, int]:
    """Split `units` in proportion to `weights` (none of them negative), to the last unit.

    Everyone gets the whole units of its part; those left over go to the largest remainders, and of
    equal remainders to the first by name. Without any weight there is nobody to pay: `Unsettled`.

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
    """E5 in whole units, with caps and absences: what each member is paid, or fined.

    - p_i = r_i + μ_i of a present member with r_i ≥ 0; p_i = r_i of every member with r_i < 0,
      present or not: staying away is no way out; p_i = 0 of an absent member with r_i ≥ 0.
    - A member with p_i < 0 pays ⌊B·|p_i| / Σ_j p_j⌋, at most `max_penalty` and at most its
      `liability`, what it can still be made to pay in all; where Σ_j p_j ≤ 0, that most itself.
    - B and the penalties are apportioned among the members with p_i > 0, in proportion to p_i.

    The payoffs add up to B exactly. Without caps and absences they are E5's, rounded: a penalty by
    less than a unit, and the fractions that penalties leave off are missing from what is paid out.
    Where no present member has p_i > 0, nothing can be settled: `Unsettled`.

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
