"""Attacks on uploads: updates, gradients, and what an agent reports with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from motifair.federation.protocol import Uploads
from motifair.studies.attacks.contract import AttackContext

Change = Callable[[Uploads, AttackContext], Uploads]


def only(when: Callable[[AttackContext], bool], change: Change) -> Change:
    """Return the same change of uploads, made in the rounds chosen by `when` alone."""

    def changed(uploads: Uploads, context: AttackContext) -> Uploads:
        return change(uploads, context) if when(context) else uploads

    return changed


def scaled(uploads: Uploads, context: AttackContext, *, by: float) -> Uploads:
    """Multiply update and gradient by a factor."""
    gradient = uploads.gradient
    sent = uploads.with_rows(
        context.own,
        update=by * uploads.update[context.own],
        gradient=None if gradient is None else by * gradient[context.own],
    )
    norm = uploads.gradient_norm.clone()
    norm[context.own] *= by
    return replace(sent, gradient_norm=norm)


def reversed_far(uploads: Uploads, context: AttackContext, *, length: float) -> Uploads:
    """Send the reverse of the own update with a given length."""
    update = uploads.update[context.own]
    scale = length / update.norm(dim=-1, keepdim=True)
    return uploads.with_rows(context.own, update=-scale * update)


def replayed(uploads: Uploads, context: AttackContext) -> Uploads:
    """Send the first upload again in every round."""
    if context.previous is None:
        return uploads
    first, gradient = context.previous.uploads, context.previous.uploads.gradient
    return uploads.with_rows(
        context.own,
        update=first.update[context.own],
        gradient=None if gradient is None else gradient[context.own],
    )


def copied(uploads: Uploads, context: AttackContext) -> Uploads:
    """Copy the upload of another agent in the same round.

    In a real federation this is impossible, as uploads are simultaneous.
    """
    return _copied(uploads, context, uploads)


def copied_late(uploads: Uploads, context: AttackContext) -> Uploads:
    """Copy the upload of another agent in the previous round."""
    return (
        uploads if context.previous is None else _copied(uploads, context, context.previous.uploads)
    )


def _copied(uploads: Uploads, context: AttackContext, source: Uploads) -> Uploads:
    gradient = source.gradient
    return uploads.with_rows(
        context.own,
        update=source.update[context.other],
        gradient=None if gradient is None else gradient[context.other],
    )


def echoed(uploads: Uploads, context: AttackContext) -> Uploads:
    """Send the last reward as the update and its negative as the gradient, without training."""
    if context.previous is None:
        return uploads
    reward = context.previous.reward[context.own]
    return uploads.with_rows(context.own, update=reward, gradient=-reward)


def mixed(uploads: Uploads, context: AttackContext) -> Uploads:
    """Send the mean of the own update and the last reward, the best guess of the next aggregate.

    So do attacks on contribution measures that predict the global model (ACE).
    """
    if context.previous is None:
        return uploads
    reward = context.previous.reward[context.own]
    return uploads.with_rows(context.own, update=(uploads.update[context.own] + reward) / 2)


def noise(uploads: Uploads, context: AttackContext, *, by: float = 1.0) -> Uploads:
    """Send random numbers in place of the own update, `by` times as long."""
    update = uploads.update[context.own]
    generator = torch.Generator().manual_seed(context.round)
    drawn = torch.randn(update.shape, generator=generator, dtype=torch.float64).to(update)
    scale = by * update.norm(dim=-1, keepdim=True) / drawn.norm(dim=-1, keepdim=True)
    return uploads.with_rows(context.own, update=scale * drawn)


def averaged(uploads: Uploads, context: AttackContext) -> Uploads:
    """Send the mean of all attackers' updates from each of them."""
    update = uploads.update[context.own].view(context.federations, -1, uploads.update.shape[-1])
    mean = update.mean(dim=1, keepdim=True).expand_as(update)
    return uploads.with_rows(context.own, update=mean.reshape(len(context.own), -1))


def gradient_of_other(uploads: Uploads, context: AttackContext) -> Uploads:
    """Send the gradient of another agent with the own update."""
    assert uploads.gradient is not None
    return uploads.with_rows(context.own, gradient=uploads.gradient[context.other])


def gradient_negated(uploads: Uploads, context: AttackContext) -> Uploads:
    """Send the negated own gradient: vote against the agents with a similar one."""
    assert uploads.gradient is not None
    return uploads.with_rows(context.own, gradient=-uploads.gradient[context.own])


def gradient_of_aggregate(uploads: Uploads, context: AttackContext, *, sign: float) -> Uploads:
    """Send sign·(last aggregate) as the gradient.

    Sign −1 is a vote for the agents aligned with the aggregate, sign 1 a vote against them.
    """
    if context.previous is None:
        return uploads
    each = len(context.own) // context.federations
    aggregate = context.previous.aggregate.repeat_interleave(each, dim=0)
    return uploads.with_rows(context.own, gradient=sign * aggregate)
