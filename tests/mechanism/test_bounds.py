"""What one agent sends moves a round by a bounded amount, and honest rounds stay as they are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from motifair.mechanism.aggregation import aggregate, size_weights
from motifair.mechanism.bounds import (
    SHORTENED,
    capped_sizes,
    shorten,
    too_long,
    too_short,
    usual_length,
)

lengths = st.lists(st.floats(0.5, 1.4), min_size=3, max_size=9)
seeds = st.integers(0, 2**16)


def directions(count: int, seed: int) -> Tensor:
    drawn = torch.randn(
        count, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return drawn / drawn.norm(dim=1, keepdim=True)


@given(lengths, st.floats(0, 1e12), seeds)
def test_an_update_of_any_length_moves_the_aggregate_by_its_weight_times_the_bound(
    others: list[float], length: float, seed: int
) -> None:
    drawn = torch.tensor([*others, length], dtype=torch.float64)
    sent = drawn[:, None] * directions(len(drawn), seed)
    weights = size_weights(torch.ones(len(drawn)))
    silent = sent.clone()
    silent[-1] = 0
    moved = aggregate(shorten(sent, torch.ones(len(drawn))), weights)
    without = aggregate(shorten(silent, torch.ones(len(drawn))), weights)
    most = SHORTENED * max(others) / len(drawn)
    assert float((moved - without).norm()) <= most * (1 + 1e-12)


@given(lengths, st.floats(20.0, 1e6))
def test_one_of_three_or_more_changes_what_is_usual_within_what_the_others_send(
    others: list[float], length: float
) -> None:
    both = torch.tensor([*others, length], dtype=torch.float64)
    steps = torch.ones(len(both))
    assert min(others) <= float(usual_length(both, steps)[0]) <= max(others)
    assert too_long(both, steps).tolist() == [False] * len(others) + [True]
    small = torch.tensor([*others, 1 / length], dtype=torch.float64)
    assert min(others) <= float(usual_length(small, steps)[0]) <= max(others)
    assert not too_long(small, steps).any()


@given(lengths, st.sampled_from([0.0, 1e-9, 0.04]))
def test_one_of_three_or_more_that_sends_next_to_nothing_is_told_from_the_others(
    others: list[float], length: float
) -> None:
    both = torch.tensor([*others, length], dtype=torch.float64)
    assert too_short(both).tolist() == [False] * len(others) + [True]
    assert not too_short(torch.tensor(others)).any()
    half = torch.tensor([*others, *[length] * len(others)], dtype=torch.float64)
    assert not too_short(half).any()
    stack = torch.stack([both, both.flip(0)])
    assert torch.equal(too_short(stack)[1], too_short(both).flip(0))


@given(lengths, seeds)
def test_updates_of_about_equal_length_stay_as_they_are_to_the_last_bit(
    drawn: list[float], seed: int
) -> None:
    near = torch.tensor(drawn, dtype=torch.float64).clamp(min=0.8)  # none twice another's length
    sent = near[:, None] * directions(len(drawn), seed)
    assert torch.equal(shorten(sent, torch.ones(len(drawn))), sent)


@given(st.integers(2, 6), seeds)
def test_a_stack_is_bounded_federation_by_federation(agents: int, seed: int) -> None:
    drawn = torch.Generator().manual_seed(seed)
    sent = torch.randn(3, agents, 4, generator=drawn).exp() * torch.randint(
        0, 3, (3, agents, 1), generator=drawn
    )
    steps = torch.randint(1, 9, (3, agents), generator=drawn)
    each = torch.stack([shorten(s, k) for s, k in zip(sent, steps, strict=True)])
    assert torch.equal(shorten(sent, steps), each)


def test_a_long_update_keeps_its_direction_and_absent_ones_do_not_count() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [30.0, 40.0], [0.0, 5.0]])
    expected = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [6.0, 8.0], [0.0, 5.0]])
    assert torch.allclose(shorten(rows, torch.ones(5)), expected)
    assert not shorten(torch.zeros(3, 2), torch.ones(3)).any()
    assert not too_long(torch.zeros(0), torch.ones(0)).any()
    assert not too_short(torch.zeros(0)).any()


def test_more_steps_may_go_further() -> None:
    rows, steps = torch.tensor([[1.0], [1.0], [1.0], [5.0]]), torch.tensor([1, 1, 1, 25])
    assert torch.equal(shorten(rows, steps), rows)
    assert shorten(rows, torch.ones(4)).flatten().tolist() == [1.0, 1.0, 1.0, 2.0]


def test_of_two_nobody_is_rejected_for_a_length_that_only_the_other_contradicts() -> None:
    pair = torch.tensor([1e-6, 1.0])
    assert not too_long(pair, torch.ones(2)).any()


@pytest.mark.parametrize(
    ("claimed", "ratio", "counted"),
    [
        ([10, 10**9], 2.0, [10, 20]),
        ([1, 1], 1.5, [1, 1]),
        ([30, 40, 50], 2.0, [30, 40, 50]),
        ([3, 10**9], 1e9, [3, 10**9]),
    ],
)
def test_sizes_are_held_to_the_lower_median(
    claimed: list[int], ratio: float, counted: list[int]
) -> None:
    assert capped_sizes(torch.tensor(claimed), ratio).tolist() == counted
