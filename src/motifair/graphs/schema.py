"""The format that graphs must have to be used together, and the checks of graphs against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motifair.errors import MotifairError
from motifair.graphs.features import (
    KINDS,
    LABEL,
    AttributeSums,
    Features,
    fit_features,
    reads_attributes,
    reads_labels,
    standardisation,
)
from motifair.graphs.graph_set import NO_CLASS, GraphSet, Ints, whole_numbers
from motifair.graphs.targets import default_names, is_binary
from motifair.graphs.task import BINARY, CLASSES, TargetSums, Task, fit_task, resolve_task


@dataclass(frozen=True)
class Schema:
    """The format that graphs must have to be used together, or with a trained model.

    Attributes:
        features: Node inputs, one of `features.KINDS`.
        columns: The label of each input column, ascending; for labels only.
        classes: The classes as they are called in files, ascending.
        width: Number of inputs of a node: columns of labels, then attributes.
        mean: Mean of each attribute, by which it is standardised; for attributes only.
        scale: Standard deviation of each attribute.
        edges: The edge labels that a model reads, ascending; none if it reads none.
        task: What is predicted, if not classes.
    """

    features: str
    columns: tuple[int, ...]
    classes: tuple[int, ...]
    width: int
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    edges: tuple[int, ...] = ()
    task: Task | None = None

    def __post_init__(self) -> None:
        if self.features not in KINDS:
            raise MotifairError(f"features of a schema must be {' or '.join(KINDS)}; choose one.")
        for what, values in (
            ("columns", self.columns),
            ("classes", self.classes),
            ("edges", self.edges),
        ):
            if list(values) != sorted(set(values)):
                raise MotifairError(f"{what} of a schema must be ascending and unique; sort them.")
        labels = len(self.columns) if reads_labels(self.features) else 0
        if self.width < 1 or (self.features == LABEL and self.width != labels):
            raise MotifairError("width of a schema must be its number of inputs; fix it.")
        attributes = self.width - labels if reads_attributes(self.features) else 0
        if not len(self.mean) == len(self.scale) == attributes:
            raise MotifairError(
                f"mean and scale of a schema must have a number for each of its {attributes} "
                "attributes; make it again with: motifair federation init."
            )
        if not np.isfinite([*self.mean, *self.scale]).all() or min(self.scale, default=1.0) <= 0:
            raise MotifairError(
                "mean and scale of a schema must be finite, and scale more than 0; fix them."
            )

    @property
    def predicted(self) -> Task:
        """What is predicted."""
        return Task(CLASSES, len(self.classes)) if self.task is None else self.task

    @classmethod
    def of(
        cls, graphs: GraphSet, features: str, edges: str = "ignore", task: str = "auto"
    ) -> Schema:
        """Return the schema of graphs from `read_graphs`.

        `features`, `edges` and `task` may be `auto`. Attributes are standardised and numbers scaled
        by these graphs; `standardised_by` and `scaled_by` change that.

        >>> pair = GraphSet.build("pair", [1, 1], [], [-1, 1], node_label=[0, 6])
        >>> Schema.of(pair, "auto").columns
        (0, 6)
        """
        fitted = fit_features(graphs, np.arange(len(graphs)), features, edges)
        columns, mean, scale, edge_columns = (
            () if part is None else tuple(part.tolist())
            for part in (fitted.columns, fitted.mean, fitted.scale, fitted.edge_columns)
        )
        classes, predicted = class_values_of(graphs.target), None
        if graphs.values is not None or task not in ("auto", CLASSES):
            numbers, kind = resolve_task(with_numbers(graphs), task)
            classes = ()
            if kind == CLASSES:
                raise MotifairError(f"{graphs.name} has numbers as targets; use task=auto.")
            predicted = fit_task(numbers, [np.arange(len(graphs))], kind)
        return cls(
            fitted.kind, columns, classes, fitted.width, mean, scale, edge_columns, predicted
        )

    def standardised_by(self, members: Sequence[AttributeSums]) -> Schema:
        """Return the schema with mean and scale of the attributes of all members.

        Raises:
            MotifairError: If the schema has no attributes, or a member has another number of them.
        """
        for number, member in enumerate(members):
            if len(member.mean) != len(self.mean):
                raise MotifairError(
                    f"Sums number {number + 1} are of {len(member.mean)} attributes, but the "
                    f"schema has {len(self.mean)}; give sums of the same attributes."
                )
        mean, scale = standardisation(members)
        return replace(self, mean=tuple(mean.tolist()), scale=tuple(scale.tolist()))

    def scaled_by(self, members: Sequence[TargetSums]) -> Schema:
        """Return the schema with mean and scale, or rates, of the targets of all members."""
        return replace(self, task=self.predicted.scaled_by(members))

    def encoding(self) -> Features:
        """Return the encoding of nodes that the schema describes."""
        columns = np.array(self.columns, np.int64) if reads_labels(self.features) else None
        mean = scale = None
        if reads_attributes(self.features):
            mean, scale = np.array(self.mean), np.array(self.scale)
        edges = np.array(self.edges, np.int64) if self.edges else None
        return Features(self.features, self.width, columns, mean, scale, edges)

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary for JSON; mean, scale and edges only where there are any."""
        more = {name: list(getattr(self, name)) for name in ("mean", "scale", "edges")}
        return {
            "features": self.features,
            "columns": list(self.columns),
            "classes": list(self.classes),
            "width": self.width,
            **{name: values for name, values in more.items() if values},
            **({} if self.task is None else {"task": self.task.to_json()}),
        }

    @classmethod
    def from_json(cls, content: Any) -> Schema:
        """Build from a dictionary made by `to_json`."""
        try:
            columns, classes, edges, (width,) = (
                tuple(whole_numbers(values).tolist())
                for values in (
                    content["columns"],
                    content["classes"],
                    content.get("edges", []),
                    [content["width"]],
                )
            )
            mean, scale = (tuple(map(float, content.get(n, ()))) for n in ("mean", "scale"))
            task = Task.from_json(content["task"]) if content.get("task") else None
            return cls(str(content["features"]), columns, classes, width, mean, scale, edges, task)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise MotifairError(
                "A schema needs features, and columns, classes and width in whole numbers, and "
                "where it has them edges in whole numbers, mean and scale in numbers, and a task "
                "with kind and names; fix it."
            ) from error


