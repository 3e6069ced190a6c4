"""Turn graphs into the tensors that a model reads, for one agent or a stack of agents.

The first layer of a graph convolution reads, at each node, only the sum of the inputs over the node
and its neighbours. With one-hot inputs few such sums are distinct (about a hundred for an agent
with four thousand nodes of PROTEINS), so the first layer is computed on the distinct sums and the
result is copied to the nodes. This is exact. Without dropout the same holds for every later layer
(`DistinctNodes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from motifair.bag_sum import Bags, BagSum
from motifair.graphs.features import Features
from motifair.graphs.graph_set import GraphSet, Ints, ranges
from motifair.graphs.matrices import distinct_rows, selection, stacked
from motifair.graphs.messages import (
    FirstLayer,
    Messages,
    Neighbourhoods,
    between_kinds,
    between_nodes,
    first_layer,
)
from motifair.graphs.targets import default_names


@dataclass(frozen=True)
class Shard:
    """The encoded graphs of one agent, ready to be collated.

    Attributes:
        graphs: The graphs.
        kinds: The distinct node inputs, `(kinds, width + 1)`; the last column is the number of
            summed nodes, the input of the bias.
        kind: The row of `kinds` that each node has, `(nodes,)`.
        motifs: The 0/1 matrix of which graph contains which motif of the agent's vocabulary,
            `(graphs, motifs)`.
        structure: Structural inputs of each node, `(nodes, S)`, for models that read them.
        edge_columns: The edge labels of all agents, for models that read them.
        outputs: The first so many classes or targets are the agent's; None if all of them are.
    """

    graphs: GraphSet
    kinds: sparse.csr_array
    kind: Ints
    motifs: sparse.csr_array
    structure: np.ndarray
    edge_columns: Ints | None = None
    outputs: int | None = None

    def __len__(self) -> int:
        return len(self.graphs)

    def select(self, graphs: Ints) -> Shard:
        """Return the given graphs, in the given order."""
        nodes = ranges(self.graphs.node_start[graphs], self.graphs.nodes[graphs])
        used, kind = np.unique(self.kind[nodes], return_inverse=True)
        motifs = self.motifs[graphs].tocsr()
        return Shard(
            self.graphs.select(graphs),
            self.kinds[used],
            kind,
            motifs,
            self.structure[nodes],
            self.edge_columns,
            self.outputs,
        )

    def widened(self, width: int, outputs: int) -> Shard:
        """Return the same graphs for a model with more inputs and outputs, which nothing reads.

        Inputs are added between the agent's own and that of the bias, outputs after its own.
        """
        graphs, own = self.graphs, self.kinds.shape[1] - 1
        added = sparse.csr_array((self.kinds.shape[0], width - own), dtype=self.kinds.dtype)
        columns = [self.kinds[:, :own], added, self.kinds[:, own:]]
        count = graphs.classes if graphs.values is None else graphs.values.shape[1]
        if graphs.values is None:
            graphs = replace(graphs, class_values=tuple(range(outputs)))
        else:
            missing = np.full((len(graphs), outputs - count), np.nan)
            values = np.concatenate([graphs.values, missing], axis=1)
            graphs = replace(graphs, values=values, target_names=default_names(outputs))
        kinds = sparse.csr_array(sparse.hstack(columns, format="csr"))
        return replace(self, graphs=graphs, kinds=kinds, outputs=count)


def make_shard(
    graphs: GraphSet,
    features: Features,
    motifs: sparse.csr_array | None = None,
    *,
    summed: bool = True,
    structure: np.ndarray | None = None,
) -> Shard:
    """Encode the graphs of one agent.

    Args:
        graphs: The graphs.
        features: The encoding of node inputs, the same for all agents.
        motifs: Which graph contains which motif, `(graphs, motifs)`; test sets need none.
        summed: Whether inputs are summed over a node and its neighbours, as the first layer of GIN
            reads them; otherwise each node has its own inputs.
        structure: Structural inputs of each node, `(nodes, S)`.

    >>> from motifair.graphs.features import fit_features
    >>> path = GraphSet.build("path", [3], [[0, 1], [1, 2]], [0], node_label=[4, 5, 4])
    >>> shard = make_shard(path, fit_features(path, np.arange(1), "label"))
    >>> shard.kinds.toarray().tolist(), shard.kind.tolist()
    ([[1.0, 1.0, 2.0], [2.0, 1.0, 3.0]], [0, 1, 0])
    """
    nodes = len(graphs.degree)
    inputs = sparse.hstack([features.encode(graphs), np.ones((nodes, 1))], format="csr")
    rows = (
        sparse.csr_array(closed_neighbourhoods(graphs) @ inputs)
        if summed
        else sparse.csr_array(inputs)
    )
    rows.sort_indices()
    kinds, kind = distinct_rows(rows)
    if motifs is None:
        motifs = sparse.csr_array((len(graphs), 0))
    structure = np.zeros((nodes, 0)) if structure is None else structure
    return Shard(graphs, kinds, kind, motifs, structure, features.edge_columns)


def closed_neighbourhoods(graphs: GraphSet) -> sparse.csr_array:
    """Return the adjacency matrix plus the identity, `(nodes, nodes)`."""
    nodes = len(graphs.degree)
    ones = np.ones(len(graphs.neighbour), dtype=np.float32)
    adjacency = sparse.csr_array((ones, graphs.neighbour, graphs.edge_start), shape=(nodes, nodes))
    return sparse.csr_array(adjacency + sparse.eye_array(nodes, dtype=np.float32, format="csr"))


@dataclass(frozen=True)
class DistinctNodes:
    """The nodes with distinct embeddings in each layer, for passes without dropout.

    Nodes with the same input whose neighbours have the same inputs have the same output. So layer k
    is computed on its Q_k distinct nodes only: `levels[k]` sums distinct rows of the previous layer
    over neighbourhoods (R·Q_k → R·Q_{k+1}), and `pool` those of the last layer over graphs. Where
    edges have labels, `messages[k]` does, from the first layer on, and there are no `levels`.
    """

    levels: tuple[Bags, ...]
    pool: Bags
    messages: tuple[Messages, ...] = ()


MOST_DISTINCT = 0.9  # share of distinct nodes up to which `DistinctNodes` is faster than all nodes


@dataclass(frozen=True)
class Batch:
    """The graphs of R agents, each agent padded to the largest: N nodes, G graphs, Q kinds.

    The maps (`BagSum`) act on the rows of flattened stacks.

    Attributes:
        rows: R.
        nodes: N.
        degree: Degree of each node, `(R, N, 1)`.
        structure: Structural inputs of each node, `(R, N, S)`.
        inputs: Sums the rows of the first layer's weights, R·(width+1) → R·Q.
        spread: Copies the output of each kind to its nodes, R·Q → R·N.
        closed: Sums over a node and its neighbours, R·N → R·N.
        pool: Sums over the nodes of each graph, R·N → R·G.
        target: Class of each graph, `(R, G)`; or targets of another task, 0 where a label is
            missing, `(R, G, T)`.
        graph_weight: 1/n for the n graphs of an agent, 0 for padding, `(R, G)`.
        label_weight: −`graph_weight` at the class of a graph, 0 elsewhere, `(R, G, classes)`; or
            1/n for the n known labels of an agent, 0 for missing ones, `(R, G, T)`.
        motifs: Sums over the graphs that contain each motif, R·G → M; the motifs of all agents
            follow one another.
        motif_weight: 1/(number of graphs that contain the motif), `(M,)`.
        motif_rows: Sums over the motifs of each agent, M → R.
        entries: Where a mini-batch has only some of the agents' motifs: the number of each of them
            among all.
        distinct: The distinct nodes of each layer, for passes without dropout.
        messages: The messages along edges, for models that read edge labels.
        first: The first layer on distinct neighbourhoods, for models that read edge labels; None if
            it is computed on all nodes.
        allowed: Which outputs each agent has, `(R, 1, outputs)`; None if all have all of them.
    """

    rows: int
    nodes: int
    degree: Tensor
    structure: Tensor
    inputs: BagSum
    spread: BagSum
    closed: BagSum
    pool: BagSum
    target: Tensor
    graph_weight: Tensor
    label_weight: Tensor
    motifs: BagSum
    motif_weight: Tensor
    motif_rows: BagSum
    entries: Tensor | None = None
    distinct: DistinctNodes | None = None
    messages: Messages | None = None
    first: FirstLayer | None = None
    allowed: Tensor | None = None

    def select_motifs(self, values: Tensor) -> Tensor:
        """Select from the values of all the agents' motifs those of the motifs in this batch."""
        return values if self.entries is None else values.index_select(0, self.entries)


