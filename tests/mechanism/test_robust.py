"""Robust centres: against numpy, scipy and brute force, and what no single agent can do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from motifair.mechanism import robust

Centre = Callable[[Tensor, Tensor], Tensor]
CENTRES: dict[str, Centre] = {
    "median": robust.median,
    "trimmed-mean": lambda u, a: robust.trimmed_mean(u, a, 0.25),
    "krum": lambda u, a: robust.krum(u, a, 1),
    "multi-krum": lambda u, a: robust.krum(u, a, 1, several=True),
    "geometric-median": robust.geometric_median,
}
EACH = pytest.mark.parametrize("name", CENTRES)


def some_updates(seed: int, agents: int, width: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(agents, width, generator=generator, dtype=torch.float64)


@given(seed=st.integers(0, 10_000), agents=st.integers(1, 9))
def test_with_equal_weights_the_median_is_numpys(seed: int, agents: int) -> None:
    updates = some_updates(seed, agents)
    expected = np.median(updates.numpy(), axis=0)
    assert robust.median(updates, torch.ones(agents).double()).numpy() == pytest.approx(expected)


@given(seed=st.integers(0, 10_000), cut=st.integers(0, 3), agents=st.integers(7, 10))
def test_with_equal_weights_the_trimmed_mean_is_scipys(seed: int, cut: int, agents: int) -> None:
    updates = some_updates(seed, agents)
    expected = stats.trim_mean(updates.numpy(), (cut + 1e-9) / agents, axis=0)
    trimmed = robust.trimmed_mean(updates, torch.ones(agents).double(), cut / agents)
    assert trimmed.numpy() == pytest.approx(expected)


@given(seed=st.integers(0, 10_000), agents=st.integers(4, 8), faulty=st.integers(0, 2))
def test_krum_scores_are_those_of_a_search_over_all_neighbours(
    seed: int, agents: int, faulty: int
) -> None:
    updates = some_updates(seed, agents)
    near = max(agents - faulty - 2, 1)
    for i, score in enumerate(robust.krum_scores(updates, torch.ones(agents), faulty).tolist()):
        others = [float((updates[i] - updates[j]).square().sum()) for j in range(agents) if j != i]
        assert score == pytest.approx(min(sum(c) for c in combinations(others, near)))


@given(seed=st.integers(0, 10_000), agents=st.integers(3, 9))
@settings(deadline=None)
def test_no_point_nearby_is_nearer_to_all_than_the_geometric_median(seed: int, agents: int) -> None:
    updates, weights = some_updates(seed, agents), torch.rand(agents, dtype=torch.float64) + 0.1

    def cost(point: Tensor) -> float:
        return float((weights * (updates - point).norm(dim=-1)).sum())

    centre = robust.geometric_median(updates, weights, iterations=2000)
    steps = 0.01 * some_updates(seed + 1, 20)
    assert all(cost(centre) <= cost(centre + step) + 1e-9 for step in steps)


@EACH
@given(seed=st.integers(0, 10_000))
@settings(deadline=None, max_examples=30)
def test_one_agent_cannot_move_the_centre_beyond_the_others(name: str, seed: int) -> None:
    updates, weights = some_updates(seed, 7), torch.ones(7).double()
    updates[3] *= 1e9
    centre = CENTRES[name](updates, weights)
    others = updates[[k for k in range(7) if k != 3]]
    middle = others.mean(dim=0)
    assert (centre - middle).norm() <= 4 * (others - middle).norm(dim=-1).max()


@EACH
@given(seed=st.integers(0, 10_000), order=st.permutations(range(6)))
@settings(deadline=None, max_examples=30)
def test_neither_order_nor_agents_of_no_weight_matter_and_shifts_carry_over(
    name: str, seed: int, order: list[int]
) -> None:
    centre = CENTRES[name]
    updates, weights = some_updates(seed, 6), torch.tensor([1, 2, 1, 3, 1, 2]).double()
    expected = centre(updates, weights)
    assert torch.allclose(centre(updates[order], weights[order]), expected)
    assert torch.allclose(centre(updates + 5.0, weights), expected + 5.0)
    more = torch.cat([updates, torch.full((2, 6), 1e12).double()])
    assert torch.allclose(centre(more, torch.cat([weights, torch.zeros(2).double()])), expected)


@EACH
def test_federations_in_a_stack_have_the_centres_they_have_one_by_one(name: str) -> None:
    updates = torch.stack([some_updates(seed, 5) for seed in range(3)])
    weights = torch.tensor([[1, 1, 1, 1, 1], [1, 2, 3, 4, 5], [1, 1, 0, 1, 1]]).double()
    stacked = CENTRES[name](updates, weights)
    for f in range(3):
        assert torch.allclose(stacked[f], CENTRES[name](updates[f], weights[f]))


@EACH
def test_where_all_agree_the_centre_is_what_they_agree_on(name: str) -> None:
    updates = some_updates(1, 1).expand(5, -1).contiguous()
    assert torch.allclose(CENTRES[name](updates, torch.ones(5).double()), updates[0])
