"""Metrics against scikit-learn, and scores of agents against computing them one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from motifair.errors import MotifairError
from motifair.evaluation.metrics import METRICS, check_defined, choose_metric, score
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.task import Task

sklearn = pytest.importorskip("sklearn.metrics")

ORACLES: dict[str, Any] = {
    "accuracy": lambda y, p: sklearn.accuracy_score(y, p > 0.5),
    "balanced-accuracy": lambda y, p: sklearn.balanced_accuracy_score(y, p > 0.5),
    "f1": lambda y, p: sklearn.f1_score(y, p > 0.5),
    "roc-auc": sklearn.roc_auc_score,
    "pr-auc": sklearn.average_precision_score,
}
answers = st.lists(
    st.tuples(st.booleans(), st.integers(0, 10)), min_size=2, max_size=40
)  # few distinct probabilities: ties matter


@pytest.mark.parametrize("name", ORACLES)
@given(answers)
def test_metrics_of_a_binary_task_are_those_of_scikit_learn(name: str, pairs: Any) -> None:
    y, p = np.array([a for a, _ in pairs]), np.array([b / 10 for _, b in pairs])
    assume(0 < y.sum() < len(y))
    assert METRICS[name].column(y, p) == pytest.approx(ORACLES[name](y, p), abs=1e-12)


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1))
def test_errors_are_those_of_scikit_learn(pairs: Any) -> None:
    y, p = np.array(pairs).T
    oracle = sklearn.root_mean_squared_error(y, p)
    assert METRICS["rmse"].column(y, p) == pytest.approx(oracle, abs=1e-12)
    assert METRICS["mae"].column(y, p) == pytest.approx(sklearn.mean_absolute_error(y, p))


@pytest.mark.parametrize("metric", ["balanced-accuracy", "f1", "roc-auc", "pr-auc"])
def test_several_classes_are_each_judged_against_the_others(metric: str) -> None:
    rng = np.random.default_rng(0)
    y, p = rng.integers(3, size=50), rng.dirichlet(np.ones(3), size=50)
    found = score(Task("classes", 3, metric=metric), y, p)
    if metric in ("roc-auc", "pr-auc"):
        expected = [ORACLES[metric](y == c, p[:, c]) for c in range(3)]
    elif metric == "f1":
        expected = sklearn.f1_score(y, p.argmax(1), average="macro")
    else:
        expected = sklearn.balanced_accuracy_score(y, p.argmax(1))
    assert found == pytest.approx(np.mean(expected))


def test_a_score_is_the_mean_over_tasks_for_which_the_metric_is_defined() -> None:
    nan = np.nan
    y = np.array([[1, 0, nan], [0, 0, nan], [1, nan, nan], [nan, 0, nan]])
    p = np.array([[0.9, 0.1, 0.5], [0.2, 0.2, 0.5], [0.1, 0.3, 0.5], [0.7, 0.1, 0.5]])
    assert (
        score(Task("binary", 3, ("a", "b", "c"), metric="roc-auc"), y, p) == 0.5
    )  # of the first task
    assert score(Task("binary", 3, ("a", "b", "c"), metric="accuracy"), y, p) == pytest.approx(
        (2 / 3 + 1) / 2
    )
    assert np.isnan(score(Task("binary", 3, ("a", "b", "c"), metric="roc-auc"), y[:, 1:], p[:, 1:]))
    p[0, 0] = nan
    assert np.isnan(score(Task("binary", 3, ("a", "b", "c"), metric="accuracy"), y, p))


def test_errors_are_negative_scores_in_units_of_the_target() -> None:
    y, p = np.array([[1.0], [np.nan], [0.0]]), np.array([[2.0], [5.0], [1.0]])
    one = Task("regression", 1, ("y",), (100.0,), (7.0,), metric="rmse")
    assert score(one, y, p) == -7.0
    two = Task("regression", 2, ("a", "b"), (0.0, 0.0), (7.0, 0.1), metric="mae")
    assert score(two, np.hstack([y, y]), np.hstack([p, p])) == -1.0


def test_a_metric_of_another_task_is_refused() -> None:
    assert choose_metric("binary", "pr-auc") == "pr-auc"
    with pytest.raises(MotifairError, match="metric=rmse is not for task=binary; use accuracy or"):
        choose_metric("binary", "rmse")
    with pytest.raises(MotifairError, match="metric=f1 is not for task=regression; use rmse or"):
        choose_metric("regression", "f1")


def test_an_agent_whose_test_graphs_cannot_be_judged_is_named() -> None:
    graphs = GraphSet.build("g", [1, 1], [], [[1.0, np.nan], [1.0, np.nan]])
    check_defined(Task("binary", 2, ("a", "b"), metric="accuracy"), "lab", graphs)
    with pytest.raises(MotifairError, match="Agent 'lab' tests on 2 graphs, for which ROC-AUC is"):
        check_defined(Task("binary", 2, ("a", "b"), metric="roc-auc"), "lab", graphs)
