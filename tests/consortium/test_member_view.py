"""What tells a member whether federating is worth it: no more than its counts, for every task."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from motifair.consortium.member_view import Worth, judge
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.task import Task


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_gain_is_one_only_beyond_the_sign_test(better: int, worse: int) -> None:
    worth = Worth(100, 0.5, 0.5, 0.5, better, worse)
    both = better + worse
    expected = min(1.0, 2 * float(binom.cdf(min(better, worse), both, 0.5)))
    assert abs(worth.p - expected) < 1e-9
    said = str(worth)
    assert ("beyond chance" in said) == (expected < 0.05)
    assert ("a gain" in said) == (expected < 0.05 and better > worse)
    assert ("a loss" in said) == (expected < 0.05 and better < worse)


def dots(target: object) -> GraphSet:
    return GraphSet.build("dots", [1, 1, 1], [], target)


def test_a_graph_is_better_predicted_if_more_of_its_answers_are_right() -> None:
    tasks = dots([[1, 0], [np.nan, 1], [np.nan, np.nan]])
    said = pd.DataFrame({"graph": range(3), "probability a": [0.9, 0.9, 0.1], "probability b": 0.6})
    reached, each = judge(Task("binary", 2, ("a", "b"), metric="accuracy"), tasks, said)
    np.testing.assert_array_equal(each, [0.5, 1.0, np.nan])
    assert reached == 0.75  # task a: 1 of 1, task b: 1 of 2
    classes = pd.DataFrame(
        {"graph": range(3), "label": 7, "probability 5": 0.1, "probability 7": 0.9}
    )
    reached, each = judge(Task("classes", 2), dots([0, 1, 1]), classes)
    assert (reached, each.tolist()) == (2 / 3, [0, 1, 1])


def test_a_number_is_better_predicted_if_it_is_nearer() -> None:
    task = Task("regression", 1, ("y",), (10.0,), (2.0,), metric="rmse")
    said = pd.DataFrame({"graph": range(3), "y": [10.0, 14.0, 12.0]})
    reached, each = judge(task, dots([[10.5], [10.5], [np.nan]]), said)
    np.testing.assert_allclose(each, [-(0.25**2), -(1.75**2), np.nan])
    assert reached == pytest.approx(-np.sqrt((0.5**2 + 3.5**2) / 2))
    worth = Worth(2, -3.0, -2.0, -1.0, 2, 0, "rmse")
    assert "RMSE on your 2 test graphs, which no model was trained on: alone 3.000" in str(worth)