def check_inputs(graphs: GraphSet, schema: Schema) -> None:
    """Raise, naming the first such graph, if labels or attributes of nodes violate the schema."""
    if reads_labels(schema.features):
        _check_labels(graphs, schema)
    if reads_attributes(schema.features):
        _check_attributes(graphs, schema)
    if schema.edges:
        _check_edge_labels(graphs, schema)


def check_schema(graphs: GraphSet, schema: Schema) -> None:
    """Raise, naming the first such graph, if graphs of `read_graphs` violate the schema."""
    check_inputs(graphs, schema)
    if schema.task is not None:
        _check_targets(with_numbers(graphs), schema.task)
        return
    if graphs.values is not None:
        raise MotifairError(
            f"{graphs.name} has numbers as targets, but the classes are "
            f"{format_values(schema.classes)}; give each graph one of them."
        )
    other = np.flatnonzero(~np.isin(graphs.target, schema.classes))
    if len(other):
        target = int(graphs.target[other[0]])
        has = "no class" if target == NO_CLASS else f"class {target}"
        raise MotifairError(
            f"Graph {other[0]} of {graphs.name} has {has}, but the classes are "
            f"{format_values(schema.classes)}; give it one of them, or remove it."
        )


def conform(graphs: GraphSet, schema: Schema) -> GraphSet:
    """Check graphs of `read_graphs` against a schema, and number their classes as it does.

    Targets that are not classes stay as they are.

    >>> one = GraphSet.build("one", [1], [], [7], node_label=[0])
    >>> conform(one, Schema("label", (0,), (5, 7), 1)).target.tolist()
    [1]
    """
    check_schema(graphs, schema)
    if schema.task is not None:
        return replace(with_numbers(graphs), target_names=schema.task.names)
    target = np.searchsorted(np.array(schema.classes), graphs.target)
    return replace(graphs, target=target, class_values=schema.classes)


