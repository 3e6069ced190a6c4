"""Limits on what members claim: lengths of updates and numbers of graphs, relative to the median.

Of two members, or if half of them collude, the attackers control the median: no comparison between
members helps then.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# As multiples of the usual length. The longest honest update of a round was 1.1 to 2.2 times as
# long in most rounds, and never more than 6.6 times. 2 instead of 3 was chosen after looking at the
# attacks of docs/federation.md, on one seed, so those numbers do not test it.
SHORTENED = 2.0
REJECTED = 10.0


def capped_sizes(claimed: Sequence[int], ratio: float) -> list[int]:
    """Return claimed numbers of graphs, capped at `ratio` times their (lower) median.

    >>> capped_sizes([80, 100, 120, 10**9], ratio=2.0)
    [80, 100, 120, 200]
    """
    most = int(ratio * sorted(claimed)[(len(claimed) - 1) // 2])
    return [min(number, most) for number in claimed]


def usual_length(lengths: Tensor, steps: Tensor) -> Tensor:
    """Return the usual length of each member's update, `(A,), (A,) -> (A,)`.

    That is the median length or, for a member that takes more `steps` of the optimiser than others,
    √steps times the median of length / √steps. Zeros (absent or idle members) do not count. Of an
    even number the lower median is taken: of two members the shorter update.

    >>> usual_length(torch.tensor([1.0, 2.0, 6.0, 999.0, 0.0]), torch.tensor([1, 1, 9, 1, 1]))
    tensor([2., 2., 6., 2., 2.])
    """
    root = steps.to(lengths.dtype).clamp(min=1).sqrt()
    return torch.maximum(_median(lengths), root * _median(lengths / root))


def shorten(vectors: Tensor, steps: Tensor) -> Tensor:
    """Return vectors `(A, D)`, each shortened to at most twice the usual length."""
    length = vectors.double().norm(dim=-1)
    most = SHORTENED * usual_length(length, steps)
    return torch.where(
        (length > most)[:, None],
        vectors * (most / length.clamp(min=1e-30))[:, None].to(vectors.dtype),
        vectors,
    )


def too_long(lengths: Tensor, steps: Tensor) -> Tensor:
    """Return which updates are over ten times as long as usual, as no honest member's are, `(A,)`.

    None if these are half of them or more: then it is unknown which are too long or too short.
    """
    over = lengths > REJECTED * usual_length(lengths, steps)
    return over & (2 * over.sum() < len(lengths))


def _median(numbers: Tensor) -> Tensor:
    positive = numbers[numbers > 0].sort().values
    return positive[(len(positive) - 1) // 2] if len(positive) else numbers.new_zeros(())
