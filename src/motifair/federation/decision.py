"""What a method decided in a round, also where some agents are absent, or federations stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from motifair.mechanism.value import quantised
from motifair.methods import Memory, Seen


@dataclass(frozen=True)
class Decision:
    """The aggregate `(D,)` or `(A, D)`, rewards `(A, D)`, and `(A,)` each: alignments φ, values,
    components kept in rewards, the share of its own step an agent retains, payoffs, compensations.
    """

    update: Tensor
    alignment: Tensor
    value: Tensor
    reward: Tensor
    kept: Tensor
    retained: Tensor
    payoff: Tensor
    compensation: Tensor
    memory: Memory


def decide_among(decide: Callable[[Seen], Decision], seen: Seen, present: Tensor) -> Decision:
    """Decide a round in which only some agents are `present (A,)`, as if there were no others,
    except that they share only what the values of the absent leave of 1.

    There is no evidence about an absent agent: it keeps its value, and receives nothing.
    """
    own = {
        f.name: getattr(seen, f.name)[present]
        for f in fields(seen)
        if isinstance(getattr(seen, f.name), Tensor) and getattr(seen, f.name).dim() > 0
    }
    rest = own["value"].sum()
    d = decide(replace(seen, **own | {"value": own["value"] / rest}))
    zeros, ones = torch.zeros_like(seen.value), torch.ones_like(seen.value)

    def spread(decided: Tensor, absent: Tensor) -> Tensor:
        whole = absent.to(decided.dtype).clone()
        whole[present] = decided
        return whole

    return replace(
        d,
        alignment=spread(d.alignment, torch.full_like(zeros, torch.nan)),
        value=spread(quantised(d.value * rest), seen.value),
        reward=spread(d.reward, torch.zeros_like(seen.sent)),
        kept=spread(d.kept, zeros),
        retained=spread(d.retained, ones),
        payoff=spread(d.payoff, zeros),
        compensation=spread(d.compensation, zeros),
    )


def stack_decisions(decisions: Sequence[Decision]) -> Decision:
    """Put decisions for several federations of equal shape on one axis in front."""
    tensors = {
        f.name: torch.stack([getattr(d, f.name) for d in decisions])
        for f in fields(Decision)
        if f.name != "memory"
    }
    names = decisions[0].memory
    memory = {name: torch.stack([d.memory[name] for d in decisions]) for name in names}
    return Decision(**tensors, memory=memory)
