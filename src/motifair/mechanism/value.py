"""What an agent is worth: r_i, carried from round to round."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST_TOTAL = 0.5
VALUE_DIGITS = 12


def evidence(alignment: Tensor, diversity: Tensor, diversity_weight: float) -> Tensor:
    """Return x_i = φ_i + α2·d_i, what a round says about an agent, `(..., A)`."""
    return alignment + diversity_weight * diversity


def judged(alignment: Tensor, diversity: Tensor, diversity_weight: float) -> Tensor:
    """Return x_i = φ_i + α2·min(2·max(φ_i, 0), φ̄)·d_i: variety counts only as far as it helps.

    φ̄ is the usual alignment, the mean of max(φ, 0): variety is worth α2·φ̄·d_i to an agent from half
    of it on, and nothing to one from whom the others learn nothing, or that harms them. All of it
    is in proportion to φ, so that values move little where there is little left to learn. Where the
    agents do not agree on the whole (Σφ ≤ 0, as near a stationary point) a round tells nothing
    about anyone: x = 0 for all.

    >>> one = torch.ones(3)
    >>> judged(torch.tensor([0.5, 0.25, -0.25]), one, 2.0).tolist()
    [1.0, 0.75, -0.25]
    >>> judged(torch.tensor([0.25, -0.125, -0.25]), one, 2.0).tolist()
    [0.0, 0.0, 0.0]
    """
    helps = alignment.clamp(min=0)
    usual = helps.mean(dim=-1, keepdim=True)
    x = alignment + diversity_weight * torch.minimum(2 * helps, usual) * diversity
    return torch.where(alignment.sum(dim=-1, keepdim=True) > 0, x, 0.0)


EVIDENCE = {"sum": evidence, "judged": judged}


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


def update_value(value: Tensor, x: Tensor, *, rate: float, rule: str, guard: bool = True) -> Tensor:
    """E9: r_i ← r_i^{t−1} + α1·x_i^t, then r_i^t = r_i / Σ_j r_j, all `(..., A)`.

    `x` is the evidence, `rate` is α1; `rule="ema"` keeps (1−α1) of the old value instead of all of
    it. With the `guard` evidence passes through `bounded` first.

    >>> r = torch.tensor([0.5, 0.5])
    >>> update_value(r, torch.tensor([1.0, 0.0]), rate=1.0, rule="additive").tolist()
    [0.75, 0.25]
    """
    x = bounded(x) if guard else x
    kept = 1.0 if rule == "additive" else 1.0 - rate
    raised = kept * value + rate * x
    total = raised.sum(dim=-1, keepdim=True)
    # No evidence at all and nothing kept (α1 = 1, x = 0) leaves the value as it was.
    defined = total.abs() >= 1e-12
    return torch.where(defined, raised / torch.where(defined, total, 1.0), value)
