"""What a node looks like to the model: one-hot label, one-hot degree, or attributes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from motifair.errors import MotifairError
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.kernels import returns


@dataclass(frozen=True)
class Features:
    """An encoding that all agents agree on: `kind`, and the values that have a column.

    For labels the columns are the labels of the whole dataset (its schema); for degrees they are
    0 to the largest degree in training graphs, and larger ones count as that. Attributes are
    scaled by mean and standard deviation over the training graphs.
    """

    kind: str
    width: int
    columns: Ints | None = None
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None

    def encode(self, graphs: GraphSet) -> sparse.csr_array:
        """Return the sparse `(nodes, width)` input; it is never made dense."""
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
    """Choose columns for what `resolve_features` makes of `kind`."""
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
    """Turn `auto` into what the graphs have: labels, else attributes, else degrees.

    What they do not have is refused, and so are attributes that are not finite.
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


def motif_labels(graphs: GraphSet, kind: str) -> Ints:
    """Return the node label that motifs are made of: the node's own, else its degree."""
    if graphs.node_label is None or kind == "degree":
        return graphs.degree
    return graphs.node_label


WALKS = 16
DEGREES = 16


def structure_inputs(graphs: GraphSet) -> np.ndarray:
    """Return the structural inputs of FedStar, `(nodes, WALKS + DEGREES)`.

    First the chance that a random walk is back at its node after 1..WALKS steps, diag((A·Deg⁻¹)^k)
    with nothing coming from an isolated node; then the one-hot degree, cut to 1..DEGREES.
    """
    nodes = len(graphs.degree)
    found = np.zeros((nodes, WALKS + DEGREES))
    found[np.arange(nodes), WALKS + graphs.degree.clip(1, DEGREES) - 1] = 1.0
    found[:, :WALKS] = returns(graphs.edge_start, graphs.neighbour, graphs.degree, WALKS)
    return found
