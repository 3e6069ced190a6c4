"""From an agent's graphs to the tensors a model reads, for one agent or a stack of them.

The layout behind the speed: a graph convolution's first layer sees, at each node, only the sum of
inputs over the node and its neighbours. With one-hot inputs few such sums are distinct (about a
hundred in an agent with four thousand nodes of PROTEINS), so the first layer is computed on the
distinct ones and spread to the nodes afterwards. This is exact. Without dropout the same holds for
every further layer (`Still`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from motifair.bag_sum import Bags, BagSum
from motifair.graphs.features import Features
from motifair.graphs.graph_set import GraphSet, Ints, ranges
from motifair.graphs.kernels import number_sparse_rows


@dataclass(frozen=True)
class Shard:
    """Graphs of one agent, ready to be collated: structure, inputs and motifs.

    `kinds` holds the distinct input sums (rows of `width` inputs, and a last column that counts
    the summed nodes, for the bias); node v looks like row `kind[v]`. `motifs` marks which graph
    contains which motif of the agent's vocabulary; `structure` holds further numbers of each node,
    for models that read them.
    """

    graphs: GraphSet
    kinds: sparse.csr_array
    kind: Ints
    motifs: sparse.csr_array
    structure: np.ndarray

    def __len__(self) -> int:
        return len(self.graphs)

    def select(self, graphs: Ints) -> Shard:
        """Return some of the graphs, in the given order."""
        nodes = ranges(self.graphs.node_start[graphs], self.graphs.nodes[graphs])
        used, kind = np.unique(self.kind[nodes], return_inverse=True)
        motifs = self.motifs[graphs].tocsr()
        return Shard(
            self.graphs.select(graphs), self.kinds[used], kind, motifs, self.structure[nodes]
        )


def make_shard(
    graphs: GraphSet,
    features: Features,
    motifs: sparse.csr_array | None = None,
    *,
    summed: bool = True,
    structure: np.ndarray | None = None,
) -> Shard:
    """Encode graphs; without `motifs` the shard has none (test sets need none).

    With `summed` inputs are summed over a node and its neighbours, as GIN's first layer reads
    them; otherwise they are the node's own. `structure` has further numbers of each node.
    """
    nodes = len(graphs.degree)
    inputs = sparse.hstack([features.encode(graphs), np.ones((nodes, 1))], format="csr")
    rows = (
        sparse.csr_array(closed_neighbourhoods(graphs) @ inputs)
        if summed
        else sparse.csr_array(inputs)
    )
    rows.sort_indices()
    kinds, kind = _distinct_rows(rows)
    if motifs is None:
        motifs = sparse.csr_array((len(graphs), 0))
    return Shard(
        graphs, kinds, kind, motifs, np.zeros((nodes, 0)) if structure is None else structure
    )


def closed_neighbourhoods(graphs: GraphSet) -> sparse.csr_array:
    """Return the 0/1 matrix of "is the node or its neighbour"."""
    nodes = len(graphs.degree)
    ones = np.ones(len(graphs.neighbour), dtype=np.float32)
    adjacency = sparse.csr_array((ones, graphs.neighbour, graphs.edge_start), shape=(nodes, nodes))
    return sparse.csr_array(adjacency + sparse.eye_array(nodes, dtype=np.float32, format="csr"))


@dataclass(frozen=True)
class Still:
    """How nodes look alike, layer after layer, as long as dropout does not tell them apart.

    Nodes with the same input whose neighbours have the same inputs leave a layer as equals. So
    layer k needs to be computed on the distinct nodes only: `levels[k]` sums distinct rows of the
    layer before over neighbourhoods (R·Q_k → R·Q_{k+1}), `pool` those of the last one over graphs.
    """

    levels: tuple[Bags, ...]
    pool: Bags


PAYS = 0.9  # share of distinct nodes up to which `Still` is worth its own structures


@dataclass(frozen=True)
class Batch:
    """A stack of R agents' graphs, each padded to the largest: N nodes, G graphs, Q kinds.

    Maps act on rows of flattened stacks: `inputs` (R·(width+1) → R·Q), `spread` (R·Q → R·N),
    `closed` (R·N → R·N, a node and its neighbours), `pool` (R·N → R·G), `motifs` (R·G → M, the
    motifs of all agents one after another). `degree` is `(R, N, 1)`, `structure` `(R, N, S)`;
    `graph_weight` is 1/n for an agent's n graphs and 0
    for padding, and `label_weight` `(R, G, classes)` is minus that at a graph's class, 0 elsewhere;
    `motif_weight` is 1/(graphs that contain the motif); `motif_rows` (M → R) adds up
    what belongs to an agent's motifs. Where `entries` is given, the batch has only some of the
    agents' motifs: its m-th is number `entries[m]` of all. `still` is the shorter way where nothing
    is dropped.
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
    still: Still | None = None

    def of_motifs(self, values: Tensor) -> Tensor:
        """Pick, from what all motifs of the agents have, what the motifs of the batch have."""
        return values if self.entries is None else values.index_select(0, self.entries)


