"""The value update of E9: what it converges to and how fast."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import naive
from torch import Tensor
from value_strategies import numbers, values

from motifair.mechanism.value import EVIDENCE, begun, bounded, evidence, update_value

RULES = pytest.mark.parametrize("rule", ["additive", "ema"])
rates = st.floats(0.001, 1.0)


@RULES
@pytest.mark.parametrize("said", EVIDENCE)
@pytest.mark.parametrize("guard", [True, False])
@given(data=st.data(), value=values(), rate=rates, weight=st.floats(0, 3))
def test_the_update_is_the_naive_formula(
    guard: bool,
    said: str,
    rule: str,
    data: st.DataObject,
    value: Tensor,
    rate: float,
    weight: float,
) -> None:
    phi = data.draw(numbers(-1, 1, size=len(value)))
    shares = data.draw(numbers(0, 1, size=len(value)))
    # Where nothing is kept and nothing is known the quotient is 0/0; that has a test of its own.
    phi[0] += 0.01
    options = naive.Options(
        value_guard=guard,
        value_update=rule,
        value_rate=rate,
        diversity_weight=weight,
        evidence=said,
    )
    expected = naive.updated_values(value.tolist(), phi.tolist(), shares.tolist(), options)
    x = EVIDENCE[said](phi, shares, weight)
    # Without the guard there may be next to nothing to divide by.
    divisor = (1 if rule == "additive" else 1 - rate) + rate * float(x.sum())
    assume(guard or abs(divisor) > 1e-3)
    found = update_value(value, x, rate=rate, rule=rule, guard=guard)
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)


def test_without_the_guard_differences_grow_where_the_evidence_is_negative() -> None:
    x = torch.tensor([0.2, -0.4, -0.6], dtype=torch.float64)
    value = torch.full((3,), 1 / 3, dtype=torch.float64)
    for guard, most in ((True, 2 + 3 / 3), (False, 1e6)):
        found = value
        for _ in range(500):
            found = update_value(found, x, rate=0.05, rule="additive", guard=guard)
        assert abs(found.sum() - 1) < 1e-6
        assert (found.abs().max() > most) == (not guard)


@RULES
@given(data=st.data(), value=values(), rate=rates)
def test_values_add_up_to_one_and_the_best_has_at_least_its_share(
    rule: str, data: st.DataObject, value: Tensor, rate: float
) -> None:
    found = update_value(value, data.draw(numbers(-1, 1, size=len(value))), rate=rate, rule=rule)
    assert abs(found.sum() - 1) < 1e-9
    assert found.max() >= 1 / len(value) - 1e-9


@RULES
@given(data=st.data(), value=values(), rate=st.floats(0.01, 0.9))
def test_constant_evidence_is_approached_geometrically(
    rule: str, data: st.DataObject, value: Tensor, rate: float
) -> None:
    x = data.draw(numbers(0.0625, 1, size=len(value)))
    goal, total = x / x.sum(), float(x.sum())
    kept = 1.0 if rule == "additive" else 1 - rate
    ratio = kept / (kept + rate * total)
    error = value - goal
    for _ in range(5):
        value = update_value(value, x, rate=rate, rule=rule)
        assert torch.allclose(value - goal, ratio * error, rtol=0, atol=1e-12)
        error = value - goal


@RULES
@given(agents=st.integers(2, 12), x=st.floats(-1, 2), rate=rates)
def test_equal_evidence_leaves_equal_values_equal(
    rule: str, agents: int, x: float, rate: float
) -> None:
    value = torch.full((agents,), 1 / agents, dtype=torch.float64)
    for _ in range(10):
        value = update_value(value, torch.full_like(value, x), rate=rate, rule=rule)
    assert torch.allclose(value, torch.full_like(value, 1 / agents), rtol=0, atol=1e-12)


@RULES
def test_diversity_counts_by_its_weight(rule: str) -> None:
    value = torch.full((3,), 1 / 3, dtype=torch.float64)
    phi = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    shares = torch.tensor([0.25, 1.0, 0.5], dtype=torch.float64)
    for _ in range(2000):
        value = update_value(value, evidence(phi, shares, 2.0), rate=0.05, rule=rule)
    expected = torch.tensor([1.0, 2.25, 1.25], dtype=torch.float64) / 4.5
    assert torch.allclose(value, expected, rtol=0, atol=1e-9)


@RULES
@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_no_evidence_leaves_the_value_as_it_was(rule: str, rate: float) -> None:
    value = torch.tensor([0.75, 0.5, -0.25], dtype=torch.float64)
    assert torch.allclose(
        update_value(value, torch.zeros(3), rate=rate, rule=rule), value, rtol=0, atol=1e-15
    )


@given(numbers(-1, 1))
def test_bounding_keeps_the_differences_and_lifts_no_more_than_needed(x: Tensor) -> None:
    found = bounded(x)
    lift = found - x
    assert torch.allclose(lift, lift.mean().expand_as(lift), rtol=0, atol=1e-12)
    enough = max(float(x.sum()), float(x.abs().sum()) / 2)
    assert abs(found.sum() - enough) < 1e-9


@given(numbers(0, 1))
def test_bounding_leaves_evidence_in_favour_of_everyone_alone(x: Tensor) -> None:
    assert torch.equal(bounded(x), x)


@RULES
@given(data=st.data(), value=values(), rate=rates)
def test_several_federations_at_once_equal_each_by_itself(
    rule: str, data: st.DataObject, value: Tensor, rate: float
) -> None:
    x = data.draw(numbers(-1, 1, size=len(value)))
    both = update_value(
        torch.stack([value, value.flip(0)]), torch.stack([x, -x]), rate=rate, rule=rule
    )
    assert torch.allclose(both[0], update_value(value, x, rate=rate, rule=rule), rtol=0, atol=1e-12)
    assert torch.allclose(
        both[1], update_value(value.flip(0), -x, rate=rate, rule=rule), rtol=0, atol=1e-12
    )


newcomers = st.lists(st.booleans(), min_size=8, max_size=8).map(torch.tensor)


@given(data=st.data(), x=numbers(0, 1), new=newcomers, late=st.sampled_from([1.0, 1e-3, 0.0]))
def test_newcomers_begin_with_evidence_or_else_with_what_their_graphs_are_worth(
    data: st.DataObject, x: Tensor, new: Tensor, late: float
) -> None:
    """As far as a round says anything; who was there before keeps its part of the rest."""
    value, worth = (data.draw(numbers(0.125, 1, size=len(x))) for _ in range(2))
    known, x = ~new[: len(x)], late * x
    assume(known.any())
    worth[0] = x[0] = 0.0  # of an agent that brings nothing
    first = begun(value, x, known, worth)
    assert torch.allclose(first.sum(), value.sum())
    kept = first[known] / value[known]
    assert torch.allclose(kept, kept[:1].expand_as(kept))
    if not known[0]:
        assert first[0] == 0
    said, part = x, worth / worth.sum()
    scored = said + 0.1 * part
    if scored[known].sum() > 0:
        expected = scored / scored[known].sum() * first[known].sum()
        assert torch.allclose(first[~known], expected[~known])


@given(data=st.data(), x=numbers(0, 1))
def test_all_begin_with_their_evidence_and_without_any_with_what_graphs_are_worth(
    data: st.DataObject, x: Tensor
) -> None:
    worth = data.draw(numbers(0.125, 1, size=len(x)))
    nobody, value = torch.zeros(len(x), dtype=torch.bool), torch.full_like(x, 1 / len(x))
    assume(x.sum() > 1e-6)
    assert torch.allclose(begun(value, x, nobody, worth), x / x.sum())
    assert torch.allclose(begun(value, 0 * x, nobody, worth), worth / worth.sum())
    assert torch.equal(begun(value, 0 * x, nobody, 0 * worth), value)  # nothing to go by


@given(data=st.data(), x=numbers(0, 1), new=newcomers)
def test_names_gain_nothing_where_values_begin(data: st.DataObject, x: Tensor, new: Tensor) -> None:
    """A newcomer as two names with half of its evidence and worth each begins with the same sum."""
    value, worth = (data.draw(numbers(0.125, 1, size=len(x))) for _ in range(2))
    known = ~new[: len(x)]
    known[0], known[-1] = True, False
    one = begun(value, x, known, worth)
    share = value[-1:] / 2
    two = begun(
        torch.cat([value[:-1], share, share]),
        torch.cat([x[:-1], x[-1:] / 2, x[-1:] / 2]),
        torch.cat([known, known[-1:]]),
        torch.cat([worth[:-1], worth[-1:] / 2, worth[-1:] / 2]),
    )
    assert torch.allclose(two[-2:].sum(), one[-1])
