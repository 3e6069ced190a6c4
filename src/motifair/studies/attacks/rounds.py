"""Attacks on attendance: rounds that an attacker chooses, and coming back under a new name."""

from __future__ import annotations

from dataclasses import replace

import torch

from motifair.federation.server import ServerState
from motifair.studies.attacks.contract import AttackContext


def always(context: AttackContext) -> bool:
    """Choose every round."""
    return True


def every_other(context: AttackContext) -> bool:
    """Choose the second, the fourth, ... round."""
    return context.round % 2 == 0


def last_round(context: AttackContext) -> bool:
    """Choose the last round."""
    return context.round == context.rounds


def first_third(context: AttackContext) -> bool:
    """Choose the first third of the rounds."""
    return 3 * context.round <= context.rounds


def after_a_third(context: AttackContext) -> bool:
    """Choose the rounds after the first third."""
    return not first_third(context)


def second_half(context: AttackContext) -> bool:
    """Choose the second half of the rounds."""
    return 2 * context.round > context.rounds


def after_a_bad_round(context: AttackContext) -> bool:
    """Choose the round after each one with a negative own alignment.

    The alignment of an absent agent is unknown (NaN), so that it returns after one round.
    """
    return context.previous is not None and bool(
        (context.previous.alignment[context.own] < 0).all()
    )


def renamed(state: ServerState, context: AttackContext) -> ServerState:
    """Leave and come back under a new name after each third of the rounds.

    A newcomer has the value 1/N, the others share the rest in proportion to their values, and
    nothing that the server knew of the old name is left. Accounts compare a member with its own
    earlier rounds under that name: its values until then are as if it had always been worth what it
    is now, so that nothing is late about it.
    """
    third = max(1, context.rounds // 3)
    if context.round == 1 or (context.round - 1) % third:
        return state
    agents = state.value.shape[-1]
    new = torch.zeros_like(state.value, dtype=torch.bool)
    new.view(-1)[context.own] = True
    rest = 1 - new.sum(dim=-1, keepdim=True) / agents
    kept = state.value.where(~new, 0.0).sum(dim=-1, keepdim=True)
    value = (state.value * rest / kept).where(~new, 1 / agents)
    return replace(
        state,
        value=value,
        value_sum=state.value_sum.where(~new, state.round * state.value),
        alignment=state.alignment.where(~new, torch.nan),
    )
