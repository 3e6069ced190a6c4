"""Which data of the graphs a run uses, and which it ignores."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from motifair.errors import MotifairError
from motifair.graphs.convert import one_hot
from motifair.graphs.dataset import Dataset, Source
from motifair.graphs.features import resolve_features
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.read import format_values


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


def describe_inputs(data: Dataset, features: str, *, motifs: bool) -> Inputs:
    """Describe which data of the graphs is used with these `features`, with or without `motifs`.

    >>> pair = GraphSet.build("pair", [2, 1], [[0, 1]], [0, 1], node_label=[0, 6, 0])
    >>> print(describe_inputs(Dataset(pair), "degree", motifs=True))
    Using node degrees, 2 classes (0, 1); ignoring: node labels (2; features=label uses them).
    """
    graphs, features = data.graphs, resolve_features(data.graphs, features)
    uses, ignores = ["node degrees"] if features == "degree" else [], []
    if graphs.node_label is not None:
        count = len(np.unique(graphs.node_label))
        if features == "label":
            uses.append(f"node labels ({count})")
        elif features == "attributes" and motifs:
            uses.append(f"node labels ({count}, in motifs only)")
        else:
            ignores.append(f"node labels ({count}; features=label uses them)")
    if graphs.attribute is not None:
        width = graphs.attribute.shape[1]
        if features == "attributes":
            uses.append(f"node attributes ({width})")
        elif not _repeats_labels(graphs):
            ignores.append(f"node attributes ({width}; features=attributes uses them)")
    if graphs.edge_label is not None and len(graphs.edge_label):
        count = len(np.unique(graphs.edge_label))
        (uses if motifs else ignores).append(
            f"edge labels ({count}{', in motifs only' if motifs else ''})"
        )
    return Inputs((*uses, _classes(data)), (*ignores, *graphs.ignored))


def _repeats_labels(graphs: GraphSet) -> bool:
    """Whether the attributes are the one-hot labels, as in PyG."""
    hot, label = one_hot(graphs.attribute), graphs.node_label
    return hot is not None and label is not None and np.array_equal(hot, label)


def _classes(data: Dataset) -> str:
    if len(data.schemas) < 2:
        return f"{data.graphs.classes} classes ({format_values(data.graphs.class_values)})"
    values: dict[str, set[int]] = {}
    for source in data.sources:
        values.setdefault(source.schema, set()).update(source.class_values)
    each = "; ".join(f"{schema} {format_values(sorted(values[schema]))}" for schema in data.schemas)
    return f"{data.graphs.classes} classes by position ({each})"


def choose_features(data: Dataset, kind: str) -> str:
    """Replace `auto` by features that the nodes of all agents have.

    Raises:
        MotifairError: If only some agents have the requested features, or agents differ in their
            number of attributes.
    """
    labels = {source.node_labels for source in data.sources}
    widths = {source.attributes for source in data.sources}
    needs_attributes = kind == "attributes" or (kind == "auto" and labels == {False})
    if (kind in ("auto", "label") and len(labels) > 1) or (needs_attributes and len(widths) > 1):
        groups: dict[str, list[str]] = {}
        for agent, source in zip(data.owners, data.sources, strict=True):
            groups.setdefault(_words(source), []).append(agent)
        raise MotifairError(
            "Agents differ in what their nodes have ("
            + "; ".join(f"{', '.join(agents)}: {words}" for words, agents in groups.items())
            + "); give all agents the same, or use features=degree."
        )
    return resolve_features(data.graphs, kind)


def _words(source: Source) -> str:
    words = ["labels"] if source.node_labels else []
    words += [f"{source.attributes} attributes"] if source.attributes else []
    return " and ".join(words) or "neither labels nor attributes"
