"""Node inputs of the model: one-hot labels, one-hot degrees, or attributes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from motifair.errors import MotifairError
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.kernels import return_probabilities


@dataclass(frozen=True)
class Features:
    """An encoding of nodes that all agents share.

    Attributes:
        kind: `label`, `degree` or `attributes`.
        width: Number of inputs of a node.
        columns: The label of each column, those of the whole dataset; for labels only.
        mean: Mean of each attribute over the training graphs; for attributes only.
        scale: Its standard deviation, or 1 where that is 0.

    Degrees have the columns 0 to the largest degree in training graphs; larger ones share the last.
    """

    kind: str
    width: int
    columns: Ints | None = None
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None

    def encode(self, graphs: GraphSet) -> sparse.csr_array:
        """Return the inputs of all nodes, sparse `(nodes, width)`."""
        nodes = len(graphs.degree)
        if self.kind == "attributes":
            assert graphs.attribute is not None
            assert self.mean is not None
            return sparse.csr_array((graphs.attribute - self.mean) / self.scale)
        if self.kind == "degree":
            column, known = np.minimum(graphs.degree, self.width - 1), np.ones(nodes, dtype=bool)
        else:
            assert graphs.node_label is not None
            assert self.columns is not None
            column = np.searchsorted(self.columns, graphs.node_label).clip(max=self.width - 1)
            known = self.columns[column] == graphs.node_label
        row = np.flatnonzero(known)
        ones = np.ones(len(row), dtype=np.float32)
        return sparse.csr_array((ones, (row, column[row])), shape=(nodes, self.width))


def fit_features(graphs: GraphSet, train: Ints, kind: str) -> Features:
    """Fit an encoding of nodes.

    Args:
        graphs: The whole dataset, whose labels have a column each.
        train: The training graphs, from which degrees, means and deviations are taken.
        kind: `label`, `degree`, `attributes`, or `auto` (see `resolve_features`).

    >>> pair = GraphSet.build("pair", [1, 1], [], [0, 1], node_label=[0, 6])
    >>> features = fit_features(pair, np.arange(2), "auto")
    >>> features.kind, features.encode(pair).toarray().tolist()
    ('label', [[1.0, 0.0], [0.0, 1.0]])
    """
    kind = resolve_features(graphs, kind)
    if kind == "label":
        columns = np.unique(graphs.node_label)  # type: ignore[arg-type]
        return Features(kind, len(columns), columns)
    nodes = np.isin(graphs.node_graph, train)
    if kind == "degree":
        return Features(kind, int(graphs.degree[nodes].max()) + 1)
    assert graphs.attribute is not None
    seen = graphs.attribute[nodes]
    scale = seen.std(axis=0)
    return Features(
        kind, seen.shape[1], mean=seen.mean(axis=0), scale=np.where(scale > 0, scale, 1.0)
    )


def resolve_features(graphs: GraphSet, kind: str) -> str:
    """Replace `auto` by what the graphs have: `label`, else `attributes`, else `degree`.

    Raises:
        MotifairError: If the graphs do not have these features, or have NaN or infinite attributes.
    """
    missing = {"label": graphs.node_label is None, "attributes": graphs.attribute is None}
    if kind == "auto":
        kind = next((k for k in missing if not missing[k]), "degree")
    if missing.get(kind, False):
        raise MotifairError(
            f"{graphs.name} has no node {kind.removesuffix('s')}s; use features=auto."
        )
    attribute = graphs.attribute if kind == "attributes" else None
    if attribute is not None and not (finite := np.isfinite(attribute).all(axis=1)).all():
        raise MotifairError(
            f"The attributes of node {finite.argmin()} of {graphs.name} are not all finite; "
            "replace NaN and infinities, or use features=label or features=degree."
        )
    return kind


def as_read(graphs: GraphSet, kind: str) -> GraphSet:
    """Return graphs without labels and attributes that a model of features `kind` does not read.

    Some agents may have them and others not, but what is said of their graphs must be comparable.

    >>> pair = GraphSet.build("pair", [1, 1], [], [0, 1], node_label=[0, 6])
    >>> as_read(pair, "label").node_label.tolist(), as_read(pair, "degree").node_label
    ([0, 6], None)
    """
    return replace(
        graphs,
        node_label=graphs.node_label if kind == "label" else None,
        attribute=graphs.attribute if kind == "attributes" else None,
    )


def motif_labels(graphs: GraphSet, kind: str) -> Ints:
    """Return the node labels used in motifs: the graphs' own, or degrees."""
    if graphs.node_label is None or kind == "degree":
        return graphs.degree
    return graphs.node_label


WALKS = 16
DEGREES = 16


def structure_inputs(graphs: GraphSet) -> np.ndarray:
    """Return the structural inputs of FedStar, `(nodes, WALKS + DEGREES)`.

    First the probability that a random walk is back at its node after 1..WALKS steps,
    diag((A·Deg⁻¹)^k), which is 0 for an isolated node; then the one-hot degree, clipped to
    1..DEGREES.
    """
    nodes = len(graphs.degree)
    inputs = np.zeros((nodes, WALKS + DEGREES))
    inputs[np.arange(nodes), WALKS + graphs.degree.clip(1, DEGREES) - 1] = 1.0
    inputs[:, :WALKS] = return_probabilities(
        graphs.edge_start, graphs.neighbour, graphs.degree, WALKS
    )
    return inputs