def collate(
    shards: Sequence[Shard], device: torch.device, dtype: torch.dtype, *, layers: int = 0
) -> Batch:
    """Stack the shards of R agents into one batch; an empty shard gives a row of padding.

    Args:
        shards: The graphs of each agent.
        device: Where the tensors of the batch are stored.
        dtype: Type of its floating-point tensors.
        layers: Number of layers of a model that sums over closed neighbourhoods: the batch then
            has `distinct`, for passes without dropout.
    """
    R = len(shards)
    N = max(len(s.graphs.degree) for s in shards)
    Q = max(s.kinds.shape[0] for s in shards)
    G = max(len(s) for s in shards)
    neighbours = [closed_neighbourhoods(s.graphs) for s in shards]
    closed = stacked(neighbours, N, N)
    motifs = stacked([s.motifs.T for s in shards], None, G)
    count = np.asarray(motifs.sum(axis=1), dtype=np.float64).ravel()
    weight = np.zeros((R, G))
    for r, s in enumerate(shards):
        weight[r, : len(s)] = 1 / max(len(s), 1)
    target, label_weight = _stacked_targets([s.graphs for s in shards], weight)
    degree = np.zeros((R, N, 1))
    structure = np.zeros((R, N, shards[0].structure.shape[1]))
    for r, s in enumerate(shards):
        degree[r, : len(s.kind), 0] = s.graphs.degree
        structure[r, : len(s.kind)] = s.structure
    spread = [selection(s.kind, s.kinds.shape[0]) for s in shards]
    pool = [selection(s.graphs.node_graph, len(s)).T for s in shards]
    number = [s.motifs.shape[1] for s in shards]
    columns, graphs = shards[0].edge_columns, [s.graphs for s in shards]
    hoods = None if columns is None else _neighbourhoods(shards, columns, [s.kind for s in shards])
    return Batch(
        rows=R,
        nodes=N,
        degree=torch.as_tensor(degree, dtype=dtype, device=device),
        structure=torch.as_tensor(structure, dtype=dtype, device=device),
        inputs=BagSum.of(
            stacked([s.kinds for s in shards], Q, shards[0].kinds.shape[1]), device, dtype
        ),
        spread=BagSum.of(stacked(spread, N, Q), device),
        closed=BagSum.symmetric(closed.indices, closed.indptr, device),
        pool=BagSum.of(stacked(pool, G, N), device),
        target=torch.as_tensor(
            target, dtype=torch.int64 if target.ndim == 2 else dtype, device=device
        ),
        graph_weight=torch.as_tensor(weight, dtype=dtype, device=device),
        label_weight=torch.as_tensor(
            label_weight,
            dtype=dtype,
            device=device,
        ),
        motifs=BagSum.of(motifs, device),
        motif_weight=torch.as_tensor(
            np.divide(1.0, count, out=np.zeros(len(count)), where=count > 0),
            dtype=dtype,
            device=device,
        ),
        motif_rows=BagSum.of(
            selection(np.repeat(np.arange(R), number), R).T.tocsr(),
            device,
        ),
        distinct=(
            _distinct_nodes(shards, neighbours, layers, device, dtype)
            if hoods is None
            else _distinct_messages(shards, hoods, layers, device, dtype)
        ),
        messages=None if columns is None else between_nodes(graphs, columns, N, device),
        first=None if hoods is None else first_layer(hoods, Q, N, device),
        allowed=own_outputs(shards, label_weight.shape[-1], device),
    )


