"""Lower bounds of a round's time: its matrix products on a CPU, its memory traffic on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse

from motifair.config import Config
from motifair.federation.members import Members
from motifair.graphs.batch import Shard, closed_neighbourhoods
from motifair.graphs.kernels import number_sparse_rows
from motifair.methods import make_method

NUMBER = 4  # bytes of a float32


class Sizes(NamedTuple):
    """Numbers of rows of the first convolution's input and of each one's output, and of graphs."""

    rows: tuple[int, ...]
    graphs: int


def trained_sizes(shard: Shard, batch_size: int, layers: int) -> list[Sizes]:
    """Return the sizes of an agent's training batches, with its graphs in order.

    The input has a row for each distinct input; with dropout outputs have a row for each node.
    """
    sizes = []
    for first in range(0, len(shard), batch_size):
        last = min(first + batch_size, len(shard))
        start, end = (int(n) for n in shard.graphs.node_start[[first, last]])
        kinds = len(np.unique(shard.kind[start:end]))
        sizes.append(Sizes((kinds, *[end - start] * layers), last - first))
    return sizes


def distinct_sizes(shard: Shard, layers: int) -> Sizes:
    """Return the sizes of a pass over all graphs without dropout.

    Each layer then needs its distinct nodes only (the colours of Weisfeiler and Leman).
    """
    kind, kinds = shard.kind, shard.kinds.shape[0]
    closed, rows = closed_neighbourhoods(shard.graphs), [kinds, kinds]
    for _ in range(layers - 1):
        ones, nodes = np.ones(len(kind), np.float32), np.arange(len(kind) + 1)
        colours = sparse.csr_array((ones, kind, nodes), shape=(len(kind), rows[-1]))
        around = sparse.csr_array(closed @ colours)
        around.sort_indices()
        kind, first = number_sparse_rows(around.indptr, around.indices, around.data.view(np.int32))
        rows.append(len(first))
    return Sizes(tuple(rows), len(shard))


def products(config: Config, members: Members) -> Callable[[], None]:
    """Return a function that computes only the matrix products of a round.

    Two for each convolution: forward, both backward ones, and forward again for prototypes; on all
    nodes except in the first convolution, which needs distinct inputs only. (The prototype pass
    uses distinct nodes in all layers, which saves about a tenth of these products on PROTEINS.)
    """
    hidden, layers = config.hidden, config.layers
    matrix = torch.randn(hidden, hidden)
    train = [
        torch.randn(n, hidden)
        for shard in members.train
        for batch in trained_sizes(shard, config.batch_size, layers)
        for n in batch.rows[:-1] * 2  # the first multiplies before its rows are copied to nodes
    ]
    prototypes = []
    if make_method(config).uses_prototypes:
        sizes = [trained_sizes(shard, len(shard), layers)[0] for shard in members.train]
        prototypes = [torch.randn(n, hidden) for s in sizes for n in s.rows[:-1] * 2]

    def multiply() -> None:
        for x in train:
            x @ matrix
            x @ matrix.T
            x.T @ x
        for x in prototypes:
            x @ matrix

    return multiply


def pass_rows(sizes: Sizes) -> tuple[int, int]:
    """Return the numbers of rows that the forward and the backward pass read and write.

    A convolution (sum over neighbours, both linear layers, ReLU and dropout) reads its input and
    writes its output forward; backward it reads the gradient of its output, its output and its
    input and writes the gradient of its input. The hidden layer between its linear layers can be
    recomputed from the input and is not counted. Pooling reads nodes and writes graphs; backward it
    reads graphs and writes nodes.

    >>> pass_rows(Sizes(rows=(2, 5), graphs=1))  # 2 + 5, 5 + 1 and 5 + 5 + 2 + 2, 1 + 5
    (13, 20)
    """
    layers = sum(sizes.rows[:-1]) + sum(sizes.rows[1:])
    pooling = sizes.rows[-1] + sizes.graphs
    return layers + pooling, 2 * layers + pooling


def round_bytes(config: Config, members: Members) -> int:
    """Return a lower bound of the bytes that a round reads and writes, in single precision.

    Every batch has a forward and a backward pass, and with prototypes all graphs have one more
    forward pass (`pass_rows`). A step writes the gradient of the weights; Adam reads weights,
    gradient and both moments and writes weights and moments: eight rows of weights. Agents adopt
    the reward by reading old and trained weights and writing new ones: three more. Indices,
    dropout bits, padding, tensors of graphs and motifs, and the server's work are not counted: any
    implementation that works layer by layer moves more.
    """
    prototypes = make_method(config).uses_prototypes
    rows = weights = 0
    for shard in members.train:
        batches = trained_sizes(shard, config.batch_size, config.layers)
        rows += config.local_epochs * sum(sum(pass_rows(b)) for b in batches)
        if prototypes:
            rows += pass_rows(distinct_sizes(shard, config.layers))[0]
        weights += 8 * config.local_epochs * len(batches) + 3
    return NUMBER * (rows * config.hidden + weights * members.model.layout.size)
