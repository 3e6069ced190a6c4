"""Cooperative games by brute force: exact Shapley values and the four payoff baselines.

A game over the players 0..n-1 is any callable nu(frozenset of players) -> float.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations, permutations

Game = Callable[[frozenset[int]], float]

MAX_PERMUTED_PLAYERS = 7


def shapley_by_permutations(game: Game, players: int) -> list[float]:
    """Mean marginal contribution over every order of arrival.

    phi_i = (1 / n!) * sum over orders pi of [nu(before_i + {i}) - nu(before_i)].
    """
    if players > MAX_PERMUTED_PLAYERS:
        raise ValueError(f"{players}! orders are too many, use shapley_by_subsets")
    phi = [0.0] * players
    for order in permutations(range(players)):
        arrived: frozenset[int] = frozenset()
        for player in order:
            joined = arrived | {player}
            phi[player] += game(joined) - game(arrived)
            arrived = joined
    return [total / math.factorial(players) for total in phi]


def shapley_by_subsets(game: Game, players: int) -> list[float]:
    """Weighted marginal contribution over every coalition without the player.

    phi_i = sum over S in N - {i} of |S|! (n - |S| - 1)! / n! * [nu(S + {i}) - nu(S)].
    """
    worth = {
        frozenset(members): game(frozenset(members))
        for size in range(players + 1)
        for members in combinations(range(players), size)
    }
    phi = [0.0] * players
    for coalition, value in worth.items():
        size = len(coalition)
        for player in range(players):
            if player not in coalition:
                weight = (
                    math.factorial(size)
                    * math.factorial(players - size - 1)
                    / math.factorial(players)
                )
                phi[player] += weight * (worth[coalition | {player}] - value)
    return phi


def data_game(sizes: Sequence[int]) -> Game:
    """Worth of a coalition by its data: Phi(S) = log(1 + sum_{j in S} |D_j|), Phi({}) = 0."""
    return lambda coalition: math.log(1 + sum(sizes[j] for j in coalition))


def payoff_shares(kind: str, sizes: Sequence[int]) -> list[float]:
    """Share of each agent before the budget is divided.

    equal: 1/N; individual: Phi({i}); union: Phi(N) - Phi(N - {i}); shapley: exact with nu = Phi.
    """
    players = len(sizes)
    game = data_game(sizes)
    everyone = frozenset(range(players))
    if kind == "equal":
        return [1 / players] * players
    if kind == "individual":
        return [game(frozenset({i})) for i in range(players)]
    if kind == "union":
        return [game(everyone) - game(everyone - {i}) for i in range(players)]
    if kind == "shapley":
        return shapley_by_subsets(game, players)
    raise ValueError(f"unknown payoff baseline {kind!r}")


def baseline_payoffs(kind: str, sizes: Sequence[int], budget: float = 1.0) -> list[float]:
    """payoff_i = B * share_i / sum_j share_j for kind in equal, individual, union, shapley."""
    shares = payoff_shares(kind, sizes)
    return [budget * share / sum(shares) for share in shares]
