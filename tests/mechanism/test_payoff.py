"""The payment of E4 and E5."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import naive
from torch import Tensor
from value_strategies import numbers, values

from motifair.mechanism.payoff import compensation, payoff

budgets = st.floats(0, 1000)


def close(found: Tensor, expected: Tensor | list[float], tolerance: float = 1e-9) -> bool:
    return torch.allclose(
        found, torch.as_tensor(expected, dtype=found.dtype), rtol=0, atol=tolerance
    )


@given(values(), st.integers(0, 6), budgets, st.data())
def test_compensation_and_payoff_are_the_naive_formulas(
    value: Tensor, earlier: int, budget: float, data: st.DataObject
) -> None:
    past = [data.draw(numbers(-1, 1, size=len(value))) for _ in range(earlier)]
    mean = torch.stack(past).mean(dim=0) if past else torch.zeros_like(value)
    bonus = compensation(value, mean, earlier)
    expected = naive.compensations(value.tolist(), [p.tolist() for p in past])
    assert close(bonus, expected)
    paid = payoff(value, bonus, budget)
    assert close(paid, naive.payoffs(value.tolist(), expected, budget), 1e-6)


@given(values(), st.data(), budgets)
def test_payoffs_spend_the_budget_exactly(
    value: Tensor, data: st.DataObject, budget: float
) -> None:
    mean = data.draw(numbers(-1, 1, size=len(value)))
    paid = payoff(value, compensation(value, mean, 4), budget)
    assert abs(paid.sum() - budget) < 1e-9 * max(budget, 1)


@given(values(), st.data())
def test_a_payoff_has_the_sign_of_the_value(value: Tensor, data: st.DataObject) -> None:
    # An agent worth exactly nothing but on the rise may be paid.
    value = torch.where(value == 0, torch.full_like(value, 1e-3), value)
    mean = data.draw(numbers(-1, 1, size=len(value)))
    paid = payoff(value, compensation(value, mean, 3), 2.0)
    assert torch.equal(paid.sign(), value.sign())


@given(values(), st.data())
def test_compensation_is_never_negative_and_never_paid_to_a_negative_value(
    value: Tensor, data: st.DataObject
) -> None:
    mean = data.draw(numbers(-1, 1, size=len(value)))
    bonus = compensation(value, mean, 3)
    assert (bonus >= 0).all()
    assert ((bonus > 0) <= (value > mean)).all()
    without = torch.where(value < 0, torch.zeros_like(bonus), bonus)
    assert torch.equal(payoff(value, bonus, 1.0), payoff(value, without, 1.0))


@given(values(), budgets, st.data())
def test_the_first_round_pays_by_value_alone(
    value: Tensor, budget: float, data: st.DataObject
) -> None:
    meaningless = data.draw(numbers(-1, 1, size=len(value)))
    bonus = compensation(value, meaningless, 0)
    assert close(payoff(value, bonus, budget), budget * value, 1e-9 * max(budget, 1))


@given(values(), budgets)
def test_a_value_that_does_not_change_is_paid_as_it_is(value: Tensor, budget: float) -> None:
    bonus = compensation(value, value.clone(), 7)
    assert close(payoff(value, bonus, budget), budget * value, 1e-9 * max(budget, 1))


@given(st.floats(0.01, 0.4), st.floats(0.01, 0.4))
def test_a_rising_agent_gets_more_than_a_flat_one_of_the_same_value(
    value: float, rise: float
) -> None:
    r = torch.tensor([value, value, 1 - 2 * value], dtype=torch.float64)
    mean = torch.tensor([value - rise, value, 1 - 2 * value + rise], dtype=torch.float64)
    paid = payoff(r, compensation(r, mean, 5), 1.0)
    assert paid[0] > paid[1]
    assert paid[1] < value


@given(values(), st.data(), st.floats(0.1, 100))
def test_payoffs_are_proportional_to_the_budget(
    value: Tensor, data: st.DataObject, budget: float
) -> None:
    bonus = data.draw(numbers(0, 1, size=len(value)))
    assert close(payoff(value, bonus, budget), budget * payoff(value, bonus, 1.0), 1e-9 * budget)


def test_a_budget_of_zero_pays_nobody() -> None:
    value = torch.tensor([0.75, 0.5, -0.25], dtype=torch.float64)
    assert payoff(value, torch.zeros(3), 0.0).abs().tolist() == [0.0, 0.0, 0.0]
