"""Exact Shapley values: the axioms, and brute force over orders and over coalitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from oracles.games import Game, shapley_by_permutations, shapley_by_subsets
from oracles.naive import cosine, weighted_sum
from torch import Tensor
from value_strategies import rounds

from motifair.mechanism.alignment import alignment, shapley, shapley_alignment


def games(players: int) -> SearchStrategy[Tensor]:
    """The worth of every coalition, the empty one included."""
    worth = st.floats(-10, 10, width=32)
    return st.lists(worth, min_size=2**players, max_size=2**players).map(
        lambda drawn: torch.tensor(drawn, dtype=torch.float64)
    )


any_game = st.integers(1, 5).flatmap(games)


def as_oracle(game: Tensor) -> Game:
    return lambda coalition: float(game[sum(1 << player for player in coalition)])


def players_of(game: Tensor) -> int:
    return len(game).bit_length() - 1


def close(found: Tensor, expected: Tensor | list[float], tolerance: float = 1e-9) -> bool:
    return torch.allclose(
        found, torch.as_tensor(expected, dtype=found.dtype), rtol=0, atol=tolerance
    )


def alignment_game(updates: Tensor, weights: Tensor) -> Game:
    """ν(S) = cos(u_S, u_N), written out once more."""
    vectors, a = list(updates), weights.tolist()
    everyone = weighted_sum(a, vectors)
    return lambda coalition: cosine(
        weighted_sum([w if j in coalition else 0.0 for j, w in enumerate(a)], vectors), everyone
    )


@given(any_game)
def test_values_are_mean_marginal_contributions_over_all_orders(game: Tensor) -> None:
    assert close(shapley(game), shapley_by_permutations(as_oracle(game), players_of(game)))


@given(st.integers(1, 7).flatmap(games))
def test_values_are_weighted_marginal_contributions_over_all_coalitions(game: Tensor) -> None:
    assert close(shapley(game), shapley_by_subsets(as_oracle(game), players_of(game)))


@given(any_game)
def test_values_share_out_exactly_what_everyone_together_is_worth(game: Tensor) -> None:
    assert close(shapley(game).sum(), game[-1] - game[0])


@given(st.integers(2, 5).flatmap(games), st.data())
def test_renaming_two_players_exchanges_their_values(game: Tensor, data: st.DataObject) -> None:
    n = players_of(game)
    i, j = data.draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=2, unique=True))
    coalition = torch.arange(len(game))
    differ = ((coalition >> i) ^ (coalition >> j)) & 1
    renamed = game[coalition ^ (differ << i) ^ (differ << j)]
    order = list(range(n))
    order[i], order[j] = j, i
    assert close(shapley(renamed), shapley(game)[order])


@given(any_game, st.data())
def test_a_player_who_never_adds_anything_gets_nothing_and_takes_nothing(
    game: Tensor, data: st.DataObject
) -> None:
    n = players_of(game)
    null = data.draw(st.integers(0, n))
    coalition = torch.arange(2 * len(game))
    below = coalition & ((1 << null) - 1)
    larger = game[below | ((coalition >> (null + 1)) << null)]
    found = shapley(larger)
    assert found[null] == 0
    assert close(torch.cat([found[:null], found[null + 1 :]]), shapley(game))


@given(st.integers(1, 5).flatmap(lambda n: st.tuples(games(n), games(n))))
def test_values_of_a_sum_of_games_are_the_sums_of_values(pair: tuple[Tensor, Tensor]) -> None:
    first, second = pair
    assert close(shapley(first + 2 * second), shapley(first) + 2 * shapley(second), 1e-8)


@given(rounds(most_agents=5))
def test_exact_alignment_is_the_game_of_cosines_by_orders(drawn: tuple[Tensor, Tensor]) -> None:
    updates, weights = drawn
    expected = shapley_by_permutations(alignment_game(updates, weights), len(updates))
    assert close(shapley_alignment(updates, weights), expected)


@given(rounds(most_agents=7))
def test_exact_alignment_is_the_game_of_cosines_by_coalitions(
    drawn: tuple[Tensor, Tensor],
) -> None:
    updates, weights = drawn
    expected = shapley_by_subsets(alignment_game(updates, weights), len(updates))
    assert close(shapley_alignment(updates, weights), expected)


@given(rounds())
def test_exact_alignments_add_up_to_one(drawn: tuple[Tensor, Tensor]) -> None:
    assert close(shapley_alignment(*drawn).sum(), torch.tensor(1.0))


@given(rounds(), st.data())
def test_agents_with_the_same_update_and_weight_are_equally_aligned(
    drawn: tuple[Tensor, Tensor], data: st.DataObject
) -> None:
    updates, weights = drawn
    twin = data.draw(st.integers(1, len(updates) - 1))
    updates[twin], weights[twin] = updates[0], weights[0]
    found = shapley_alignment(updates, weights)
    assert close(found[twin], found[0])


@given(rounds(), st.data())
def test_an_agent_that_sends_nothing_is_aligned_with_nothing(
    drawn: tuple[Tensor, Tensor], data: st.DataObject
) -> None:
    updates, weights = drawn
    silent = data.draw(st.integers(0, len(updates) - 1))
    updates[silent] = 0
    others = [i for i in range(len(updates)) if i != silent]
    found = shapley_alignment(updates, weights)
    assert close(found[silent], torch.tensor(0.0))
    assert close(found[others], shapley_alignment(updates[others], weights[others]))
    assert alignment(updates, weights)[silent] == 0


def test_updates_that_cancel_are_worth_nothing_to_anyone() -> None:
    generator = torch.Generator().manual_seed(3)
    weights = torch.full((4,), 0.25, dtype=torch.float64)
    for _ in range(20):
        updates = torch.randn(4, 50, generator=generator, dtype=torch.float64)
        updates[3] = -updates[:3].sum(dim=0)
        assert close(alignment(updates, weights), torch.zeros(4))
        assert close(shapley_alignment(updates, weights), torch.zeros(4), 1e-6)


def test_twelve_agents_are_valued_and_thirteen_are_refused() -> None:
    updates = torch.randn(13, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = torch.full((13,), 1 / 13, dtype=torch.float64)
    assert close(shapley_alignment(updates[:12], weights[:12]).sum(), torch.tensor(1.0))
    with pytest.raises(ValueError, match="12 agents"):
        shapley_alignment(updates, weights)


@pytest.mark.parametrize("agents", [5, 8, 10])
def test_the_cosine_approximates_the_exact_value_for_random_updates(agents: int) -> None:
    """Means over draws: in a single one all agents may be so alike that correlation says little."""
    weights = torch.full((agents,), 1 / agents, dtype=torch.float64)
    correlation, distance = [], []
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        updates = torch.randn(agents, 1000, generator=generator, dtype=torch.float64)
        exact, near = shapley_alignment(updates, weights), alignment(updates, weights)
        exact, near = exact / exact.sum(), near / near.sum()
        correlation.append(float(torch.corrcoef(torch.stack([exact, near]))[0, 1]))
        distance.append(float((exact - near).abs().sum()))
    assert sum(correlation) / 20 > 0.95
    assert sum(distance) / 20 < 0.03


@pytest.mark.parametrize("agents", [3, 6, 10])
def test_an_agent_that_pulls_against_the_others_is_negative_exactly_and_approximately(
    agents: int,
) -> None:
    generator = torch.Generator().manual_seed(agents)
    common = torch.randn(200, generator=generator, dtype=torch.float64)
    noise = torch.randn(agents, 200, generator=generator, dtype=torch.float64)
    updates = common + 0.5 * noise
    updates[0] = -common + 0.5 * noise[0]
    weights = torch.full((agents,), 1 / agents, dtype=torch.float64)
    for found in (shapley_alignment(updates, weights), alignment(updates, weights)):
        assert found[0] < -0.1
        assert (found[1:] > 0).all()
