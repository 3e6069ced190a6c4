"""Bounds on one agent's influence: lengths of updates and numbers of graphs, by the median.

Of two agents, or if half of them collude, the attackers control the median: no comparison between
agents helps then.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# As multiples of the usual length; docs/federation.md has the lengths of honest updates. 2 instead
# of 3 was chosen after looking at attacks on one seed.
SHORTENED = 2.0
REJECTED = 10.0
MAX_SIZE_RATIO = 2.0  # default of the terms


def capped_sizes(claimed: Tensor, ratio: float) -> Tensor:
    """Return numbers of graphs, capped at `ratio` times their (lower) median, `(..., A)`.

    >>> capped_sizes(torch.tensor([80, 100, 120, 10**9]), ratio=2.0).tolist()
    [80, 100, 120, 200]
    """
    return torch.minimum(claimed, (ratio * median(claimed.double())).to(claimed.dtype))


def usual_length(lengths: Tensor, steps: Tensor) -> Tensor:
    """Return the usual length of each agent's update, `(..., A), (..., A) -> (..., A)`.

    That is the median length or, for an agent that takes more `steps` of the optimiser than others,
    √steps times the median of length / √steps. Zeros (absent or idle agents) do not count. Of an
    even number the lower median is taken: of two agents the shorter update.

    >>> usual_length(torch.tensor([1.0, 2.0, 6.0, 999.0, 0.0]), torch.tensor([1, 1, 9, 1, 1]))
    tensor([2., 2., 6., 2., 2.])
    """
    root = steps.to(lengths.dtype).clamp(min=1).sqrt()
    return torch.maximum(median(lengths), root * median(lengths / root))


def counted_length(updates: Tensor, steps: Tensor) -> Tensor:
    """Return as what part of itself each update counts, so that none is longer than usual.

    With that, a few that go against the others at the length that is let through do not outweigh
    them. `(..., A, D), (..., A) -> (..., A)`.

    >>> counted_length(torch.tensor([[3.0], [-4.0], [8.0]]), torch.ones(3)).tolist()
    [1.0, 1.0, 0.5]
    """
    length = updates.norm(dim=-1)
    usual = usual_length(length, steps)
    return torch.where(length > usual, usual / length, 1.0)


def shorten(vectors: Tensor, steps: Tensor) -> Tensor:
    """Return vectors `(..., A, D)`, each shortened to at most twice the usual length.

    >>> shorten(torch.tensor([[3.0], [-4.0], [999.0]]), torch.ones(3)).flatten().tolist()
    [3.0, -4.0, 8.0]
    """
    length = vectors.norm(dim=-1)
    most = SHORTENED * usual_length(length, steps)
    # A factor of exactly 1 leaves other updates as they are, to the last bit.
    return vectors * torch.where(length > most, most / length, 1.0).unsqueeze(-1)


def too_long(lengths: Tensor, steps: Tensor) -> Tensor:
    """Return which updates are over ten times as long as usual, as no honest agent's are.

    None if these are half of them or more: then it is unknown which are too long or too short.

    >>> too_long(torch.tensor([1.0, 2.0, 1.0, 999.0]), torch.ones(4)).tolist()
    [False, False, False, True]
    """
    return _of_few(lengths > REJECTED * usual_length(lengths, steps))


def too_short(lengths: Tensor) -> Tensor:
    """Return which updates are not a tenth as long as the median, as if nothing had been sent.

    Steps do not count: one step of Adam is about as long for every agent. None if these are half
    of the updates or more.

    >>> too_short(torch.tensor([1.0, 2.0, 1.0, 0.01])).tolist()
    [False, False, False, True]
    """
    return _of_few(lengths < median(lengths) / REJECTED)


def _of_few(unusual: Tensor) -> Tensor:
    return unusual & (2 * unusual.sum(dim=-1, keepdim=True) < unusual.shape[-1])


def median(numbers: Tensor) -> Tensor:
    """Return the lower median of the positive numbers, 0 if there is none, `(..., A) -> (..., 1)`.

    >>> median(torch.tensor([[0.0, 3.0, 1.0], [0.0, 0.0, 0.0]])).tolist()
    [[1.0], [0.0]]
    """
    padded = F.pad(numbers, (0, 1))  # all agents may be absent
    ordered = padded.where(padded > 0, torch.inf).sort(dim=-1).values
    middle = ((numbers > 0).sum(dim=-1, keepdim=True) - 1).clamp(min=0) // 2
    median = ordered.gather(-1, middle)
    return median.where(median.isfinite(), 0.0)
