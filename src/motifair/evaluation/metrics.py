"""Metrics of predictions, by the kind of task.

Fairness, gains and verdicts need scores of which more is better: a score is the metric, and an
error (RMSE, MAE) with its sign turned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motifair.errors import MotifairError
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.targets import Floats
from motifair.graphs.task import BINARY, CLASSES, REGRESSION, Task

Bools = NDArray[np.bool_]
THRESHOLD = 0.5  # probability from which a binary task is predicted as 1


def accuracy(positive: Bools, probability: Floats) -> float:
    """Return the share of correct answers to a binary task; NaN without a label.

    >>> accuracy(np.array([True, False]), np.array([0.9, 0.6]))
    0.5
    """
    correct = (probability > THRESHOLD) == positive
    return float(correct.mean()) if len(positive) else np.nan


def balanced_accuracy(positive: Bools, probability: Floats) -> float:
    """Return the mean of the shares of correct answers among 1 and among 0; NaN without both.

    >>> balanced_accuracy(np.array([True, False, False]), np.array([0.9, 0.6, 0.1]))
    0.75
    """
    if positive.all() or not positive.any():
        return np.nan
    correct = (probability > THRESHOLD) == positive
    return float((correct[positive].mean() + correct[~positive].mean()) / 2)


def f1(positive: Bools, probability: Floats) -> float:
    """Return the harmonic mean of precision and recall; NaN without a 1.

    >>> f1(np.array([True, False]), np.array([0.9, 0.6])) == 2 / 3
    True
    """
    if not positive.any():
        return np.nan
    predicted = probability > THRESHOLD
    return float(2 * (predicted & positive).sum() / (predicted.sum() + positive.sum()))


def roc_auc(positive: Bools, probability: Floats) -> float:
    """Return the probability that a 1 has a larger output than a 0, a tie as ½; NaN without both.

    >>> roc_auc(np.array([True, False, False]), np.array([0.5, 0.5, 0.1]))
    0.75
    """
    ones, zeros = positive.sum(), (~positive).sum()
    if not ones or not zeros:
        return np.nan
    from scipy.stats import rankdata  # it takes long to import

    total = rankdata(probability)[positive].sum()
    return float((total - ones * (ones + 1) / 2) / (ones * zeros))


def pr_auc(positive: Bools, probability: Floats) -> float:
    """Return the average precision: Σ (recall_k − recall_{k−1})·precision_k over thresholds.

    NaN without a 1 and a 0.

    >>> round(pr_auc(np.array([True, False, True]), np.array([0.9, 0.6, 0.1])), 3)
    0.833
    """
    if positive.all() or not positive.any():
        return np.nan
    order = np.argsort(-probability, kind="stable")
    found = np.cumsum(positive[order])
    last = np.append(np.flatnonzero(np.diff(probability[order])), len(order) - 1)
    gained = np.diff(found[last], prepend=0) / found[-1]
    return float((gained * found[last] / (last + 1)).sum())


def rmse(target: Floats, predicted: Floats) -> float:
    """Return the root of the mean squared error; NaN without a label.

    >>> rmse(np.array([0.0, 0.0]), np.array([1.0, -1.0]))
    1.0
    """
    return float(np.sqrt(((predicted - target) ** 2).mean())) if len(target) else np.nan


def mae(target: Floats, predicted: Floats) -> float:
    """Return the mean absolute error; NaN without a label.

    >>> mae(np.array([0.0, 0.0]), np.array([1.0, -2.0]))
    1.5
    """
    return float(np.abs(predicted - target).mean()) if len(target) else np.nan


@dataclass(frozen=True)
class Metric:
    """A metric: how it is printed, of what kinds of tasks it is, and how one column is judged.

    The `sign` of an error is −1: its score, of which more is better, is the error times that.
    """

    words: str
    kinds: tuple[str, ...]
    column: Callable[[np.ndarray, np.ndarray], float]
    sign: int = 1

    @property
    def is_error(self) -> bool:
        """Whether less is better."""
        return self.sign < 0

    @property
    def title(self) -> str:
        """The words as the beginning of a sentence."""
        return self.words[0].upper() + self.words[1:]

    def interval(self, score: float, low: float, high: float) -> tuple[float, float, float]:
        """Return the metric and its interval for a score and its interval."""
        return (-score, -high, -low) if self.is_error else (score, low, high)


_ANSWERS = (CLASSES, BINARY)
METRICS = {
    "accuracy": Metric("accuracy", _ANSWERS, accuracy),
    "balanced-accuracy": Metric("balanced accuracy", _ANSWERS, balanced_accuracy),
    "f1": Metric("F1", _ANSWERS, f1),
    "roc-auc": Metric("ROC-AUC", _ANSWERS, roc_auc),
    "pr-auc": Metric("PR-AUC", _ANSWERS, pr_auc),
    "rmse": Metric("RMSE", (REGRESSION,), rmse, -1),
    "mae": Metric("MAE", (REGRESSION,), mae, -1),
}
USUAL = {CLASSES: "accuracy", BINARY: "roc-auc", REGRESSION: "rmse"}


def find_metric(name: str) -> Metric:
    """Return a metric by its name in a configuration; `auto`, not yet resolved, is the accuracy.

    >>> find_metric("rmse").words, find_metric("auto").words
    ('RMSE', 'accuracy')
    """
    return METRICS.get(name, METRICS["accuracy"])


def choose_metric(kind: str, metric: str) -> str:
    """Replace `auto` by the usual metric of a kind of task; refuse one of another kind.

    >>> choose_metric("regression", "auto")
    'rmse'
    """
    if metric == "auto":
        return USUAL[kind]
    if kind not in METRICS[metric].kinds:
        fitting = [name for name, m in METRICS.items() if kind in m.kinds]
        raise MotifairError(f"metric={metric} is not for task={kind}; use {' or '.join(fitting)}.")
    return metric


def score(task: Task, target: np.ndarray, predicted: Floats) -> float:
    """Return the score of one agent's predictions: more is better.

    The metric is the mean over tasks or numbers for which it is defined. Several numbers are
    judged in units of their deviation, a single one in its own.

    Args:
        task: What is predicted, and by which metric it is judged.
        target: Class of each graph `(G,)`, or targets as the model predicts them `(G, T)`.
        predicted: Probabilities or numbers, `(G, outputs)`.

    Returns:
        The score; NaN if it is defined for no task, or a prediction is NaN.
    """
    if np.isnan(predicted).any():
        return np.nan
    metric = METRICS[task.metric]
    judged = (_of_classes if task.kind == CLASSES else _of_columns)(task, target, predicted)
    defined = [value for value in judged if value == value]
    unit = task.scale[0] if len(task.scale) == 1 else 1.0
    return metric.sign * unit * float(np.mean(defined)) if defined else np.nan


def _of_columns(task: Task, target: np.ndarray, predicted: Floats) -> Iterator[float]:
    """Yield the metric of each task or number, over its known labels."""
    for y, p in zip(target.T, predicted.T, strict=True):
        known = ~np.isnan(y)
        answers = y[known] == 1 if task.kind == BINARY else y[known]
        yield METRICS[task.metric].column(answers, p[known])


def _of_classes(task: Task, target: np.ndarray, predicted: Floats) -> Iterator[float]:
    """Yield the accuracy; or the share that is correct of each class, for the balanced one; or the
    metric of each class against the others, of two classes that of the second.
    """
    best = predicted.argmax(axis=1)
    present = np.unique(target)
    if task.metric == "accuracy":
        yield float((best == target).mean()) if len(target) else np.nan
    elif task.metric == "balanced-accuracy":
        for c in present if len(present) > 1 else ():
            yield float((best[target == c] == c).mean())
    else:
        for c in range(task.outputs) if task.outputs > 2 else (1,):
            p = (best == c).astype(float) if task.metric == "f1" else predicted[:, c]
            yield METRICS[task.metric].column(target == c, p)


def check_defined(task: Task, name: str, graphs: GraphSet) -> None:
    """Refuse test graphs of an agent for which the task's metric is not defined.

    Raises:
        MotifairError: If it is not, whatever is predicted.
    """
    if task.kind == CLASSES and task.metric == "accuracy":
        return
    target = graphs.target if graphs.values is None else graphs.values
    if np.isnan(score(task, target, np.full((len(target), task.outputs), THRESHOLD))):
        others = [n for n in ("accuracy", "mae") if task.kind in METRICS[n].kinds]
        raise MotifairError(
            f"Agent '{name}' tests on {len(target)} graphs, for which {METRICS[task.metric].words} "
            "is not defined (too few labels, or all alike); raise test_fraction, give it more "
            f"labels, or use metric={others[0]}."
        )
