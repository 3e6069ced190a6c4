"""Targets that are a matrix of numbers: binary tasks and values to regress, with missing labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motifair.errors import MotifairError
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.read import read_graphs
from motifair.graphs.targets import strata
from motifair.graphs.task import TargetSums, resolve_task, target_scale
from motifair.graphs.tu import load_tu, write_tu

NAN = np.nan


def singles(target: Any, name: str = "mine", **more: Any) -> GraphSet:
    """Graphs of one node each with these targets."""
    return GraphSet.build(name, [1] * len(target), [], target, **more)


TASKS = [[0.0, NAN], [1.0, 0.0], [NAN, 1.0], [NAN, NAN]]


def test_a_set_keeps_its_matrix_when_graphs_are_selected_rewired_and_joined() -> None:
    graphs = singles(TASKS, target_names=["a", "b"])
    assert graphs.target_names == ("a", "b")
    np.testing.assert_array_equal(graphs.select([2, 0]).values, [TASKS[2], TASKS[0]])
    np.testing.assert_array_equal(graphs.with_edges([], None).values, TASKS)
    twice = GraphSet.concatenate("twice", [graphs, graphs.select([1])])
    np.testing.assert_array_equal(twice.values, [*TASKS, TASKS[1]])
    assert twice.target_names == ("a", "b")
    assert graphs.digest() != singles([[1.0, NAN], *TASKS[1:]]).digest()


def test_classes_and_numbers_of_one_target_are_joined_as_numbers() -> None:
    classes, numbers = singles([0, 1], class_values=[3, 5]), singles([0.5, NAN])
    joined = GraphSet.concatenate("both", [classes, numbers])
    np.testing.assert_array_equal(joined.values, [[3], [5], [0.5], [NAN]])


@pytest.mark.parametrize(
    ("second", "has"),
    [
        (lambda: singles([0, 1], "second"), "second has classes"),
        (lambda: singles(TASKS, "second", target_names=["b", "a"]), "second has the targets b, a"),
        (lambda: singles([0.5, 1.5], "second"), "second has the targets y"),
    ],
)
def test_sets_with_other_targets_are_not_joined(second: Callable[[], GraphSet], has: str) -> None:
    first = singles(TASKS, "first", target_names=["a", "b"])
    with pytest.raises(MotifairError, match=f"{has}, but first the targets a, b; give all agents"):
        GraphSet.concatenate("both", [first, second()])


def test_one_column_of_0_and_1_is_classes_unless_a_label_is_missing() -> None:
    assert singles([[0.0], [1.0]]).values is None
    assert singles([[0.0], [NAN]]).values is not None


@pytest.mark.parametrize(
    ("target", "names", "sentence"),
    [
        ([[0.5, np.inf]], (), "Graph 0 of mine has an infinite y1; give a number, or NaN"),
        ([[0.5, 1.0]], ("a",), r"have the shape \(1, 2\) and 1 different names"),
        ([[0.5, 1.0]], ("a", "a"), "a name for each column"),
        ([[0.5, 1.0]] * 2, ("a", "b"), "1 graphs but 2 graph labels"),
    ],
)
def test_matrices_that_cannot_be_are_refused(target: Any, names: Any, sentence: str) -> None:
    with pytest.raises(MotifairError, match=sentence):
        GraphSet.build("mine", [1], [], target, target_names=names)


@pytest.mark.parametrize(
    ("target", "asked", "kind"),
    [
        ([0, 1, 2], "auto", "classes"),
        ([0, 1, 1], "binary", "binary"),
        ([0, 1, 2], "regression", "regression"),
        (TASKS, "auto", "binary"),
        ([[0.5, 1.0], [1.5, NAN], [2.0, 2.0]], "auto", "regression"),
        ([[0.0, 1.0], [1.0, 2.0]], "regression", "regression"),
        ([[2.0], [1.0], [2.0]], "classes", "classes"),
    ],
)
def test_the_kind_of_a_task_follows_from_its_targets(target: Any, asked: str, kind: str) -> None:
    graphs, found = resolve_task(singles(target), asked)
    assert found == kind
    assert (graphs.values is None) == (kind == "classes")


@pytest.mark.parametrize(
    ("target", "asked", "sentence"),
    [
        ([[0.0, 0.5], [1.0, 1.5]], "auto", "targets of two kinds: 'y0' is 0 or 1, 'y1' a number"),
        ([[0.0, 0.0], [1.0, 0.0]], "auto", "Target 'y1' of mine has the value 0 wherever"),
        ([[0.0, NAN], [1.0, NAN]], "auto", "Target 'y1' of mine has no label, so there is nothing"),
        ([0.5, 0.5], "auto", "Target 'y' of mine has the value 0.5 wherever"),
        ([0, 1, 2], "binary", "Target 'y' of mine has numbers other than 0 and 1; use task=regr"),
        ([0.5, 1.0], "classes", "task=classes needs one whole number for each graph"),
        ([[1, 0], [0, 1]], "classes", "task=classes needs one whole number for each graph"),
    ],
)
def test_targets_that_are_not_a_task_are_refused(target: Any, asked: str, sentence: str) -> None:
    with pytest.raises(MotifairError, match=sentence):
        resolve_task(singles(target), asked)


def test_strata_of_tasks_are_positive_labels_and_of_numbers_quarters() -> None:
    assert strata(np.array(TASKS))[0].tolist() == [0, 1, 1, 0]
    assert strata(np.array([[30.0], [10.0], [NAN], [20.0]]))[0].tolist() == [3, 1, 0, 2]
    both = np.array([[1.0, 100.0], [2.0, 200.0], [3.0, 300.0], [4.0, 400.0]])
    assert strata(both)[0].tolist() == [0, 1, 2, 3]


def test_targets_are_written_to_tu_files_and_read_again(tmp_path: Path) -> None:
    graphs = GraphSet.build("own", [2, 1, 1, 1], [[0, 1]], TASKS)
    write_tu(graphs, tmp_path / "own")
    assert not (tmp_path / "own" / "own_graph_labels.txt").exists()
    for again in (load_tu(str(tmp_path / "own")), read_graphs(tmp_path / "own")):
        np.testing.assert_array_equal(again.values, TASKS)
        assert again.ignored == ()


numbers = st.floats(-1e3, 1e3) | st.just(NAN)


@given(st.lists(st.lists(st.tuples(numbers, numbers), min_size=1), min_size=1))
def test_members_sums_give_the_scale_of_their_pooled_labels(members: Any) -> None:
    matrices = [np.array(rows, dtype=float) for rows in members]
    mean, scale = target_scale([TargetSums.of(m) for m in matrices])
    for t, column in enumerate(np.concatenate(matrices).T):
        known = column[~np.isnan(column)]
        if len(known):
            np.testing.assert_allclose(mean[t], known.mean(), atol=1e-9)
            deviation = known.std()
            if deviation > 1e-6:
                np.testing.assert_allclose(scale[t], deviation, rtol=1e-6)
