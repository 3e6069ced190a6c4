"""What an agent is worth: r_i, carried from round to round."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST_TOTAL = 0.5
VALUE_DIGITS = 12


def evidence(alignment: Tensor, diversity: Tensor, diversity_weight: float) -> Tensor:
    """Return x_i = φ_i + α2·d_i, what a round says about an agent, `(..., A)`."""
    return alignment + diversity_weight * diversity


def bounded(x: Tensor) -> Tensor:
    """Shift evidence so that its total is at least half of its total magnitude.

    E9 divides by 1 + α1·Σx. Where the evidence is mostly negative (every agent pulling its own way
    near a stationary point) that divisor shrinks below 1 and differences between agents grow
    without bound. Raising all agents by the same amount until Σx ≥ ½Σ|x| keeps their differences
    and bounds |r_i| by 2 + 3/A. Where Σx ≥ ½Σ|x| already (in all rounds of the default profile
    on the datasets tried) nothing changes.

    >>> bounded(torch.tensor([1.0, 0.5, -0.25])).tolist()
    [1.0, 0.5, -0.25]
    >>> bounded(torch.tensor([1.0, -1.0])).tolist()
    [1.5, -0.5]
    """
    total = x.sum(dim=-1, keepdim=True)
    least = LEAST_TOTAL * x.abs().sum(dim=-1, keepdim=True)
    return x + (least - total).clamp(min=0) / x.shape[-1]


def quantised(value: Tensor) -> Tensor:
    """Round values to 1e-12, the form in which they are recorded, paid by and trained with.

    Sums of 1e5 products come out 1e-16 apart when a device adds them in another order; a value
    without those digits is the same wherever it is computed.

    >>> quantised(torch.tensor([1 / 3], dtype=torch.float64)).item()
    0.333333333333
    """
    return torch.round(value, decimals=VALUE_DIGITS)


def update_value(
    value: Tensor, alignment: Tensor, diversity: Tensor, *, rate: float, weight: float, rule: str
) -> Tensor:
    """E9: r_i ← r_i^{t−1} + α1(φ_i^t + α2 d_i), then r_i^t = r_i / Σ_j r_j, all `(..., A)`.

    `rate` is α1, `weight` is α2; `rule="ema"` keeps (1−α1) of the old value instead of all of it.
    Evidence passes through `bounded` first.

    >>> r = torch.tensor([0.5, 0.5])
    >>> update_value(r, torch.tensor([1.0, 0.0]), torch.zeros(2), rate=1.0, weight=1.0,
    ...              rule="additive").tolist()
    [0.75, 0.25]
    """
    x = bounded(evidence(alignment, diversity, weight))
    kept = 1.0 if rule == "additive" else 1.0 - rate
    raised = kept * value + rate * x
    total = raised.sum(dim=-1, keepdim=True)
    # No evidence at all and nothing kept (α1 = 1, x = 0) leaves the value as it was.
    defined = total.abs() >= 1e-12
    return torch.where(defined, raised / torch.where(defined, total, 1.0), value)
