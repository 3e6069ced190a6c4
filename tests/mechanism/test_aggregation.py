"""Weights over agents, the weighted sum, and diversity."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import naive
from torch import Tensor
from value_strategies import rounds, values

from motifair.mechanism.aggregation import aggregate, size_weights, value_weights
from motifair.mechanism.diversity import diversity


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=12))
def test_size_weights_are_shares_of_all_graphs(graphs: list[int]) -> None:
    expected = torch.tensor([n / sum(graphs) for n in graphs], dtype=torch.float64)
    assert torch.allclose(size_weights(torch.tensor(graphs)), expected, rtol=1e-12)


@given(values())
def test_value_weights_are_shares_of_all_positive_value(value: Tensor) -> None:
    positive = [max(r, 0.0) for r in value.tolist()]
    expected = torch.tensor([r / sum(positive) for r in positive], dtype=torch.float64)
    assert torch.allclose(value_weights(value), expected, rtol=0, atol=1e-12)


@given(rounds())
def test_the_aggregate_is_the_weighted_sum(drawn: tuple[Tensor, Tensor]) -> None:
    updates, weights = drawn
    expected = naive.weighted_sum(weights.tolist(), list(updates))
    assert torch.allclose(aggregate(updates, weights), expected, rtol=0, atol=1e-12)


def test_the_aggregate_keeps_the_precision_of_the_updates() -> None:
    weights = torch.tensor([0.5, 0.5], dtype=torch.float64)
    assert aggregate(torch.ones(2, 3), weights).dtype == torch.float32


def test_diversity_is_the_share_of_the_union() -> None:
    agents = [naive.Agent(n, [], [], {k: [] for k in keys}) for n, keys in
              [("a", "xy"), ("b", "yzw"), ("c", "")]]  # fmt: skip
    found = diversity(torch.tensor([2, 3, 0]), union=4)
    assert found.tolist() == naive.diversities(agents) == [0.5, 0.75, 0.0]


def test_diversity_is_zero_where_nobody_has_a_motif() -> None:
    assert diversity(torch.tensor([0, 0]), union=0).tolist() == [0.0, 0.0]
