"""What members gain by federating, and by how much they give to the federation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motifair.evaluation.fairness import ROUNDING

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of its graphs that a member gives


@dataclass(frozen=True)
class Giving:
    """What one member has at the end of a run, for each of `SHARES` that it gives.

    Attributes:
        agent: Number of the member.
        accuracy: Its accuracy on its own test graphs.
        payoff: Its total payoff.
    """

    agent: int
    accuracy: tuple[float, ...]
    payoff: tuple[float, ...]

    @property
    def pay(self) -> tuple[float, ...]:
        """Total payoff over that for giving all; NaN unless that is positive."""
        whole = self.payoff[-1]
        return tuple(p / whole if whole > 0 else math.nan for p in self.payoff)

    @property
    def accuracy_slope(self) -> float:
        """Rise of the accuracy from giving nothing to giving all, by a straight line."""
        return slope(SHARES, self.accuracy)

    @property
    def pay_slope(self) -> float:
        """Rise of the pay from giving nothing to giving all, by a straight line."""
        return slope(SHARES, self.pay)

    def free_rider_gain(self, alone: float, alone_again: float) -> float:
        """Return the accuracy for giving nothing less the mean of two trainings alone."""
        return self.accuracy[0] - (alone + alone_again) / 2


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """Return the least-squares slope of y over x; NaN if a value of y is.

    >>> slope([0.0, 0.5, 1.0], [1.0, 1.5, 2.0])
    1.0
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    apart = x - x.mean()
    return float(apart @ (y - y.mean()) / (apart @ apart))


def rationality(alone: ArrayLike, alone_again: ArrayLike, federated: ArrayLike) -> float:
    """Return the share of members that federating leaves no worse off than training alone.

    Each member is compared with both of its trainings alone, and the two answers are averaged:
    against the better of the two a member would look worse off by the luck of one draw, against the
    worse of the two better off. Equal accuracies are no loss. With n test graphs an accuracy is a
    multiple of 1/n, so with few of them many are equal by chance, and a member just below is one
    test graph below. `rationality(ξ, ξ again, …)` of a third training alone is therefore about
    ½ + ½·(share of equal accuracies), not 1: compare with `rationality_retest`.

    Args:
        alone: Accuracy ξ of each member's model trained alone, `(A,)`.
        alone_again: The same from another training seed, `(A,)`.
        federated: Accuracy ψ in the federation, `(A,)`.

    Returns:
        A multiple of 1 / (2A).

    >>> rationality([0.6, 0.8], [0.7, 0.8], [0.65, 0.8])
    0.75
    """
    return (_not_below(federated, alone) + _not_below(federated, alone_again)) / 2


def rationality_retest(alone: ArrayLike, alone_again: ArrayLike) -> float:
    """Return the rationality of a method that changes nothing, from two trainings alone.

    Each of the two trainings stands once for the federation: ½ + ½·(share of equal accuracies).

    >>> rationality_retest([0.6, 0.8], [0.7, 0.8])
    0.75
    """
    return (_not_below(alone, alone_again) + _not_below(alone_again, alone)) / 2


def _not_below(values: ArrayLike, others: ArrayLike) -> float:
    difference = np.asarray(values, dtype=float) - np.asarray(others, dtype=float)
    return float((difference >= -ROUNDING).mean())
