"""Fairness: Pearson's correlation over agents, its bound and its interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from motifair.evaluation.fairness import correlation_interval, fairness, fairness_bound

accuracies = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=3, max_size=12
).map(lambda pairs: np.array(pairs).T / 100)


def varied(pair: np.ndarray) -> bool:
    return bool((pair.std(axis=1) > 1e-3).all())


@given(accuracies)
def test_fairness_is_pearsons_correlation(pair: np.ndarray) -> None:
    assume(varied(pair))
    assert math.isclose(fairness(*pair), stats.pearsonr(*pair).statistic, abs_tol=1e-9)


@given(accuracies, st.floats(0.01, 100), st.floats(-10, 10))
def test_fairness_does_not_depend_on_unit_or_origin(
    pair: np.ndarray, scale: float, shift: float
) -> None:
    assume(varied(pair))
    alone, federated = pair
    expected = fairness(alone, federated)
    assert math.isclose(fairness(scale * alone + shift, federated), expected, abs_tol=1e-6)
    assert math.isclose(fairness(alone, scale * federated + shift), expected, abs_tol=1e-6)
    assert math.isclose(fairness(alone, -scale * federated), -expected, abs_tol=1e-6)


@given(accuracies, st.data())
def test_fairness_does_not_depend_on_the_order_of_agents(
    pair: np.ndarray, data: st.DataObject
) -> None:
    assume(varied(pair))
    order = data.draw(st.permutations(range(pair.shape[1])))
    assert math.isclose(fairness(*pair[:, order]), fairness(*pair), abs_tol=1e-9)


@given(accuracies)
def test_a_straight_line_is_perfectly_fair_or_unfair(pair: np.ndarray) -> None:
    assume(varied(pair))
    alone = pair[0]
    assert math.isclose(fairness(alone, 0.3 * alone + 0.2), 1, abs_tol=1e-9)
    assert math.isclose(fairness(alone, 0.9 - 0.3 * alone), -1, abs_tol=1e-9)
    assert -1 <= fairness(alone, -alone) <= fairness(alone, alone) <= 1


@pytest.mark.parametrize("agents", [1, 2, 10])
def test_fairness_is_undefined_where_either_side_does_not_vary(agents: int) -> None:
    varying, constant = np.linspace(0.5, 0.9, agents), np.full(agents, 0.7)
    assert math.isnan(fairness(varying, constant))
    assert math.isnan(fairness(constant, varying))
    # 0.1 + 0.2 is not 0.3: rounding must not look like variance.
    assert math.isnan(fairness(constant + np.arange(agents) * 1e-17, varying + 0.1 + 0.2 - 0.3))


def test_fairness_is_undefined_where_an_accuracy_is() -> None:
    assert math.isnan(fairness([0.5, math.nan, 0.7], [0.5, 0.6, 0.8]))


def test_the_bound_is_the_root_of_the_reliability() -> None:
    assert math.isclose(fairness_bound(0.64), 0.8)
    assert fairness_bound(1.0) == 1
    assert fairness_bound(0.0) == 0
    assert fairness_bound(-0.3) == 0
    assert math.isnan(fairness_bound(math.nan))


def test_the_interval_is_the_published_one_for_a_known_case() -> None:
    """r = .5 over 28 agents: z = .5493 ± 1.96/5."""
    low, high = correlation_interval(0.5, 28)
    assert math.isclose(low, math.tanh(0.549306 - 0.391993), abs_tol=1e-5)
    assert math.isclose(high, math.tanh(0.549306 + 0.391993), abs_tol=1e-5)


@given(st.floats(-0.99, 0.99), st.integers(4, 200))
def test_the_interval_holds_the_correlation_and_nothing_impossible(r: float, n: int) -> None:
    low, high = correlation_interval(r, n)
    assert -1 <= low < r < high <= 1
    assert np.allclose(correlation_interval(-r, n), (-high, -low), rtol=0, atol=1e-12)


@given(st.floats(-0.9, 0.9), st.integers(4, 100))
def test_more_agents_or_less_confidence_narrow_the_interval(r: float, n: int) -> None:
    low, high = correlation_interval(r, n)
    for inner in (correlation_interval(r, n + 5), correlation_interval(r, n, level=0.8)):
        assert low < inner[0] < inner[1] < high


@pytest.mark.parametrize("r", [1.0, -1.0])
def test_a_perfect_correlation_has_a_finite_interval(r: float) -> None:
    low, high = correlation_interval(r, 10)
    assert -1 <= low < high <= 1
    assert min(abs(low), abs(high)) > 0.99


@pytest.mark.parametrize(("r", "n"), [(0.5, 3), (0.5, 1), (0.5, 0), (math.nan, 10)])
def test_too_few_agents_or_no_correlation_have_no_interval(r: float, n: int) -> None:
    assert all(math.isnan(end) for end in correlation_interval(r, n))