def _check_targets(graphs: GraphSet, task: Task) -> None:
    """Raise if targets are not those of a task: as many, of the same names, and answers 0 or 1."""
    assert graphs.values is not None
    count, names = graphs.values.shape[1], graphs.target_names
    named = names != default_names(count)
    if count != task.outputs or (named and names != task.names):
        has, agreed = format_values(names) if named else count, format_values(task.names)
        raise MotifairError(
            f"{graphs.name} has other targets ({has}) than were agreed ({agreed}); give every "
            "graph these in this order, NaN where it has no label."
        )
    if task.kind == BINARY and not is_binary(graphs.values):
        other = ~(np.isnan(graphs.values) | np.isin(graphs.values, (0.0, 1.0)))
        g, t = np.argwhere(other)[0]
        raise MotifairError(
            f"Graph {g} of {graphs.name} answers {task.names[t]} by {graphs.values[g, t]:g}; give "
            "0 or 1, or NaN where it has no label."
        )


def with_numbers(graphs: GraphSet) -> GraphSet:
    """Return graphs of `read_graphs` with their classes as numbers, NaN for those without."""
    if graphs.values is not None:
        return graphs
    target = graphs.target.astype(np.float64)
    return graphs.with_values(np.where(graphs.target == NO_CLASS, np.nan, target)[:, None])


def _check_labels(graphs: GraphSet, schema: Schema) -> None:
    known = f"the labels are {format_values(schema.columns)}"
    if graphs.node_label is None:
        # One-hot PyG inputs are labels: name the first graph whose inputs are not one-hot.
        x = np.zeros((len(graphs.degree), 1)) if graphs.attribute is None else graphs.attribute
        hot = ((x == 0) | (x == 1)).all(axis=1) & (x.sum(axis=1) == 1)
        g = graphs.node_graph[hot.argmin()]
        raise MotifairError(
            f"Graph {g} of {graphs.name} has no node labels, but {known}; "
            "give every node its label (in PyG as a one-hot x)."
        )
    unknown = np.flatnonzero(~np.isin(graphs.node_label, schema.columns))
    if len(unknown):
        v = unknown[0]
        raise MotifairError(
            f"Graph {graphs.node_graph[v]} of {graphs.name} has a node with label "
            f"{graphs.node_label[v]}, but {known}; relabel the node, or remove the graph."
        )


def _check_edge_labels(graphs: GraphSet, schema: Schema) -> None:
    known = f"the edge labels are {format_values(schema.edges)}"
    if graphs.edge_label is None:
        raise MotifairError(
            f"{graphs.name} has no edge labels, but {known}; give every edge its label (in PyG as "
            "a one-hot edge_attr)."
        )
    unknown = np.flatnonzero(~np.isin(graphs.edge_label, schema.edges))
    if len(unknown):
        node = np.searchsorted(graphs.edge_start, unknown[0], side="right") - 1
        raise MotifairError(
            f"Graph {graphs.node_graph[node]} of {graphs.name} has an edge with label "
            f"{graphs.edge_label[unknown[0]]}, but {known}; relabel the edge, or remove the graph."
        )


def _check_attributes(graphs: GraphSet, schema: Schema) -> None:
    width = 0 if graphs.attribute is None else graphs.attribute.shape[1]
    wanted = len(schema.mean)
    if graphs.attribute is None or width != wanted:
        raise MotifairError(
            f"Graph 0 of {graphs.name} has {width or 'no'} attributes at each node, but there "
            f"must be {wanted}; give every node {wanted} numbers."
        )
    finite = np.isfinite(graphs.attribute).all(axis=1)
    if not finite.all():
        raise MotifairError(
            f"Graph {graphs.node_graph[finite.argmin()]} of {graphs.name} has attributes that are "
            "not all finite; replace NaN and infinities."
        )


def format_values(values: Sequence[int | str]) -> str:
    """Join labels, classes or names by commas; of more than 12 the first 12 and the last.

    >>> format_values([1, 2]), format_values(range(100))
    ('1, 2', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... 99')
    """
    some = ", ".join(map(str, values[:12]))
    return f"{some}, ... {values[-1]}" if len(values) > 12 else some


def class_values_of(target: Ints) -> tuple[int, ...]:
    """Return the classes that occur, ascending."""
    return tuple(np.unique(target[target != NO_CLASS]).tolist())
