"""The reward during training: the share of the global update that an agent receives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

RELATIVE = 10  # of an equal share: who brings a tenth of one receives most of the update


def reward_ratio(value: Tensor, beta: float, *, relative: bool = False) -> Tensor:
    """q_i = max(0, tanh(β r_i)) / max_j tanh(β r_j) of E3, `(..., A) -> (..., A)`.

    β = ∞ gives 1 to every agent with a positive value. If `relative`, 10N·r_i is in the place of
    r_i, so that β means the same for any number of agents: at β = 1 a tenth of an equal share
    brings tanh 1 = 0.76 before it is divided by the maximum.

    >>> reward_ratio(torch.tensor([0.2, 0.1, -0.1]).double(), beta=1.0).round(decimals=3).tolist()
    [1.0, 0.505, 0.0]
    >>> reward_ratio(torch.tensor([0.2, 0.1, -0.1]), beta=float("inf")).tolist()
    [1.0, 1.0, 0.0]
    >>> reward_ratio(torch.tensor([1.0, 0.5, 0.0]) / 1.5, 0.05, relative=True).tolist()
    [1.0, 0.6067761182785034, 0.0]
    """
    if beta == float("inf"):
        return (value > 0).to(value.dtype)
    if relative:
        value = RELATIVE * value.shape[-1] * value
    reached = torch.tanh(beta * value)
    return reached.clamp(min=0) / reached.amax(dim=-1, keepdim=True)


def ranks(update: Tensor) -> Tensor:
    """Return the rank of each component by magnitude, largest first, ties by index, `(..., D)`.

    >>> ranks(torch.tensor([1.0, -3.0, 3.0])).tolist()
    [2, 0, 1]
    """
    # Non-negative floats have the order of their bit patterns, and integers are sorted faster.
    key = -update.abs().double().view(torch.int64)
    if key.device.type == "cpu":
        order = torch.from_numpy(_stable_order(key.numpy()))
    else:
        order = torch.sort(key, dim=-1, stable=True).indices
    place = torch.arange(update.shape[-1], device=update.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, place)


def _stable_order(key: np.ndarray) -> np.ndarray:
    """Return what `np.argsort(key, axis=-1, kind="stable")` returns.

    numpy's vectorised sorts are not stable, and two of them take a third of the time: the second
    puts the indices of equal keys in order.
    """
    order = np.argsort(key, axis=-1)
    ordered = np.take_along_axis(key, order, axis=-1)
    number = np.cumsum(np.diff(ordered, axis=-1, prepend=ordered[..., :1]) != 0, axis=-1)
    result: np.ndarray = np.sort((number << 32) | order, axis=-1) & 0xFFFFFFFF
    return result


def sparsify(
    update: Tensor,
    ratio: Tensor,
    sizes: Sequence[int],
    *,
    up: bool = False,
    by_length: bool = False,
) -> tuple[Tensor, Tensor]:
    """E3: reward_i = mask(u_N, ⌊D·q_i⌋), the largest components by magnitude, zero elsewhere.

    `update` is u_N `(..., D)`, `ratio` is q `(..., A)`, and `sizes` are the sizes of blocks that
    are masked separately (one block: the whole update). Returns the rewards `(..., A, D)` and the
    number of components that each agent receives `(..., A)`. `up` rounds these numbers up, as the
    gradient-based baselines do. With `by_length` an agent receives as many components as the share
    q_i of the update's length takes: few components carry most of it, so that half of their number
    is nearly everything.

    >>> reward, kept = sparsify(torch.tensor([1.0, -3.0]), torch.tensor([1.0, 0.5, 0.0]), [2])
    >>> reward.tolist(), kept.tolist()
    ([[1.0, -3.0], [0.0, -3.0], [0.0, 0.0]], [2, 1, 0])
    >>> u, q = torch.tensor([4.0, 3.0, 0.0]), torch.tensor([1.0, 0.9, 0.7, 0.0])
    >>> sparsify(u, q, [3], by_length=True)[1].tolist()
    [3, 2, 1, 0]
    """
    if update.device.type == "cpu" and bool((ratio == 1).all()):  # nothing to put in order
        whole = update.unsqueeze(-2).expand(*ratio.shape, -1).clone()
        return whole, torch.full_like(ratio, update.shape[-1], dtype=torch.int64)
    rewards, kept = [], torch.zeros_like(ratio, dtype=torch.int64)
    for block in torch.split(update, list(sizes), dim=-1):
        rank = ranks(block)
        if by_length:
            count = _components(block, rank, ratio)
        else:
            wanted = ratio * block.shape[-1]
            count = ((wanted - 1e-9).ceil() if up else wanted.floor()).long()
        chosen = rank.unsqueeze(-2) < count.unsqueeze(-1)
        rewards.append(torch.where(chosen, block.unsqueeze(-2), 0.0))
        kept += count
    return rewards[0] if len(rewards) == 1 else torch.cat(rewards, dim=-1), kept


def _components(block: Tensor, rank: Tensor, ratio: Tensor) -> Tensor:
    """Return the least number of components with at least q_i of the length, `(..., A)`."""
    squares = block.double().square()
    ordered = torch.zeros_like(squares).scatter_(-1, rank, squares)
    total = ordered.cumsum(dim=-1)
    wanted = ratio.square() * total[..., -1:]
    # Components before which less than the wanted length is reached, rounding left aside.
    count = torch.searchsorted(total.contiguous(), (wanted * (1 - 1e-12)).contiguous()) + 1
    everything = ratio >= 1
    return torch.where(everything, block.shape[-1], count.clamp(max=block.shape[-1])) * (ratio > 0)
