"""What agents are worth, from the utilities of all coalitions."""

from __future__ import annotations

from math import comb

import numpy as np

Array = np.ndarray


def semivalue(game: Array, chance: Array) -> Array:
    """Return Σ_{S∌i} chance[|S|]·(ν(S∪{i}) − ν(S)) for each agent, `(..., 2^A) -> (..., A)`.

    `game[..., s]` is the value of the coalition whose members are the set bits of s; `chance` has
    a weight for each size from 0 to A − 1.

    >>> semivalue(np.array([0.0, 1.0, 1.0, 4.0]), np.array([0.5, 0.5])).tolist()
    [2.0, 2.0]
    """
    agents = len(chance)
    number = np.arange(2**agents)
    size = np.array([int(s).bit_count() for s in number])
    values = []
    for i in range(agents):
        without = number[(number >> i) & 1 == 0]
        gain = game[..., without | (1 << i)] - game[..., without]
        values.append((gain * chance[size[without]]).sum(axis=-1))
    return np.stack(values, axis=-1)


def shapley(game: Array) -> Array:
    """Return exact Shapley values: sizes of coalitions are equally likely."""
    agents = _agents(game)
    return semivalue(game, np.array([1 / (agents * comb(agents - 1, k)) for k in range(agents)]))


def banzhaf(game: Array, p: float) -> Array:
    """Return weighted Banzhaf values: every other agent is in the coalition with chance p."""
    agents = _agents(game)
    return semivalue(game, np.array([p**k * (1 - p) ** (agents - 1 - k) for k in range(agents)]))


def leave_one_out(game: Array) -> Array:
    """Return ν(N) − ν(N∖{i})."""
    agents = _agents(game)
    return semivalue(game, (np.arange(agents) == agents - 1).astype(float))


TRUTHS = {
    "Shapley": shapley,
    "Banzhaf .5": lambda game: banzhaf(game, 0.5),
    "Banzhaf .8": lambda game: banzhaf(game, 0.8),
    "leave one out": leave_one_out,
}


def _agents(game: Array) -> int:
    return int(game.shape[-1]).bit_length() - 1
