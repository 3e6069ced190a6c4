"""The value r_i of an agent, updated from round to round."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST_TOTAL = 0.5
VALUE_DIGITS = 12
WORTH_SAYS = 0.1  # the evidence that says as much of newcomers as what their graphs are worth
SMALLEST = 1e-12


def evidence(alignment: Tensor, diversity: Tensor, diversity_weight: float) -> Tensor:
    """x_i = φ_i + α2·d_i, the evidence of a round about an agent, `(..., A)`."""
    return alignment + diversity_weight * diversity


def judged(alignment: Tensor, diversity: Tensor, diversity_weight: float) -> Tensor:
    """x_i = φ_i + α2·min(2·max(φ_i, 0), φ̄)·d_i: diversity counts only with alignment, `(..., A)`.

    φ̄ is the mean of max(φ, 0). Diversity adds α2·φ̄·d_i for an agent with φ_i ≥ φ̄/2, less below
    that, and nothing if φ_i ≤ 0. All terms are proportional to φ, so that values change little when
    little is left to learn. If the agents disagree overall (Σφ ≤ 0, as near a stationary point) the
    round has no evidence: x = 0 for all.

    >>> one = torch.ones(3)
    >>> judged(torch.tensor([0.5, 0.25, -0.25]), one, 2.0).tolist()
    [1.0, 0.75, -0.25]
    >>> judged(torch.tensor([0.25, -0.125, -0.25]), one, 2.0).tolist()
    [0.0, 0.0, 0.0]
    """
    positive = alignment.clamp(min=0)
    mean = positive.mean(dim=-1, keepdim=True)
    x = alignment + diversity_weight * torch.minimum(2 * positive, mean) * diversity
    return torch.where(alignment.sum(dim=-1, keepdim=True) > 0, x, 0.0)


EVIDENCE = {"sum": evidence, "judged": judged}


def bounded(x: Tensor) -> Tensor:
    """Shift the evidence of all agents equally so that Σx ≥ ½Σ|x|, `(..., A) -> (..., A)`.

    E9 divides by 1 + α1·Σx. If the evidence is mostly negative (updates disagree near a stationary
    point), that divisor is below 1 and differences between agents grow without bound. The shift
    keeps their differences and bounds |r_i| by 2 + 3/A. It is 0 if Σx ≥ ½Σ|x| (in all rounds of the
    default profile on the datasets tried).

    >>> bounded(torch.tensor([1.0, 0.5, -0.25])).tolist()
    [1.0, 0.5, -0.25]
    >>> bounded(torch.tensor([1.0, -1.0])).tolist()
    [1.5, -0.5]
    """
    total = x.sum(dim=-1, keepdim=True)
    least = LEAST_TOTAL * x.abs().sum(dim=-1, keepdim=True)
    return x + (least - total).clamp(min=0) / x.shape[-1]


def quantised(value: Tensor) -> Tensor:
    """Round values to 1e-12, the precision in which they are recorded, paid and trained with.

    Sums of 1e5 products differ by about 1e-16 if a device adds them in another order; rounded
    values are the same on all devices.

    >>> quantised(torch.tensor([1 / 3], dtype=torch.float64)).item()
    0.333333333333
    """
    return torch.round(value, decimals=VALUE_DIGITS)


def begun(value: Tensor, x: Tensor, known: Tensor, worth: Tensor) -> Tensor:
    """Return the values before a round in which some agents give their first evidence, `(..., A)`.

    Nobody is worth anything for its name: an agent that is not yet `known` begins with its part of
    the evidence `x`, Σ over the known r_j · x_i / Σ over the known x_j, and if nobody is known all
    begin with their parts. Late in a training evidence is next to nothing, and chance: who comes
    then begins with its part of what graphs are `worth`. So x_i + 0.1·W_i/ΣW is in the place of x_i
    unless the evidence is of all. The sum stays.

    >>> r, x = torch.tensor([0.25, 0.25, 0.5]), torch.tensor([0.475, 0.475, 0.2])
    >>> known, worth = torch.tensor([True, True, False]), torch.tensor([5.0, 5.0, 10.0])
    >>> [round(v, 6) for v in begun(r, x, known, worth).tolist()]
    [0.4, 0.4, 0.2]
    >>> begun(r, 0 * x, known, worth).tolist()
    [0.25, 0.25, 0.5]
    """
    nobody = ~known.any(dim=-1, keepdim=True)
    counted = known | nobody
    decided = nobody & (x.sum(dim=-1, keepdim=True) > 0)
    part = worth / worth.sum(dim=-1, keepdim=True).clamp(min=SMALLEST)
    x = torch.where(decided, x, x + WORTH_SAYS * part)
    held = torch.where(nobody, x, value).where(counted, 0.0).sum(dim=-1, keepdim=True)
    said = x.where(counted, 0.0).sum(dim=-1, keepdim=True)
    could = (said > 0) & (held > 0)  # else there is nothing to compare with
    first = value.where(known, held / torch.where(could, said, 1.0) * x)
    total = first.sum(dim=-1, keepdim=True)
    could = could & (total >= SMALLEST)
    scale = value.sum(dim=-1, keepdim=True) / torch.where(could, total, 1.0)
    return torch.where(could, first * scale, value)


def update_value(value: Tensor, x: Tensor, *, rate: float, rule: str, guard: bool = True) -> Tensor:
    """E9: r_i ← r_i^{t−1} + α1·x_i^t, then r_i^t = r_i / Σ_j r_j, all `(..., A)`.

    `value` is r^{t−1}, `x` the evidence, `rate` is α1; `rule="ema"` multiplies the old value by
    1−α1 first. With `guard`, `bounded` is applied to the evidence.

    >>> r = torch.tensor([0.5, 0.5])
    >>> update_value(r, torch.tensor([1.0, 0.0]), rate=1.0, rule="additive").tolist()
    [0.75, 0.25]
    """
    x = bounded(x) if guard else x
    kept = 1.0 if rule == "additive" else 1.0 - rate
    raised = kept * value + rate * x
    total = raised.sum(dim=-1, keepdim=True)
    # A total of 0 (as with rule "ema", α1 = 1, x = 0) leaves the value unchanged.
    defined = total.abs() >= 1e-12
    return torch.where(defined, raised / torch.where(defined, total, 1.0), value)
