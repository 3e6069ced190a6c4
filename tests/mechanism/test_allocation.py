"""The reward of E3: how much an agent receives, and which components."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from oracles import naive
from torch import Tensor
from value_strategies import numbers, values

from motifair.mechanism.alignment import cosine
from motifair.mechanism.allocation import ranks, reward_ratio, sparsify

ratios = numbers(0, 1)
betas = st.floats(0.01, 100) | st.just(math.inf)


def updates(*, ties: bool) -> SearchStrategy[Tensor]:
    """An update without zeros; with `ties` few magnitudes are distinct."""
    if ties:
        parts = st.sampled_from([-2.0, -1.0, 1.0, 2.0])
    else:
        parts = st.floats(0.001, 10) | st.floats(-10, -0.001)
    return st.lists(parts, min_size=1, max_size=30).map(
        lambda drawn: torch.tensor(drawn, dtype=torch.float64)
    )


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Tensor, list[int]]:
    """An update and a way to cut it, with ties."""
    update = draw(updates(ties=True))
    cuts = draw(st.sets(st.integers(1, max(len(update) - 1, 1)), max_size=4))
    edges = [0, *sorted(c for c in cuts if c < len(update)), len(update)]
    return update, [b - a for a, b in pairwise(edges)]


@given(values(), betas)
def test_the_ratio_is_the_naive_formula(value: Tensor, beta: float) -> None:
    expected = naive.reward_ratios(value.tolist(), beta)
    found = reward_ratio(value, beta)
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


@given(values(), betas)
def test_the_best_agent_has_ratio_one_and_a_worthless_one_zero(value: Tensor, beta: float) -> None:
    found = reward_ratio(value, beta)
    assert found[value.argmax()] == 1
    assert (found[value <= 0] == 0).all()
    assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize("beta", [1.0, math.inf])
def test_an_agent_worth_exactly_nothing_receives_nothing(beta: float) -> None:
    value = torch.tensor([1.5, 0.0, -0.5], dtype=torch.float64)
    assert reward_ratio(value, beta).tolist() == [1.0, 0.0, 0.0]


@given(values(), betas)
def test_a_higher_value_never_has_a_lower_ratio(value: Tensor, beta: float) -> None:
    found = reward_ratio(value.sort().values, beta)
    assert (found.diff() >= 0).all()


@given(values(), st.floats(0.01, 50), st.floats(1, 50))
def test_a_larger_beta_never_lowers_a_ratio(value: Tensor, beta: float, factor: float) -> None:
    lower, higher = reward_ratio(value, beta), reward_ratio(value, beta * factor)
    assert (higher >= lower - 1e-12).all()
    assert (reward_ratio(value, math.inf) >= higher).all()


@given(values())
def test_a_small_beta_gives_ratios_proportional_to_value(value: Tensor) -> None:
    expected = value.clamp(min=0) / value.max()
    assert torch.allclose(reward_ratio(value, 1e-6), expected, rtol=0, atol=1e-9)


def test_a_large_beta_gives_everything_to_everyone_of_positive_value() -> None:
    value = torch.tensor([0.7, 0.4, 0.001, -0.101], dtype=torch.float64)
    expected = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    assert torch.allclose(reward_ratio(value, 1e6), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("ties", [False, True])
@given(data=st.data(), ratio=ratios)
def test_the_reward_is_the_naive_mask(ties: bool, data: st.DataObject, ratio: Tensor) -> None:
    update = data.draw(updates(ties=ties))
    reward, kept = sparsify(update, ratio, [len(update)])
    for i, q in enumerate(ratio.tolist()):
        expected, count = naive.masked(update, q, [len(update)])
        assert torch.equal(reward[i], expected)
        assert kept[i] == count


@given(cut=blocks(), ratio=ratios)
def test_blocks_are_masked_each_by_itself(cut: tuple[Tensor, list[int]], ratio: Tensor) -> None:
    update, sizes = cut
    reward, kept = sparsify(update, ratio, sizes)
    for i, q in enumerate(ratio.tolist()):
        expected, count = naive.masked(update, q, sizes)
        assert torch.equal(reward[i], expected)
        assert kept[i] == count


@given(updates(ties=True), ratios)
def test_exactly_the_promised_number_of_components_is_kept(update: Tensor, ratio: Tensor) -> None:
    reward, kept = sparsify(update, ratio, [len(update)])
    assert kept.tolist() == [math.floor(q * len(update)) for q in ratio.tolist()]
    assert torch.equal((reward != 0).sum(dim=1), kept)


@given(updates(ties=True), ratios)
def test_what_is_kept_is_unchanged_and_never_smaller_than_what_is_dropped(
    update: Tensor, ratio: Tensor
) -> None:
    reward, _ = sparsify(update, ratio, [len(update)])
    for row in reward:
        inside = row != 0
        assert torch.equal(row[inside], update[inside])
        if inside.any() and not inside.all():
            assert update[~inside].abs().max() <= update[inside].abs().min()


@given(blocks(), ratios)
def test_whoever_receives_less_receives_a_part_of_what_others_receive(
    cut: tuple[Tensor, list[int]], ratio: Tensor
) -> None:
    update, sizes = cut
    reward, kept = sparsify(update, ratio.sort().values, sizes)
    support = reward != 0
    assert (kept.diff() >= 0).all()
    assert (support[:-1] <= support[1:]).all()


@given(updates(ties=False), values(), betas)
def test_the_reward_of_a_more_valuable_agent_is_longer_and_closer_to_the_update(
    update: Tensor, value: Tensor, beta: float
) -> None:
    reward, _ = sparsify(update, reward_ratio(value.sort().values, beta), [len(update)])
    closeness = cosine(reward, update)
    assert (reward.norm(dim=1).diff() >= -1e-12).all()
    assert (closeness.diff() >= -1e-12).all()
    assert torch.allclose(closeness, reward.norm(dim=1) / update.norm(), rtol=0, atol=1e-12)


@given(updates(ties=True), values(), betas)
def test_the_best_agent_receives_the_update_exactly_and_a_worthless_one_nothing(
    update: Tensor, value: Tensor, beta: float
) -> None:
    reward, kept = sparsify(update, reward_ratio(value, beta), [len(update)])
    assert torch.equal(reward[value.argmax()], update)
    assert (reward[value <= 0] == 0).all()
    assert (kept[value <= 0] == 0).all()


def test_ties_go_to_the_lower_index() -> None:
    update = torch.tensor([-1.0, 2.0, 1.0, -2.0, 1.0])
    assert ranks(update).tolist() == [2, 0, 3, 1, 4]
    reward, _ = sparsify(update, torch.tensor([0.2, 0.6, 0.8]), [5])
    assert reward.tolist() == [
        [0.0, 2.0, 0.0, 0.0, 0.0],
        [-1.0, 2.0, 0.0, -2.0, 0.0],
        [-1.0, 2.0, 1.0, -2.0, 0.0],
    ]


def test_a_block_too_small_for_the_ratio_gives_nothing() -> None:
    update = torch.tensor([9.0, 8.0, 1.0, 3.0, 2.0, 4.0])
    reward, kept = sparsify(update, torch.tensor([0.5]), [1, 1, 4])
    assert reward.tolist() == [[0.0, 0.0, 0.0, 3.0, 0.0, 4.0]]
    assert kept.tolist() == [2]


@given(st.integers(0, 2**31), st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_a_mask_by_length_is_the_shortest_that_is_long_enough(
    seed: int, shares: list[float]
) -> None:
    generator = torch.Generator().manual_seed(seed)
    size = 23
    # Lengths of very different components, as in updates of networks.
    update = torch.randn(2, size, generator=generator, dtype=torch.float64)
    update = update * torch.rand(size, generator=generator, dtype=torch.float64) ** 4
    ratio = torch.tensor([shares, shares[::-1]], dtype=torch.float64)
    reward, kept = sparsify(update, ratio, [size], by_length=True)
    assert torch.equal(kept, (reward != 0).sum(dim=-1))
    for f in range(2):
        ordered = update[f].abs().sort(descending=True).values
        for a, q in enumerate(ratio[f].tolist()):
            count = int(kept[f, a])
            if q == 0:
                assert count == 0
                continue
            largest = reward[f, a].abs().sort(descending=True).values[:count]
            assert torch.equal(largest, ordered[:count])
            whole = float(update[f].norm())
            assert float(reward[f, a].norm()) >= q * whole * (1 - 1e-9)
            assert float(ordered[: count - 1].norm()) <= q * whole * (1 + 1e-9) or q == 1


@pytest.mark.parametrize("magnitudes", [1, 7, 4_000])
def test_ranks_of_many_components_are_those_of_a_stable_sort(magnitudes: int) -> None:
    draw = torch.Generator().manual_seed(magnitudes)
    update = torch.randint(-magnitudes, magnitudes + 1, (3, 5_000), generator=draw).double()
    order = torch.sort(-update.abs(), dim=-1, stable=True).indices
    assert torch.equal(ranks(update).gather(-1, order), torch.arange(5_000).expand(3, -1))


@pytest.mark.parametrize("by_length", [False, True])
def test_where_all_receive_all_of_it_nothing_is_lost(by_length: bool) -> None:
    update = torch.tensor([[1.0, -0.0, 3.0], [0.5, 2.0, -2.0]])
    reward, kept = sparsify(update, torch.ones(2, 4).double(), [1, 2], by_length=by_length)
    assert torch.equal(reward, update[:, None].expand(2, 4, 3))
    assert kept.tolist() == [[3] * 4] * 2
    reward += 1  # each agent has a reward of its own
    assert update[0, 0] == 1