def collate(
    shards: Sequence[Shard], device: torch.device, dtype: torch.dtype, *, layers: int = 0
) -> Batch:
    """Stack shards, one for each agent; an empty shard gives a row of padding.

    With `layers` (of a model whose layers sum over closed neighbourhoods) the batch is prepared to
    be read without dropout, too.
    """
    R = len(shards)
    N = max(len(s.graphs.degree) for s in shards)
    Q = max(s.kinds.shape[0] for s in shards)
    G = max(len(s) for s in shards)
    closed = _stacked([closed_neighbourhoods(s.graphs) for s in shards], N, N)
    motifs = sparse.csr_array(sparse.block_diag([_wide(s.motifs.T, G) for s in shards], "csr"))
    count = np.asarray(motifs.sum(axis=1), dtype=np.float64).ravel()
    target = np.zeros((R, G), dtype=np.int64)
    weight = np.zeros((R, G))
    for r, s in enumerate(shards):
        target[r, : len(s)] = s.graphs.target
        weight[r, : len(s)] = 1 / max(len(s), 1)
    degree = np.zeros((R, N, 1))
    structure = np.zeros((R, N, shards[0].structure.shape[1]))
    for r, s in enumerate(shards):
        degree[r, : len(s.kind), 0] = s.graphs.degree
        structure[r, : len(s.kind)] = s.structure
    spread = [_selection(s.kind, s.kinds.shape[0]) for s in shards]
    pool = [_selection(s.graphs.node_graph, len(s)).T for s in shards]
    number = [s.motifs.shape[1] for s in shards]
    return Batch(
        rows=R,
        nodes=N,
        degree=torch.as_tensor(degree, dtype=dtype, device=device),
        structure=torch.as_tensor(structure, dtype=dtype, device=device),
        inputs=BagSum.of(
            _stacked([s.kinds for s in shards], Q, shards[0].kinds.shape[1]), device, dtype
        ),
        spread=BagSum.of(_stacked(spread, N, Q), device),
        closed=BagSum.symmetric(closed.indices, closed.indptr, device),
        pool=BagSum.of(_stacked(pool, G, N), device),
        target=torch.as_tensor(target, device=device),
        graph_weight=torch.as_tensor(weight, dtype=dtype, device=device),
        label_weight=torch.as_tensor(
            np.eye(shards[0].graphs.classes)[target] * -weight[:, :, None],
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
            sparse.csr_array(_selection(np.repeat(np.arange(R), number), R).T.tocsr()),
            device,
        ),
        still=_still(shards, layers, device, dtype),
    )


def _still(
    shards: Sequence[Shard], layers: int, device: torch.device, dtype: torch.dtype
) -> Still | None:
    """Refine kinds of nodes layer by layer; None where most nodes soon are one of a kind."""
    kind = [s.kind for s in shards]
    size = [s.kinds.shape[0] for s in shards]
    levels: list[Bags] = []
    for _ in range(layers - 1):
        looks = [_looks(s, k, n) for s, k, n in zip(shards, kind, size, strict=True)]
        distinct = [_distinct_rows(look) for look in looks]
        rows, kind = [r for r, _ in distinct], [k for _, k in distinct]
        new = [r.shape[0] for r in rows]
        if sum(new) > PAYS * sum(len(k) for k in kind):
            break
        levels.append(Bags.of(_stacked(rows, max(new), max(size)), device, dtype))
        size = new
    if not layers or len(levels) < layers - 1:
        return None
    graphs = max(len(s) for s in shards)
    pool = [
        _selection(s.graphs.node_graph, len(s)).T @ _selection(k, n)
        for s, k, n in zip(shards, kind, size, strict=True)
    ]
    return Still(tuple(levels), Bags.of(_stacked(pool, graphs, max(size)), device, dtype))


def _looks(shard: Shard, kind: Ints, kinds: int) -> sparse.csr_array:
    """Count, around every node, how often each kind occurs."""
    looks = sparse.csr_array(closed_neighbourhoods(shard.graphs) @ _selection(kind, kinds))
    looks.sort_indices()
    return looks


def _selection(column: Ints, columns: int) -> sparse.csr_array:
    """Return the matrix whose row k has its single one in `column[k]`."""
    n = len(column)
    return sparse.csr_array((np.ones(n, np.float32), column, np.arange(n + 1)), shape=(n, columns))


def _stacked(blocks: Sequence[sparse.sparray], height: int, width: int) -> sparse.csr_array:
    """Put blocks on the diagonal, each padded to `height` × `width`."""
    padded = []
    for block in blocks:
        grown = sparse.csr_array(block)
        grown.resize((height, width))
        padded.append(grown)
    return sparse.csr_array(sparse.block_diag(padded, format="csr"))


def _wide(block: sparse.sparray, width: int) -> sparse.csr_array:
    return _stacked([block], block.shape[0], width)


def _distinct_rows(matrix: sparse.csr_array) -> tuple[sparse.csr_array, Ints]:
    """Return the distinct rows in order of first occurrence and, for each row, which it is."""
    # As integers, values are told apart to the bit.
    bits = matrix.data.view(f"i{matrix.data.itemsize}")
    kind, first = number_sparse_rows(matrix.indptr, matrix.indices, bits)
    return sparse.csr_array(matrix[first]), kind
