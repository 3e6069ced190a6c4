"""Payment by data sizes alone: four rules against brute force over coalitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.games import baseline_payoffs, payoff_shares

from motifair.mechanism.payoff import SIZE_PAYOFFS, sampled_shapley, shapley_payoff

KINDS = pytest.mark.parametrize("kind", ["equal", "individual", "union", "shapley"])
sizes = st.lists(st.integers(1, 5000), min_size=2, max_size=7)


def paid(kind: str, graphs: list[int], budget: float = 1.0) -> torch.Tensor:
    return SIZE_PAYOFFS[kind](torch.tensor(graphs), budget)


@KINDS
@given(graphs=sizes, budget=st.floats(0.1, 100))
def test_payoffs_are_brute_force_over_coalitions(
    kind: str, graphs: list[int], budget: float
) -> None:
    expected = torch.tensor(baseline_payoffs(kind, graphs, budget), dtype=torch.float64)
    assert torch.allclose(paid(kind, graphs, budget), expected, rtol=1e-6, atol=1e-12)


@KINDS
@given(graphs=sizes, budget=st.floats(0, 100))
def test_payoffs_spend_the_budget_exactly(kind: str, graphs: list[int], budget: float) -> None:
    assert abs(paid(kind, graphs, budget).sum() - budget) < 1e-9 * max(budget, 1)


@KINDS
@given(agents=st.integers(2, 10), graphs=st.integers(1, 5000))
def test_equal_agents_are_paid_equally(kind: str, agents: int, graphs: int) -> None:
    expected = torch.full((agents,), 3 / agents, dtype=torch.float64)
    assert torch.allclose(paid(kind, [graphs] * agents, 3.0), expected, rtol=1e-9)


@KINDS
@given(graphs=sizes)
def test_whoever_has_more_graphs_is_never_paid_less(kind: str, graphs: list[int]) -> None:
    assert (paid(kind, sorted(graphs)).diff() >= -1e-12).all()


@pytest.mark.parametrize("kind", ["individual", "union", "shapley"])
def test_whoever_has_more_graphs_is_paid_more_unless_all_are_equal(kind: str) -> None:
    assert (paid(kind, [10, 20, 40]).diff() > 0).all()


@KINDS
@given(graphs=sizes, data=st.data())
def test_payoffs_follow_the_agents_when_they_are_reordered(
    kind: str, graphs: list[int], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(graphs))))
    found = paid(kind, [graphs[i] for i in order])
    assert torch.allclose(found, paid(kind, graphs)[order], rtol=0, atol=1e-12)


@given(sizes)
def test_a_shapley_share_lies_between_being_last_and_being_first(graphs: list[int]) -> None:
    """Φ has decreasing returns, so joining last adds least and being alone adds most."""
    worth = sum(payoff_shares("shapley", graphs))
    shapley = (worth * shapley_payoff(torch.tensor(graphs), 1.0)).tolist()
    last, first = payoff_shares("union", graphs), payoff_shares("individual", graphs)
    for low, middle, high in zip(last, shapley, first, strict=True):
        assert low - 1e-9 <= middle <= high + 1e-9


def test_beyond_fourteen_agents_orders_are_sampled_close_to_the_exact_value() -> None:
    graphs = torch.arange(1, 15) * 7
    exact = shapley_payoff(graphs, 1.0)
    sampled = sampled_shapley(graphs.double())
    assert torch.allclose(sampled / sampled.sum(), exact, rtol=0.05, atol=1e-3)
    many = shapley_payoff(torch.arange(1, 31), 3.0)
    assert torch.isclose(many.sum(), torch.tensor(3.0).double())
    assert torch.equal(many, shapley_payoff(torch.arange(1, 31), 3.0))
    assert many[29] > many[0]
