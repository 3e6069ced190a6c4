"""What one member can do to the others by what it claims: lengths and sizes held to the median.

A median of two, or of many of whom half conspire, is what the others want: no rule that compares
members with each other helps there.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# As multiples of what is usual. The longest honest update of a round was 1.1 to 2.2 times as long
# in most rounds, and never more than 6.6 times. 2 instead of 3 was chosen after looking at the
# attacks of docs/federation.md, on one seed, so those numbers do not test it.
SHORTENED = 2.0
REJECTED = 10.0


def believed_sizes(claimed: Sequence[int], ratio: float) -> list[int]:
    """Return numbers of graphs of at most `ratio` times their (lower) median.

    >>> believed_sizes([80, 100, 120, 10**9], ratio=2.0)
    [80, 100, 120, 200]
    """
    most = int(ratio * sorted(claimed)[(len(claimed) - 1) // 2])
    return [min(number, most) for number in claimed]


def usual_length(lengths: Tensor, steps: Tensor) -> Tensor:
    """Return how long an update of each member usually is, `(A,), (A,) -> (A,)`.

    That is the median length, or, for who takes more `steps` of the optimiser than others, the
    median of what they go in √steps. Zeros are of members who are absent, or do nothing. Of an even
    number the lower median counts: of two members the shorter update.

    >>> usual_length(torch.tensor([1.0, 2.0, 6.0, 999.0, 0.0]), torch.tensor([1, 1, 9, 1, 1]))
    tensor([2., 2., 6., 2., 2.])
    """
    root = steps.to(lengths.dtype).clamp(min=1).sqrt()
    return torch.maximum(_median(lengths), root * _median(lengths / root))


def shorten(vectors: Tensor, steps: Tensor) -> Tensor:
    """Return vectors `(A, D)`, those of more than twice the usual length at that length."""
    length = vectors.double().norm(dim=-1)
    most = SHORTENED * usual_length(length, steps)
    return torch.where(
        (length > most)[:, None],
        vectors * (most / length.clamp(min=1e-30))[:, None].to(vectors.dtype),
        vectors,
    )


def too_long(lengths: Tensor, steps: Tensor) -> Tensor:
    """Tell which updates no honest member sends: those over ten times as long as usual, `(A,)`.

    They must be fewer than half: else nobody can tell whose are too long and whose too short.
    """
    over = lengths > REJECTED * usual_length(lengths, steps)
    return over & (2 * over.sum() < len(lengths))


def _median(numbers: Tensor) -> Tensor:
    found = numbers[numbers > 0].sort().values
    return found[(len(found) - 1) // 2] if len(found) else numbers.new_zeros(())
