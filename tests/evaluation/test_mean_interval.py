"""Means over splits with Student's interval."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from motifair.evaluation.statistics import mean_interval

several = st.lists(st.integers(0, 100).map(lambda n: n / 100), min_size=2, max_size=30)


@given(several, st.sampled_from([0.8, 0.95, 0.99]))
def test_the_interval_is_that_of_a_one_sample_t_test(values: list[float], level: float) -> None:
    mean, low, high = mean_interval(values, level)
    assert math.isclose(mean, sum(values) / len(values), abs_tol=1e-12)
    if np.std(values) > 0:
        expected = stats.ttest_1samp(values, 0.0).confidence_interval(level)
        assert np.allclose((low, high), (expected.low, expected.high), rtol=0, atol=1e-9)


@given(several, st.integers(1, 4), st.data())
def test_undefined_values_do_not_count(
    values: list[float], missing: int, data: st.DataObject
) -> None:
    mixed = data.draw(st.permutations(values + [math.nan] * missing))
    assert np.allclose(mean_interval(mixed), mean_interval(values), rtol=0, atol=1e-12)


def test_a_single_value_has_a_mean_but_no_interval() -> None:
    for values in ([0.25], [math.nan, 0.25]):
        mean, low, high = mean_interval(values)
        assert mean == 0.25
        assert math.isnan(low)
        assert math.isnan(high)


def test_no_value_has_neither() -> None:
    for values in ([], [math.nan], [math.nan, math.nan]):
        assert all(math.isnan(x) for x in mean_interval(values))


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert mean_interval([0.5, 0.5, 0.5]) == (0.5, 0.5, 0.5)
