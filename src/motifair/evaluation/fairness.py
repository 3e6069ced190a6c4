"""Fairness: correlation of federated accuracy with accuracy alone, its uncertainty, inequality."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

SMALLEST_VARIANCE = 1e-12
LOSS = 0.05  # an agent is worse off if federation lowers its score by more than this
ROUNDING = 1e-9  # 0.70 − 0.75 is slightly less than −0.05 in floating point


def fairness(alone: ArrayLike, federated: ArrayLike) -> float:
    """Return ρ(ξ, ψ): Pearson's correlation, over agents, of accuracy alone and in the federation.

    Args:
        alone: Accuracy ξ of each agent's model trained alone, `(A,)`.
        federated: Accuracy ψ of each agent's model in the federation, `(A,)`.

    Returns:
        The correlation, or NaN if either accuracy is the same for all agents.

    >>> fairness([0.6, 0.7, 0.8], [0.7, 0.75, 0.8])
    1.0
    >>> fairness([0.6, 0.7, 0.8], [0.7, 0.7, 0.7])
    nan
    """
    x, y = np.asarray(alone, dtype=float), np.asarray(federated, dtype=float)
    x, y = x - x.mean(), y - y.mean()
    if (x @ x) / len(x) < SMALLEST_VARIANCE or (y @ y) / len(y) < SMALLEST_VARIANCE:
        return math.nan
    return float(np.clip(x @ y / math.sqrt((x @ x) * (y @ y)), -1, 1))


def rank_fairness(alone: ArrayLike, federated: ArrayLike) -> float:
    """Return Spearman's rank correlation of accuracy alone and in the federation.

    >>> rank_fairness([0.6, 0.7, 0.8], [0.1, 0.2, 0.9])
    1.0
    """
    return fairness(_ranks(alone), _ranks(federated))


def worse_off(alone: ArrayLike, federated: ArrayLike, *, errors: bool = False) -> float:
    """Return the share of agents whose accuracy is more than `LOSS` below training alone.

    Scores that are `errors` with their sign turned have a unit: there it is a share of the error.

    >>> worse_off([0.75, 0.8], [0.7, 0.7]), worse_off([-10, -10], [-10.4, -11], errors=True)
    (0.5, 0.5)
    """
    x = np.asarray(alone, dtype=float)
    gain = np.asarray(federated, dtype=float) - x
    least = LOSS * (np.abs(x) if errors else 1.0)
    return float((gain < -least - ROUNDING).mean())


def gini(payoffs: ArrayLike) -> float:
    """Return Gini's coefficient, Σ_ij |p_i − p_j| / (2 N Σ p): 0 if all payoffs are equal.

    NaN if the payoffs sum to 0 or less.

    >>> gini([1.0, 1.0]), gini([0.0, 1.0])
    (0.0, 0.5)
    """
    p = np.asarray(payoffs, dtype=float)
    if p.sum() <= 0:
        return math.nan
    return float(np.abs(p[:, None] - p[None]).sum() / (2 * len(p) * p.sum()))


def jain(payoffs: ArrayLike) -> float:
    """Return Jain's index, (Σ p)² / (N Σ p²): 1 if all payoffs are equal; NaN if all are 0.

    >>> jain([1.0, 1.0]), jain([0.0, 1.0])
    (1.0, 0.5)
    """
    p = np.asarray(payoffs, dtype=float)
    square = float((p * p).sum())
    return float(p.sum() ** 2 / (len(p) * square)) if square > 0 else math.nan


def _ranks(values: ArrayLike) -> np.ndarray:
    """Return ranks; equal values have the mean of their ranks."""
    v = np.asarray(values, dtype=float)
    below: np.ndarray = (v[:, None] > v[None]).sum(axis=1)
    equal: np.ndarray = (v[:, None] == v[None]).sum(axis=1)
    ranks: np.ndarray = below + (equal + 1) / 2
    return ranks


def fairness_bound(retest: float) -> float:
    """Return √max(ρ, 0): the largest fairness that can be expected with retest reliability ρ.

    ρ is the correlation of accuracy alone between two trainings of the same agents.

    >>> fairness_bound(0.81)
    0.9
    """
    return math.sqrt(max(retest, 0.0)) if retest == retest else math.nan


def correlation_interval(r: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the confidence interval of a correlation over n agents by Fisher's transformation.

    It is NaN for fewer than four agents.

    >>> tuple(round(x, 2) for x in correlation_interval(0.6, 10))
    (-0.05, 0.89)
    """
    if n < 4 or r != r:
        return math.nan, math.nan
    z = math.atanh(min(max(r, -0.999999), 0.999999))
    half = float(ndtri((1 + level) / 2)) / math.sqrt(n - 3)
    return math.tanh(z - half), math.tanh(z + half)