def own_outputs(shards: Sequence[Shard], outputs: int, device: torch.device) -> Tensor | None:
    """Return which of the outputs each agent has, `(R, 1, outputs)`; None if all have all."""
    if all(s.outputs is None for s in shards):
        return None
    own = [outputs if s.outputs is None else s.outputs for s in shards]
    count = torch.tensor(own, device=device)
    return (torch.arange(outputs, device=device) < count[:, None]).unsqueeze(1)


def _stacked_targets(
    graphs: Sequence[GraphSet], weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return `target` and `label_weight` of the graphs of R agents with these weights `(R, G)`."""
    parts = [of_targets(g) for g in graphs]
    classes = graphs[0].values is None
    target = np.zeros((*weight.shape, *parts[0][0].shape[1:]), dtype=parts[0][0].dtype)
    labels = np.zeros((*weight.shape, parts[0][1].shape[1]))
    for r, (own, known) in enumerate(parts):
        target[r, : len(own)] = own
        labels[r, : len(own)] = known if classes else known / max(known.sum(), 1)
    return target, labels * -weight[:, :, None] if classes else labels


def of_targets(graphs: GraphSet) -> tuple[np.ndarray, np.ndarray]:
    """Return targets, 0 where a label is missing, and the 0/1 matrix of classes or known labels."""
    if graphs.values is None:
        return graphs.target, np.eye(graphs.classes)[graphs.target]
    known = ~np.isnan(graphs.values)
    return np.where(known, graphs.values, 0.0), known.astype(float)


def repeat(batch: Batch, copies: int) -> Batch:
    """Return the batch with every agent's graphs `copies` times: all rows, and again all rows.

    For several models on the same graphs; done on the device, since it is much slower to collate
    the same graphs many times. Motifs and distinct nodes are left out: they serve prototypes.
    """

    def rows(tensor: Tensor) -> Tensor:
        return tensor.repeat(copies, *[1] * (tensor.dim() - 1))

    none = Bags(batch.pool.forward.index[:0], batch.pool.forward.start[:1])
    return replace(
        batch,
        rows=copies * batch.rows,
        degree=rows(batch.degree),
        structure=rows(batch.structure),
        inputs=batch.inputs.repeat(copies),
        spread=batch.spread.repeat(copies),
        closed=batch.closed.repeat(copies),
        pool=batch.pool.repeat(copies),
        target=rows(batch.target),
        graph_weight=rows(batch.graph_weight),
        label_weight=rows(batch.label_weight),
        motifs=BagSum(none, none),
        motif_weight=batch.motif_weight[:0],
        motif_rows=BagSum(none, none),
        entries=None,
        distinct=None,
        messages=None if batch.messages is None else batch.messages.repeat(copies),
        first=None if batch.first is None else batch.first.repeat(copies),
        allowed=None if batch.allowed is None else rows(batch.allowed),
    )


def _distinct_nodes(
    shards: Sequence[Shard],
    neighbours: Sequence[sparse.csr_array],
    layers: int,
    device: torch.device,
    dtype: torch.dtype,
) -> DistinctNodes | None:
    """Refine kinds of nodes layer by layer; None if most nodes become distinct.

    `neighbours` are the closed neighbourhoods of each agent's nodes.
    """
    kind = [s.kind for s in shards]
    size = [s.kinds.shape[0] for s in shards]
    levels: list[Bags] = []
    for _ in range(layers - 1):
        counts = [_kind_counts(c, k, n) for c, k, n in zip(neighbours, kind, size, strict=True)]
        distinct = [distinct_rows(count) for count in counts]
        rows, kind = [r for r, _ in distinct], [k for _, k in distinct]
        new = [r.shape[0] for r in rows]
        if _mostly_distinct(shards, new, device):
            return None
        levels.append(Bags.of(stacked(rows, max(new), max(size)), device, dtype))
        size = new
    if not layers:
        return None
    return DistinctNodes(tuple(levels), _distinct_pool(shards, kind, size, device, dtype))


def _distinct_messages(
    shards: Sequence[Shard],
    hoods: Sequence[Neighbourhoods],
    layers: int,
    device: torch.device,
    dtype: torch.dtype,
) -> DistinctNodes | None:
    """Refine kinds of nodes by the messages that they receive, as `_distinct_nodes` does.

    `hoods` are the neighbourhoods of the first layer.
    """
    columns, before = shards[0].edge_columns, max(s.kinds.shape[0] for s in shards)
    assert columns is not None
    levels: list[Messages] = []
    for k in range(layers):
        hoods = _neighbourhoods(shards, columns, [h.number for h in hoods]) if k else hoods
        if _mostly_distinct(shards, [len(h) for h in hoods], device):
            return None
        levels.append(between_kinds(hoods, before, device))
        before = max(len(h) for h in hoods)
    if not layers:
        return None
    kind, size = [h.number for h in hoods], [len(h) for h in hoods]
    pool = _distinct_pool(shards, kind, size, device, dtype)
    return DistinctNodes((), pool, tuple(levels))


def _neighbourhoods(
    shards: Sequence[Shard], columns: Ints, kind: Sequence[Ints]
) -> list[Neighbourhoods]:
    return [Neighbourhoods(s.graphs, columns, k) for s, k in zip(shards, kind, strict=True)]


def _mostly_distinct(shards: Sequence[Shard], kinds: Sequence[int], device: torch.device) -> bool:
    """Return whether a layer is as fast on all nodes as on the distinct ones.

    On a GPU never, so that an agent's rounding does not depend on whom it is stacked with.
    """
    return device.type == "cpu" and sum(kinds) > MOST_DISTINCT * sum(len(s.kind) for s in shards)


def _distinct_pool(
    shards: Sequence[Shard],
    kind: Sequence[Ints],
    size: Sequence[int],
    device: torch.device,
    dtype: torch.dtype,
) -> Bags:
    """Return the map that sums the kinds of each graph's nodes."""
    graphs = max(len(s) for s in shards)
    pool = [
        selection(s.graphs.node_graph, len(s)).T @ selection(k, n)
        for s, k, n in zip(shards, kind, size, strict=True)
    ]
    return Bags.of(stacked(pool, graphs, max(size)), device, dtype)


def _kind_counts(neighbours: sparse.csr_array, kind: Ints, kinds: int) -> sparse.csr_array:
    """Count how often each kind occurs in each closed neighbourhood, `(nodes, kinds)`."""
    counts = neighbours @ selection(kind, kinds)
    counts.sort_indices()
    return counts
