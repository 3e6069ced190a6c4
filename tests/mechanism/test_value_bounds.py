"""Values stay bounded whatever the evidence: |r_i| <= 2 + 3/A."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from value_strategies import numbers

from motifair.mechanism.aggregation import aggregate, value_weights
from motifair.mechanism.alignment import alignment_with_others
from motifair.mechanism.allocation import reward_ratio, sparsify
from motifair.mechanism.value import EVIDENCE, judged, update_value

RULES = pytest.mark.parametrize("rule", ["additive", "ema"])


def equal_values(agents: int) -> Tensor:
    return torch.full((agents,), 1 / agents, dtype=torch.float64)


def assert_bounded(value: Tensor) -> None:
    assert abs(value.sum() - 1) < 1e-9
    assert value.abs().max() <= 2 + 3 / len(value) + 1e-9


@RULES
@given(data=st.data(), agents=st.integers(2, 6), rate=st.floats(0.01, 1))
def test_any_evidence_in_any_order_keeps_values_bounded(
    rule: str, data: st.DataObject, agents: int, rate: float
) -> None:
    value = equal_values(agents)
    for x in data.draw(st.lists(numbers(-1, 1, size=agents), min_size=1, max_size=12)):
        value = update_value(value, x, rate=rate, rule=rule)
        assert_bounded(value)


@RULES
@pytest.mark.parametrize("agents", [2, 3, 10])
def test_evidence_against_one_agent_alone_leads_to_its_known_limit(rule: str, agents: int) -> None:
    x = torch.zeros(agents, dtype=torch.float64)
    x[0] = -1
    value = equal_values(agents)
    for _ in range(2000):
        value = update_value(value, x, rate=0.05, rule=rule)
    assert_bounded(value)
    assert torch.isclose(value[0], torch.tensor(-2 + 3 / agents, dtype=torch.float64))


@RULES
@pytest.mark.parametrize("diversity_weight", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("said", EVIDENCE)
def test_a_quadratic_federation_stays_bounded_at_its_stationary_point(
    said: str, rule: str, diversity_weight: float
) -> None:
    """Agents minimise |w - c_i|²; where they balance, everyone pulls against all the others."""
    agents, size, step = 6, 20, 0.1
    generator = torch.Generator().manual_seed(1)
    centre = torch.randn(agents, size, generator=generator, dtype=torch.float64)
    shares = torch.rand(agents, generator=generator, dtype=torch.float64)
    weights = torch.full((agents, size), 2.0, dtype=torch.float64)  # at first all go the same way
    value = equal_values(agents)
    opposed = told = 0
    for _ in range(500):
        updates = -step * 2 * (weights - centre)
        a = value_weights(value)
        phi = alignment_with_others(updates, a)
        opposed += bool(phi.sum() < -1)
        x = EVIDENCE[said](phi, shares, diversity_weight)
        told += bool((x != 0).any())
        value = update_value(value, x, rate=0.05, rule=rule)
        assert_bounded(value)
        ratio = reward_ratio(value, float("inf"))
        reward, kept = sparsify(aggregate(updates, a), ratio, [size])
        weights = weights + torch.where((kept > 0)[:, None], reward, updates)
    assert opposed > 50
    # The plain sum takes agents that pull against each other for evidence, the other does not.
    assert (told == 500) == (said == "sum")
    assert told > 0


@RULES
def test_a_thousand_agents_with_random_evidence_stay_bounded(rule: str) -> None:
    generator = torch.Generator().manual_seed(2)
    value = equal_values(1000)
    for _ in range(200):
        x = torch.rand(1000, generator=generator, dtype=torch.float64) * 2 - 1
        value = update_value(value, x, rate=0.05, rule=rule)
        assert_bounded(value)


@RULES
def test_a_thousand_agents_whose_evidence_nearly_cancels_the_divisor_stay_bounded(
    rule: str,
) -> None:
    """1 + α1·Σx = 0.001 for the additive rule, 0.95 + α1·Σx = 0.001 for the moving average."""
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(1000, generator=generator, dtype=torch.float64) * 0.1
    total = (0.001 - (1 if rule == "additive" else 0.95)) / 0.05
    x = noise - noise.mean() + total / 1000
    value = equal_values(1000)
    for _ in range(100):
        value = update_value(value, x, rate=0.05, rule=rule)
        assert_bounded(value)


@RULES
@given(
    data=st.data(),
    agents=st.integers(2, 6),
    rate=st.floats(0.01, 1),
    weight=st.sampled_from([0.0, 0.3, 10.0]),
)
def test_judged_evidence_in_any_order_keeps_values_bounded(
    rule: str, data: st.DataObject, agents: int, rate: float, weight: float
) -> None:
    value = equal_values(agents)
    shares = data.draw(numbers(0, 1, size=agents))
    for phi in data.draw(st.lists(numbers(-1, 1, size=agents), min_size=1, max_size=12)):
        value = update_value(value, judged(phi, shares, weight), rate=rate, rule=rule)
        assert_bounded(value)
