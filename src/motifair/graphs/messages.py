"""Messages along labelled edges, which GINE sums: x_i + Σ_j ReLU(x_j + t(e_ij)).

A message depends on its sender's input and on the label of the edge alone, a node's sum on its own
input and the messages it receives. Nodes of the same kind send the same messages, and with one-hot
inputs few neighbourhoods are distinct: the first layer is computed on those (`Neighbourhoods`), and
without dropout so is every later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from scipy import sparse

from motifair.bag_sum import Bags, BagSum
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.kernels import number_sparse_rows, transpose
from motifair.graphs.matrices import selection
from motifair.kernels import Senders


class EdgeMessages:
    """The distinct messages along the edges of graphs, one for each sender and label.

    Senders are nodes, or kinds of nodes where each node's `kind (nodes,)` is given.

    Attributes:
        source: Sender of each message, ascending, `(P,)`.
        label: Number of its label among the `labels`, `(P,)`.
        message: Message that each entry of `neighbour` sends, `(2·edges,)`.
        labels: Number of edge labels K.
    """

    def __init__(self, graphs: GraphSet, columns: Ints, kind: Ints | None = None) -> None:
        assert graphs.edge_label is not None
        self.labels = len(columns)
        sender = graphs.neighbour if kind is None else kind[graphs.neighbour]
        code = sender * self.labels + np.searchsorted(columns, graphs.edge_label)
        sent, self.message = np.unique(code, return_inverse=True)
        self.source, self.label = np.divmod(sent, self.labels)

    def __len__(self) -> int:
        return len(self.source)


class Neighbourhoods:
    """The distinct neighbourhoods of nodes: a kind of node, and the messages it receives.

    Attributes:
        sent: The messages, one for each kind of node and label.
        own: Kind of the node in each neighbourhood, `(F,)`, in order of first occurrence.
        received: 0/1 matrix of the messages in it, a message that comes twice twice, `(F, P)`.
        number: The neighbourhood of each node, `(nodes,)`.
    """

    def __init__(self, graphs: GraphSet, columns: Ints, kind: Ints) -> None:
        self.sent = EdgeMessages(graphs, columns, kind)
        received = _ones(self.sent.message, graphs.edge_start, len(self.sent))
        received.sort_indices()
        # Numbered as rows of messages whose first entry, before all messages, is the node's kind.
        place = graphs.edge_start[:-1] + np.arange(len(kind))
        index = np.empty(len(received.indices) + len(kind), np.int64)
        others = np.ones(len(index), bool)
        others[place] = False
        index[place], index[others] = kind, received.indices
        start = graphs.edge_start + np.arange(len(kind) + 1)
        self.number, first = number_sparse_rows(start, index, np.zeros_like(index))
        self.own, self.received = kind[first], sparse.csr_array(received[first])

    def __len__(self) -> int:
        return len(self.own)


@dataclass(frozen=True)
class Messages:
    """Maps of messages, for stacks padded to P messages, from n rows of inputs to m of outputs.

    Attributes:
        source: Copies rows to the messages they send, R·n → R·P.
        inputs: Sums rows of the layer of edge labels, its bias last, R·(K+1) → R·P; the entry of
            the label is the first of a bag.
        total: Sums the messages that each row receives, R·P → R·m.
        own: Copies rows to where they are the node itself, R·n → R·m; None if rows stay the same.
    """

    source: BagSum
    inputs: BagSum
    total: BagSum
    own: BagSum | None = None

    @cached_property
    def senders(self) -> Senders:
        """Who sends which message, for the kernels of a CPU."""
        sent = self.source.backward
        return Senders(
            _only(self.source.forward),
            _only(self.inputs.forward),
            sent.start.numpy(),
            sent.index.numpy(),
        )

    def repeat(self, copies: int) -> Messages:
        """Return the maps of `copies` times as many agents."""
        return Messages(
            self.source.repeat(copies),
            self.inputs.repeat(copies),
            self.total.repeat(copies),
            None if self.own is None else self.own.repeat(copies),
        )


@dataclass(frozen=True)
class FirstLayer:
    """The first layer on distinct neighbourhoods.

    Attributes:
        messages: From kinds of nodes to neighbourhoods, R·Q → R·F.
        spread: Copies the output of each neighbourhood to its nodes, R·F → R·N.
    """

    messages: Messages
    spread: BagSum

    def repeat(self, copies: int) -> FirstLayer:
        """Return the maps of `copies` times as many agents."""
        return FirstLayer(self.messages.repeat(copies), self.spread.repeat(copies))


def between_nodes(
    graphs: Sequence[GraphSet], columns: Ints, nodes: int, device: torch.device
) -> Messages:
    """Return the maps between the nodes of R agents, each padded to `nodes`."""
    sent = [EdgeMessages(g, columns) for g in graphs]
    received = [_ones(m.message, g.edge_start, len(m)) for g, m in zip(graphs, sent, strict=True)]
    return _maps(sent, received, nodes, nodes, device)


def between_kinds(hoods: Sequence[Neighbourhoods], kinds: int, device: torch.device) -> Messages:
    """Return the maps from kinds of nodes, of each agent at most `kinds`, to neighbourhoods."""
    most = max(len(h) for h in hoods)
    own = [selection(h.own, kinds) for h in hoods]
    maps = _maps([h.sent for h in hoods], [h.received for h in hoods], kinds, most, device)
    return replace(maps, own=_stacked(own, most, kinds, device))


def first_layer(
    hoods: Sequence[Neighbourhoods], kinds: int, nodes: int, device: torch.device
) -> FirstLayer:
    """Return the maps of the first layer of R agents, each padded to `kinds` and `nodes`."""
    most = max(len(h) for h in hoods)
    spread = [selection(h.number, most) for h in hoods]
    return FirstLayer(between_kinds(hoods, kinds, device), _stacked(spread, nodes, most, device))


def _maps(
    sent: Sequence[EdgeMessages],
    received: Sequence[sparse.csr_array],
    senders: int,
    receivers: int,
    device: torch.device,
) -> Messages:
    most, width = max(len(m) for m in sent), sent[0].labels + 1
    source = [selection(m.source, senders) for m in sent]
    inputs = [selection(m.label, width) + selection(m.label * 0 + width - 1, width) for m in sent]
    return Messages(
        _stacked(source, most, senders, device),
        _stacked(inputs, most, width, device),
        _stacked(received, receivers, most, device),
    )


def _only(bags: Bags) -> np.ndarray:
    """Return the first entry of every bag, -1 for empty bags."""
    start, index = bags.start.numpy(), bags.index.numpy()
    first = np.append(index, np.int32(-1))[start[:-1]]
    return np.where(start[:-1] < start[1:], first, np.int32(-1))


def _stacked(
    blocks: Sequence[sparse.csr_array], height: int, width: int, device: torch.device
) -> BagSum:
    """Return the block-diagonal map of blocks padded to `height` × `width`.

    Unlike in scipy's sums and products, an index that occurs twice in a row stays twice.
    """
    length = np.zeros((len(blocks), height), np.int64)
    for of_row, block in zip(length, blocks, strict=True):
        of_row[: block.shape[0]] = np.diff(block.indptr)
    start = np.append(0, length.cumsum()).astype(np.int32)
    columns = [block.indices + r * width for r, block in enumerate(blocks)]
    index = np.concatenate(columns).astype(np.int32)
    back_start, back_index, _ = transpose(start, index, len(blocks) * width)
    return BagSum(
        *(
            Bags(torch.as_tensor(i, device=device), torch.as_tensor(b, device=device))
            for i, b in ((index, start), (back_index, back_start))
        )
    )


def _ones(index: Ints, start: Ints, columns: int) -> sparse.csr_array:
    """Return the matrix of ones with `indices` and `indptr`; an index may occur twice in a row."""
    ones = np.ones(len(index), np.float32)
    return sparse.csr_array((ones, index, start), shape=(len(start) - 1, columns), copy=True)
