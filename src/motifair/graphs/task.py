"""`Task`: what a model predicts of a graph, resolved once from the targets of all graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motifair.errors import MotifairError
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.targets import Floats, is_binary

CLASSES, BINARY, REGRESSION = "classes", "binary", "regression"
KINDS = (CLASSES, BINARY, REGRESSION)


@dataclass(frozen=True)
class Task:
    """What a model predicts of a graph.

    Attributes:
        kind: `classes` (one of several), `binary` (several tasks with two answers each), or
            `regression` (one or several numbers).
        outputs: Number of classes, tasks or numbers.
        names: Names of the tasks or numbers; none for classes.
        mean: Mean of each number over the members' training graphs; for a regression only.
        scale: Its standard deviation. A model predicts numbers less their mean, over their scale.
        metric: Name of the metric by which predictions are judged.
        rates: Share of 1 among the members' answers to each binary task (`base_rates`), at which a
            built-in network begins; none for other tasks, and in terms that were agreed before.

    >>> Task("classes", 2).metric
    'accuracy'
    """

    kind: str
    outputs: int
    names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    metric: str = "accuracy"
    rates: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        scaled = self.outputs if self.kind == REGRESSION else 0
        if self.kind not in KINDS or self.outputs < 1:
            raise MotifairError(f"A task must be {' or '.join(KINDS)}, of at least one output.")
        if len(self.names) != (0 if self.kind == CLASSES else self.outputs) or not (
            len(self.mean) == len(self.scale) == scaled
        ):
            raise MotifairError(
                "A task needs a name for each target and, for a regression, its mean and scale; "
                "make it again with: motifair federation init."
            )
        if not np.isfinite([*self.mean, *self.scale]).all() or min(self.scale, default=1.0) <= 0:
            raise MotifairError(
                "mean and scale of targets must be finite, and scale more than 0; fix them."
            )
        if self.rates and (self.kind != BINARY or len(self.rates) != self.outputs):
            raise MotifairError("rates are for binary tasks, one for each; fix them.")
        if not all(0 < rate < 1 for rate in self.rates):
            raise MotifairError("rates of binary tasks must be between 0 and 1; fix them.")

    @property
    def log_odds(self) -> tuple[float, ...]:
        """What a model says of a binary task that knows nothing but `rates`.

        >>> Task("binary", 1, ("toxic",), rates=(0.5,)).log_odds
        (0.0,)
        """
        return tuple(math.log(rate / (1 - rate)) for rate in self.rates)

    @property
    def bits(self) -> float:
        """What there is to learn of an answer: the mean entropy of binary tasks at `rates`, in
        bits; 1, as of even answers, where there are none.

        >>> round(Task("binary", 2, ("toxic", "bitter"), rates=(0.05, 0.5)).bits, 2)
        0.64
        """
        if not self.rates:
            return 1.0
        p = np.array([self.rates, [1 - rate for rate in self.rates]])
        return float(-(p * np.log2(p)).sum(axis=0).mean())

    def to_json(self) -> dict[str, Any]:
        """Return kind, names and, where there are any, mean, scale and rates for JSON."""
        content = {"kind": self.kind, "names": list(self.names)}
        more = {name: list(getattr(self, name)) for name in ("mean", "scale", "rates")}
        return content | {name: values for name, values in more.items() if values}

    @classmethod
    def from_json(cls, content: Any) -> Task:
        """Build from a dictionary made by `to_json`; the metric is the usual one.

        >>> Task.from_json({"kind": "binary", "names": ["a", "b"]}).outputs
        2
        """
        names = tuple(str(name) for name in content["names"])
        parts = ("mean", "scale", "rates")
        more: Any = {n: tuple(map(float, content.get(n, ()))) for n in parts}
        return cls(str(content["kind"]), len(names), names, **more)

    def scaled_by(self, members: Sequence[TargetSums]) -> Task:
        """Return the task with mean and scale, or rates, of the targets of all members.

        Raises:
            MotifairError: If it is one of classes, or a member has another number of targets, or
                answers other than 0 and 1.
        """
        wanted = 0 if self.kind == CLASSES else self.outputs
        for number, member in enumerate(members):
            if not wanted or len(member.mean) != wanted:
                raise MotifairError(
                    f"Sums number {number + 1} are of {len(member.mean)} targets, but the schema "
                    f"has {wanted} that are scaled; give sums of the same targets."
                )
            if self.kind == BINARY and not ((member.mean >= 0) & (member.mean <= 1)).all():
                raise MotifairError(
                    f"Sums number {number + 1} are of targets other than 0 and 1; give sums of the "
                    "same targets."
                )
        return replace(self, **_scaling(self.kind, members))

    def encode(self, graphs: GraphSet) -> GraphSet:
        """Return graphs with their targets as a model predicts them."""
        if not self.scale:
            return graphs
        assert graphs.values is not None
        values = (graphs.values - np.array(self.mean)) / np.array(self.scale)
        return replace(graphs, values=values)


@dataclass(frozen=True)
class TargetSums:
    """What a member says of its targets, so that those of all can be scaled alike.

    Attributes:
        count: Number of its labels of each target, `(T,)`.
        mean: Their mean, 0 where there is none, `(T,)`.
        squares: Sum of their squared differences from that mean, `(T,)`.
    """

    count: Floats
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, values: Floats) -> TargetSums:
        """Return the sums of targets `(graphs, T)`, NaN where a label is missing.

        >>> TargetSums.of(np.array([[1.0, np.nan], [3.0, np.nan]])).mean.tolist()
        [2.0, 0.0]
        """
        known = ~np.isnan(values)
        count = known.sum(axis=0).astype(float)
        mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(count, 1)
        return cls(count, mean, (np.where(known, values - mean, 0.0) ** 2).sum(axis=0))

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return {name: getattr(self, name).tolist() for name in ("count", "mean", "squares")}

    @classmethod
    def from_json(cls, content: Any) -> TargetSums:
        """Build from a dictionary made by `to_json`; raise ValueError for anything else."""
        try:
            parts = [np.array(content[name], float) for name in ("count", "mean", "squares")]
        except (KeyError, TypeError) as error:
            raise ValueError("not count, mean and squares") from error
        count, _, squares = parts
        if any(part.ndim != 1 or part.shape != count.shape for part in parts):
            raise ValueError("not as many numbers as targets")
        if not np.isfinite(parts).all() or (count < 0).any() or (squares < 0).any():
            raise ValueError("numbers that cannot be")
        return cls(*parts)


def target_scale(members: Sequence[TargetSums]) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each target over the labels of all members.

    The deviation of a target that does not vary, but for rounding, is returned as 1.

    >>> mean, scale = target_scale([TargetSums.of(np.array([[1.0], [np.nan], [3.0]]))])
    >>> mean.tolist(), scale.tolist()
    ([2.0], [1.0])
    """
    count, means, squares = (
        np.stack([getattr(m, n) for m in members]) for n in ("count", "mean", "squares")
    )
    total = np.maximum(count.sum(axis=0), 1)
    mean = (count * means).sum(axis=0) / total
    deviation = np.sqrt((squares + count * (means - mean) ** 2).sum(axis=0) / total)
    return mean, np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0)


