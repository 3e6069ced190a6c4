"""Which data of the graphs a run uses, and which it ignores."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from motifair.errors import MotifairError
from motifair.graphs.dataset import Dataset, Source
from motifair.graphs.features import (
    ATTRIBUTES,
    BOTH,
    DEGREE,
    LABEL,
    reads_attributes,
    reads_labels,
    repeats_labels,
    resolve_edges,
    resolve_features,
)
from motifair.graphs.schema import format_values
from motifair.graphs.task import BINARY, CLASSES, REGRESSION, resolve_task

FEW = 10  # different whole numbers that may have been meant as classes


@dataclass(frozen=True)
class Inputs:
    """The data of the graphs that is used and that is ignored, in words."""

    uses: tuple[str, ...]
    ignores: tuple[str, ...]

    def __str__(self) -> str:
        ignoring = f"; ignoring: {', '.join(self.ignores)}" if self.ignores else ""
        return f"Using {', '.join(self.uses)}{ignoring}."

    def to_json(self) -> dict[str, Any]:
        """Return the words as lists."""
        return {key: list(words) for key, words in asdict(self).items()}


def describe_inputs(
    data: Dataset,
    features: str,
    *,
    edges: bool = False,
    motifs: bool,
    task: str = "auto",
    model: str = "",
) -> Inputs:
    """Describe which data of the graphs is used with these `features`.

    `edges` is whether the model reads edge labels, `motifs` whether motifs are used, `task` what is
    predicted (`resolve_task`), `model` describes the user's own module, if there is one.

    >>> from motifair.graphs.graph_set import GraphSet
    >>> pair = GraphSet.build("pair", [2, 1], [[0, 1]], [0, 1], node_label=[0, 6, 0])
    >>> print(describe_inputs(Dataset(pair), "degree", motifs=True))
    Using node degrees, 2 classes (0, 1); ignoring: node labels (2; features=label uses them).
    """
    if data.parts:
        own = [describe_inputs(p, features, motifs=motifs, task=task) for p in data.parts]
        said = [(part.name, inputs) for part, inputs in zip(data.parts, own, strict=True)]
        module = (f"the model {model}",) if model else ()
        return Inputs(
            (*(f"{name}: {', '.join(inputs.uses)}" for name, inputs in said), *module),
            tuple(f"{name}: {words}" for name, inputs in said for words in inputs.ignores),
        )
    graphs, features = data.graphs, resolve_features(data.graphs, features)
    uses, ignores = ["node degrees"] if features == DEGREE else [], []
    if graphs.node_label is not None:
        count = len(np.unique(graphs.node_label))
        if reads_labels(features):
            uses.append(f"node labels ({count})")
        elif features == ATTRIBUTES and motifs:
            uses.append(f"node labels ({count}, in motifs only)")
        else:
            ignores.append(f"node labels ({count}; features=label uses them)")
    if graphs.attribute is not None:
        width = graphs.attribute.shape[1]
        if reads_attributes(features):
            uses.append(f"node attributes ({width}, standardised)")
        elif not repeats_labels(graphs):
            uses_them = BOTH if reads_labels(features) else ATTRIBUTES
            ignores.append(f"node attributes ({width}; features={uses_them} uses them)")
    if graphs.edge_label is not None and len(graphs.edge_label):
        count = len(np.unique(graphs.edge_label))
        if edges:
            uses.append(f"edge labels ({count}, by {'the model' if model else 'GINE'})")
        elif motifs:
            uses.append(f"edge labels ({count}, in motifs only)")
        else:
            ignores.append(f"edge labels ({count})")
    module = (f"the model {model}",) if model else ()
    return Inputs((*uses, _targets(data, task), *module), (*ignores, *graphs.ignored))


def _targets(data: Dataset, task: str) -> str:
    """Describe the targets: classes, binary tasks or numbers, and how many labels are missing."""
    graphs, kind = resolve_task(data.graphs, task)
    if kind == CLASSES:
        return _classes(replace(data, graphs=graphs))
    assert graphs.values is not None
    count, names = graphs.values.shape[1], format_values(graphs.target_names)
    words = "binary task" if kind == BINARY else "target"
    missing = np.isnan(graphs.values).mean()
    holes = f"; {missing:.0%} of labels missing" if missing else ""
    if kind == REGRESSION and count == 1 and not missing:
        found = np.unique(graphs.values)
        if len(found) <= FEW and (found == np.floor(found)).all():
            holes = f"; numbers: if its {len(found)} values are classes, use task=classes"
    return f"{count} {words}{'s' if count > 1 else ''} ({names}{holes})"


def _classes(data: Dataset) -> str:
    if len(data.schemas) < 2:
        return f"{data.graphs.classes} classes ({format_values(data.graphs.class_values)})"
    values: dict[str, set[int]] = {}
    for source in data.sources:
        values.setdefault(source.schema, set()).update(source.class_values)
    each = "; ".join(f"{schema} {format_values(sorted(values[schema]))}" for schema in data.schemas)
    return f"{data.graphs.classes} classes by position ({each})"


def choose_features(data: Dataset, kind: str) -> str:
    """Replace `auto` and `first` by features that the nodes of all agents have.

    Of published datasets, whose attributes have nothing in common, `auto` takes the labels if
    their numbers of attributes differ. Where datasets have inputs of their own, each chooses.

    Raises:
        MotifairError: If only some agents have the requested features, or agents differ in their
            number of attributes.
    """
    if data.parts:
        for part in data.parts:
            choose_features(part, kind)
        return kind
    labels = {source.node_labels for source in data.sources}
    beyond = {0 if source.repeats_labels else source.attributes for source in data.sources}
    if kind == "auto" and labels == {True} and len(beyond) > 1 and len(data.schemas) > 1:
        kind = LABEL
    if kind == "auto":
        differ = len(labels) > 1 or len(beyond) > 1
    elif kind == "first":
        differ = len(labels) > 1 or (labels == {False} and len(beyond) > 1)
    else:
        widths = {source.attributes for source in data.sources}
        differ = (reads_labels(kind) and len(labels) > 1) or (
            reads_attributes(kind) and len(widths) > 1
        )
    if differ:
        choices = "features=label or features=degree" if labels == {True} else "features=degree"
        groups: dict[str, list[str]] = {}
        for agent, source in zip(data.owners, data.sources, strict=True):
            groups.setdefault(_words(source), []).append(agent)
        raise MotifairError(
            "Agents differ in what their nodes have ("
            + "; ".join(f"{', '.join(agents)}: {words}" for words, agents in groups.items())
            + f"); give all agents the same, or use {choices}, or spaces=own."
        )
    return resolve_features(data.graphs, kind)


def choose_edges(data: Dataset, edges: str) -> str:
    """Replace `auto` by `label` or `ignore`.

    Raises:
        MotifairError: If labels are asked for that not all agents have, or that have nothing in
            common.
    """
    schemas = tuple(part.name for part in data.parts) or data.schemas
    if len(schemas) < 2:
        return resolve_edges(data.graphs, edges)
    if edges == LABEL:
        raise MotifairError(
            f"The edge labels of {' and '.join(schemas)} do not mean the same, and convolutions "
            "that read them cannot be shared; use edges=ignore or auto."
        )
    return "ignore"


def _words(source: Source) -> str:
    words = ["labels"] if source.node_labels else []
    words += [f"{source.attributes} attributes"] if source.attributes else []
    return " and ".join(words) or "neither labels nor attributes"
