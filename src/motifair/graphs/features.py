"""Node inputs of the model: one-hot labels, standardised attributes, both, or one-hot degrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from motifair.errors import MotifairError
from motifair.graphs.convert import one_hot
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.kernels import return_probabilities

LABEL, ATTRIBUTES, DEGREE = "label", "attributes", "degree"
BOTH = f"{LABEL}+{ATTRIBUTES}"
KINDS = (LABEL, ATTRIBUTES, BOTH, DEGREE)


def reads_labels(kind: str) -> bool:
    """Whether a model of features `kind` reads node labels."""
    return LABEL in kind.split("+")


def reads_attributes(kind: str) -> bool:
    """Whether a model of features `kind` reads node attributes."""
    return ATTRIBUTES in kind.split("+")


@dataclass(frozen=True)
class AttributeSums:
    """What a member says of its attributes, so that all of them can be standardised alike.

    Attributes:
        count: Number of nodes.
        mean: Mean of each attribute over them, `(width,)`.
        squares: Sum of the squared differences from that mean, `(width,)`.
    """

    count: int
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, attribute: np.ndarray) -> AttributeSums:
        """Return the sums of the attributes `(nodes, width)` of at least one node."""
        mean = attribute.mean(axis=0)
        return cls(len(attribute), mean, ((attribute - mean) ** 2).sum(axis=0))

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        mean, squares = self.mean.tolist(), self.squares.tolist()
        return {"count": self.count, "mean": mean, "squares": squares}

    @classmethod
    def from_json(cls, content: Any) -> AttributeSums:
        """Build from a dictionary made by `to_json`; raise ValueError for anything else."""
        try:
            count = int(content["count"])
            mean, squares = (np.array(content[name], float) for name in ("mean", "squares"))
        except (KeyError, TypeError) as error:
            raise ValueError("not count, mean and squares") from error
        if count < 1 or mean.ndim != 1 or mean.shape != squares.shape:
            raise ValueError("not as many numbers as attributes")
        if not np.isfinite([mean, squares]).all() or (squares < 0).any():
            raise ValueError("numbers that cannot be")
        return cls(count, mean, squares)


def standardisation(members: Sequence[AttributeSums]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each attribute over the nodes of all members.

    The deviation of an attribute that does not vary, but for rounding, is returned as 1.

    >>> mean, scale = standardisation([AttributeSums.of(np.array([[1.0], [3.0]]))])
    >>> mean.tolist(), scale.tolist()
    ([2.0], [1.0])
    """
    count = np.array([m.count for m in members])[:, None]
    means, squares = (np.stack([getattr(m, n) for m in members]) for n in ("mean", "squares"))
    mean = (count * means).sum(axis=0) / count.sum()
    total = (squares + count * (means - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(total / count.sum())
    return mean, np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0)


@dataclass(frozen=True)
class Features:
    """An encoding of nodes that all agents share.

    Attributes:
        kind: One of `KINDS`.
        width: Number of inputs of a node: labels come first, then attributes.
        columns: The label of each column, those of the whole dataset; for labels only.
        mean: Mean of each attribute over the training graphs; for attributes only.
        scale: Its standard deviation, or 1 where that is 0.
        edge_columns: The edge labels of the whole dataset; None if the model does not read them.

    Degrees have the columns 0 to the largest degree in training graphs; larger ones share the last.
    """

    kind: str
    width: int
    columns: Ints | None = None
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None
    edge_columns: Ints | None = None

    @property
    def edges(self) -> int:
        """Number of edge labels that the model reads."""
        return 0 if self.edge_columns is None else len(self.edge_columns)

    def encode(self, graphs: GraphSet) -> sparse.csr_array:
        """Return the inputs of all nodes, sparse `(nodes, width)`."""
        if self.kind == DEGREE:
            column = np.minimum(graphs.degree, self.width - 1)
            return _one_hot(column, np.ones(len(column), dtype=bool), self.width)
        parts = []
        if self.columns is not None:
            assert graphs.node_label is not None
            labels = len(self.columns)
            column = np.searchsorted(self.columns, graphs.node_label).clip(max=labels - 1)
            parts.append(_one_hot(column, self.columns[column] == graphs.node_label, labels))
        if self.mean is not None:
            assert graphs.attribute is not None
            parts.append(sparse.csr_array((graphs.attribute - self.mean) / self.scale))
        return parts[0] if len(parts) == 1 else sparse.csr_array(sparse.hstack(parts, "csr"))


def _one_hot(column: Ints, known: np.ndarray, width: int) -> sparse.csr_array:
    """Return rows with a 1 in their column, or without one where it is not known."""
    row = np.flatnonzero(known)
    ones = np.ones(len(row), dtype=np.float32)
    return sparse.csr_array((ones, (row, column[row])), shape=(len(column), width))


def fit_features(
    graphs: GraphSet, train: Ints | Sequence[Ints], kind: str, edges: str = "ignore"
) -> Features:
    """Fit an encoding of nodes and edges.

    Args:
        graphs: The whole dataset, whose labels have a column each.
        train: The training graphs, or those of each agent. From them degrees are taken, and the
            sums by which attributes are standardised, agent by agent.
        kind: One of `KINDS`, or `auto` or `first` (see `resolve_features`).
        edges: `label`, `ignore` or `auto` (see `resolve_edges`).

    >>> pair = GraphSet.build("pair", [1, 1], [], [0, 1], node_label=[0, 6])
    >>> features = fit_features(pair, np.arange(2), "auto")
    >>> features.kind, features.encode(pair).toarray().tolist()
    ('label', [[1.0, 0.0], [0.0, 1.0]])
    """
    kind = resolve_features(graphs, kind)
    agents = [train] if isinstance(train, np.ndarray) else train
    edge_columns = None
    if resolve_edges(graphs, edges) == LABEL:
        edge_columns = np.unique(graphs.edge_label)  # type: ignore[arg-type]
    if kind == DEGREE:
        nodes = np.isin(graphs.node_graph, np.concatenate(agents))
        width = int(graphs.degree[nodes].max()) + 1
        return Features(kind, width, edge_columns=edge_columns)
    columns = np.unique(graphs.node_label) if reads_labels(kind) else None  # type: ignore[arg-type]
    mean = scale = None
    if reads_attributes(kind):
        assert graphs.attribute is not None
        of_agents = (graphs.attribute[np.isin(graphs.node_graph, own)] for own in agents)
        mean, scale = standardisation([AttributeSums.of(a) for a in of_agents if len(a)])
    width = sum(len(part) for part in (columns, mean) if part is not None)
    return Features(kind, width, columns, mean, scale, edge_columns)


def resolve_features(graphs: GraphSet, kind: str) -> str:
    """Replace `auto` and `first` by what the graphs have.

    `auto` is labels and attributes, `first` labels, else attributes; without both, degrees.

    Raises:
        MotifairError: If the graphs do not have these features, or have NaN or infinite attributes.
    """
    has = {LABEL: graphs.node_label is not None, ATTRIBUTES: graphs.attribute is not None}
    if kind == "auto" and all(has.values()) and not repeats_labels(graphs):
        kind = BOTH
    if kind in ("auto", "first"):
        kind = next((k for k, there in has.items() if there), DEGREE)
    for part in kind.split("+"):
        if not has.get(part, True):
            raise MotifairError(
                f"{graphs.name} has no node {part.removesuffix('s')}s; use features=auto."
            )
    attribute = graphs.attribute if reads_attributes(kind) else None
    if attribute is not None and not (finite := np.isfinite(attribute).all(axis=1)).all():
        raise MotifairError(
            f"The attributes of node {finite.argmin()} of {graphs.name} are not all finite; "
            "replace NaN and infinities, or use features=label or features=degree."
        )
    return kind


def resolve_edges(graphs: GraphSet, edges: str) -> str:
    """Replace `auto` by `label` if the graphs have edge labels, else by `ignore`.

    Raises:
        MotifairError: If labels are asked for and the graphs have none.
    """
    there = graphs.edge_label is not None and len(graphs.edge_label) > 0
    if edges == LABEL and not there:
        raise MotifairError(f"{graphs.name} has no edge labels; use edges=auto.")
    return LABEL if edges != "ignore" and there else "ignore"


def repeats_labels(graphs: GraphSet) -> bool:
    """Whether the attributes are the one-hot labels, as in PyG."""
    hot, label = one_hot(graphs.attribute), graphs.node_label
    return hot is not None and label is not None and np.array_equal(hot, label)


def as_read(graphs: GraphSet, kind: str) -> GraphSet:
    """Return graphs without labels and attributes that a model of features `kind` does not read.

    Some agents may have them and others not, but what is said of their graphs must be comparable.

    >>> pair = GraphSet.build("pair", [1, 1], [], [0, 1], node_label=[0, 6])
    >>> as_read(pair, "label").node_label.tolist(), as_read(pair, "degree").node_label
    ([0, 6], None)
    """
    return replace(
        graphs,
        node_label=graphs.node_label if reads_labels(kind) else None,
        attribute=graphs.attribute if reads_attributes(kind) else None,
    )


def motif_labels(graphs: GraphSet, kind: str) -> Ints:
    """Return the node labels used in motifs: the graphs' own, or degrees."""
    if graphs.node_label is None or kind == DEGREE:
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