def base_rates(members: Sequence[TargetSums]) -> Floats:
    """Return the share of 1 among the answers of all members to each task.

    One answer of each kind is added, so that no share is 0 or 1: what nobody saw is not impossible.

    >>> base_rates([TargetSums.of(np.array([[1.0], [np.nan], [0.0], [0.0]]))]).tolist()
    [0.4]
    """
    count, mean = (np.stack([getattr(m, n) for m in members]) for n in ("count", "mean"))
    rates: Floats = ((count * mean).sum(axis=0) + 1) / (count.sum(axis=0) + 2)
    return rates


def _scaling(kind: str, members: Sequence[TargetSums]) -> dict[str, Any]:
    """Return the rates of binary tasks, or mean and scale of numbers."""
    if kind == BINARY:
        return {"rates": tuple(base_rates(members).tolist())}
    mean, scale = target_scale(members)
    return {"mean": tuple(mean.tolist()), "scale": tuple(scale.tolist())}


def fit_task(graphs: GraphSet, train: Sequence[Ints], kind: str) -> Task:
    """Return the task of graphs that `resolve_task` has seen.

    Args:
        graphs: The whole dataset.
        train: The training graphs of each agent, by whose sums numbers are scaled.
        kind: One of `KINDS`, or `auto`.
    """
    if graphs.values is None:
        return Task(CLASSES, graphs.classes)
    kind = _kind(graphs) if kind == "auto" else kind
    sums = [TargetSums.of(graphs.values[own]) for own in train]
    return Task(kind, graphs.values.shape[1], graphs.target_names, **_scaling(kind, sums))


def resolve_task(graphs: GraphSet, kind: str) -> tuple[GraphSet, str]:
    """Replace `auto` by the kind of task that the targets are, and convert them to it.

    Classes stay classes; a matrix of 0 and 1 is binary tasks, any other a regression.

    Raises:
        MotifairError: If the targets are not of this kind or of two kinds, or one does not vary.

    >>> tasks = GraphSet.build("two", [1, 1, 1], [], [[0, 1], [np.nan, 0], [1, np.nan]])
    >>> resolve_task(tasks, "auto")[1], resolve_task(tasks, "regression")[1]
    ('binary', 'regression')
    """
    if kind == "auto":
        kind = CLASSES if graphs.values is None else _kind(graphs)
    if kind == CLASSES:
        return _as_classes(graphs), kind
    if graphs.values is None:
        graphs = graphs.with_values(graphs.numbers())
    assert graphs.values is not None
    for name, column in zip(graphs.target_names, graphs.values.T, strict=True):
        if kind == BINARY and not is_binary(column):
            raise MotifairError(
                f"Target '{name}' of {graphs.name} has numbers other than 0 and 1; use "
                "task=regression, or leave it out."
            )
        if len(found := np.unique(column[~np.isnan(column)])) < 2:
            has = f"the value {found[0]:g} wherever it is known" if len(found) else "no label"
            raise MotifairError(
                f"Target '{name}' of {graphs.name} has {has}, so there is nothing to learn; leave "
                "it out."
            )
    return graphs, kind


def _kind(graphs: GraphSet) -> str:
    """Return the kind of targets that are no classes."""
    assert graphs.values is not None
    binary = [is_binary(column) for column in graphs.values.T]
    if all(binary):
        return BINARY
    if any(binary):
        two, numbers = (graphs.target_names[binary.index(which)] for which in (True, False))
        raise MotifairError(
            f"{graphs.name} has targets of two kinds: '{two}' is 0 or 1, '{numbers}' a number; "
            "leave out those of one kind, or use task=regression for all."
        )
    return REGRESSION


def _as_classes(graphs: GraphSet) -> GraphSet:
    values = graphs.values
    if values is None:
        return graphs
    if values.shape[1] > 1 or not (np.floor(values) == values).all():
        raise MotifairError(
            f"task=classes needs one whole number for each graph, but {graphs.name} has "
            f"{values.shape[1]} targets with missing labels or other numbers; use task=auto."
        )
    called, target = np.unique(values[:, 0].astype(np.int64), return_inverse=True)
    classes = tuple(called.tolist())
    return replace(graphs, target=target, class_values=classes, values=None, target_names=())
