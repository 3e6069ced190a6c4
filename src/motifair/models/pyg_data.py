"""The graphs of a `Batch` as PyG has them, agent by agent, for networks of the user."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Batch as PygBatch

from motifair.bag_sum import Bags
from motifair.graphs.batch import Batch


def as_pyg(batch: Batch, width: int, dtype: torch.dtype) -> Iterator[PygBatch]:
    """Yield the graphs of each agent, without padding.

    `x` is `(nodes, width)`, `edge_index` has every edge in both directions, `edge_attr` the one-hot
    labels of edges where they are read, `batch` and `ptr` say which nodes are a graph.
    """
    inputs = torch.eye(width + 1, width, dtype=dtype, device=batch.degree.device)
    x = batch.spread(batch.inputs(inputs.repeat(batch.rows, 1))).view(batch.rows, -1, width)
    for row in range(batch.rows):
        count = int((batch.graph_weight[row] > 0).sum())
        first = row * batch.graph_weight.shape[1]
        ptr = batch.pool.forward.start[first : first + count + 1].long()
        ptr = ptr - ptr[0]
        graph = torch.repeat_interleave(torch.arange(count, device=x.device), ptr.diff())
        nodes = len(graph)
        edge_index, edge_attr = _edges(batch, row, nodes, dtype)
        parts = {"x": x[row, :nodes], "edge_index": edge_index, "batch": graph, "ptr": ptr}
        if edge_attr is not None:
            parts["edge_attr"] = edge_attr
        yield PygBatch(**parts)


def _edges(batch: Batch, row: int, nodes: int, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Return the edges among the nodes of an agent, `(2, E)`, and their labels `(E, K)`."""
    first = row * batch.nodes
    if batch.messages is None:
        target, source = _entries(batch.closed.forward, first, nodes)
        source = source - first
        other = source != target  # a closed neighbourhood has the node itself
        return torch.stack([source[other], target[other]]), None
    sources, labels = batch.messages.source.forward, batch.messages.inputs.forward
    target, message = _entries(batch.messages.total.forward, first, nodes)
    source = sources.index[sources.start[message].long()].long() - first
    width = (len(batch.messages.inputs.backward.start) - 1) // batch.rows  # the bias comes last
    label = labels.index[labels.start[message].long()].long() - row * width
    return torch.stack([source, target]), F.one_hot(label, width - 1).to(dtype)


def _entries(bags: Bags, first: int, count: int) -> tuple[Tensor, Tensor]:
    """Return for each entry of `count` bags the number of its bag, and what is in it."""
    start = bags.start[first : first + count + 1].long()
    bag = torch.repeat_interleave(torch.arange(count, device=start.device), start.diff())
    return bag, bags.index[int(start[0]) : int(start[-1])].long()
