"""All mini-batches of an epoch, cut on a device without asking the host.

The batches are those that `minibatch.Stack` cuts one by one, but padded to the most that any batch
can have: every epoch is the same program on tensors of the same shapes, which a GPU can record.
What lies within a graph (its nodes, edges and messages) is not copied: a batch has for each of its
nodes where its neighbours are among those of all graphs, and by how much to shift them. What graphs
have in common (kinds of nodes, motifs, labels of edges) is sorted, for all batches of the epoch at
once.

Tensors have an axis over the B = S·R batches of R agents in S steps, agents fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from motifair.bag_sum import Bags, BagSum
from motifair.graphs.batch import Batch, Shard
from motifair.graphs.kernels import transpose
from motifair.graphs.messages import Messages
from motifair.graphs.minibatch import Stack


class Epochs:
    """The graphs of R agents on a device, from which `cut` takes the batches of an epoch."""

    def __init__(
        self, shards: Sequence[Shard], batch_size: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        stack = Stack(shards, dtype)
        sizes = np.diff(stack.first)
        self.device, self.dtype, self.batch_size = device, dtype, batch_size
        self.agents, self.steps = len(shards), -(-int(sizes.max()) // batch_size)
        self.graphs = min(batch_size, int(sizes.max()))
        self._copy(stack)
        self._bound(stack)
        self.messages = None if stack.sent is None else _EdgeLabels(self, stack)

    def _copy(self, stack: Stack) -> None:
        """Copy the graphs to the device; a last, empty graph, node and kind stands for padding."""
        self.first, self.first_node = self.ints(stack.first), self.ints(stack.graphs.node_start)
        self.size = self.ints(np.append(stack.size, 0))
        self.closed = self.rows(stack.closed)
        self.degree = self._numbers(np.append(stack.graphs.degree, 0))
        self.structure = self._numbers(_padded(stack.structure))
        self.classes, target = stack.graphs.values is None, _padded(stack.target)
        self.target = self.ints(target) if self.classes else self._numbers(target)
        self.labels = torch.as_tensor(_padded(stack.labels), device=self.device)
        self.allowed = None if stack.allowed is None else stack.allowed.to(self.device)
        self.width = stack.kinds.shape[1]
        self.kinds, self.kind_weight = self.rows(stack.kinds), self._numbers(stack.kinds.data)
        self.first_kind, self.first_motif = (
            self.ints(first) for first in (stack.first_kind, stack.first_motif)
        )
        self.most_kinds, self.most_motifs = (
            int(np.diff(first).max()) for first in (stack.first_kind, stack.first_motif)
        )
        agent = np.repeat(np.arange(self.agents), np.diff(stack.graphs.node_start[stack.first]))
        own = stack.kind - stack.first_kind[agent]  # numbered among those of the agent
        self.kind = self.ints(np.append(own, self.most_kinds))
        self.motifs = self.rows(stack.motifs)

    def _bound(self, stack: Stack) -> None:
        """Find the most nodes, kinds, entries of kinds and of motifs that a batch can have."""
        nodes = self.most(stack, stack.size)
        entries = np.append(0, np.cumsum(np.diff(stack.kinds.indptr)[stack.kind]))
        inputs = self.most(stack, np.diff(entries[stack.graphs.node_start]))
        motifs = self.most(stack, np.diff(stack.motifs.indptr))
        every_input = np.diff(stack.kinds.indptr[stack.first_kind])
        self.nodes = int(nodes.max())
        self.used_kinds = int(np.minimum(nodes, np.diff(stack.first_kind)).max())
        self.kind_entries = int(np.minimum(inputs, every_input).max())
        self.motif_entries = int(motifs.max())
        self.used_motifs = int(np.minimum(motifs, np.diff(stack.first_motif)).max())

    def most(self, stack: Stack, amount: np.ndarray) -> np.ndarray:
        """Return the most that a batch of each agent can have of what each graph has."""
        parts = np.split(amount, stack.first[1:-1])
        return np.array([np.sort(part)[::-1][: self.batch_size].sum() for part in parts])

    def cut(self, order: Tensor) -> list[Batch]:
        """Return the batches of an epoch; `order (R, n)` has the graphs of each agent in their
        order, by their numbers among the agent's, and anything beyond them.
        """
        R, S = self.agents, self.steps
        agent = torch.arange(R, device=self.device).repeat(S)[:, None]
        chosen = self._chosen(order)
        nodes = self._nodes(chosen, agent)
        parts: dict[str, Any] = {
            **self._within(chosen, agent, nodes),
            **self._inputs(agent, nodes),
            **self._motifs(chosen, agent),
            **self._targets(chosen),
            "messages": [None] * S if self.messages is None else self.messages.cut(agent, nodes),
            "allowed": [self.allowed] * S,
        }
        return [
            Batch(rows=R, nodes=self.nodes, **{name: part[s] for name, part in parts.items()})
            for s in range(S)
        ]

    def _chosen(self, order: Tensor) -> Tensor:
        """Return the numbers of the graphs in each batch, `(B, G)`."""
        place = torch.arange(self.steps * self.batch_size, device=self.device)
        graph = order.new_zeros(self.agents, len(place))
        graph[:, : order.shape[1]] = order
        real = place < (self.first[1:] - self.first[:-1])[:, None]
        chosen = torch.where(real, graph + self.first[:-1, None], len(self.size) - 1)
        by_step = chosen.view(self.agents, self.steps, -1)[:, :, : self.graphs].transpose(0, 1)
        return by_step.reshape(-1, self.graphs)

    def _nodes(self, chosen: Tensor, agent: Tensor) -> _Nodes:
        graph, offset, real = expand(self.size[chosen], self.nodes)
        number = self.first_node[chosen.gather(1, graph)] + offset
        row = agent * self.nodes + torch.arange(self.nodes, device=self.device)
        return _Nodes(torch.where(real, number, len(self.degree) - 1), row, graph, real)

    def _within(self, chosen: Tensor, agent: Tensor, nodes: _Nodes) -> dict[str, Any]:
        """Return what belongs to nodes, and the maps between them and to their graphs."""
        R, N, G = self.agents, self.nodes, self.graphs
        size = self.size[chosen]
        ends = agent * N + size.cumsum(1)
        closed = self.bags(*self.closed, nodes.number, nodes.row - nodes.number)
        pool = self.steps_of(self.everything(R * N), ends - size, ends)
        graph = self.by_step(agent * G + nodes.graph)
        number = nodes.number.view(-1, R, N)
        return {
            "degree": self.degree[number].unsqueeze(-1),
            "structure": self.structure[number],
            "closed": [BagSum(bags, bags) for bags in closed],
            "pool": maps(pool, self.steps_of(graph, nodes.row, nodes.row + nodes.real)),
        }

    def _inputs(self, agent: Tensor, nodes: _Nodes) -> dict[str, Any]:
        """Return the maps from inputs to the kinds that occur, and from kinds to nodes."""
        Q, base = self.used_kinds, agent * self.nodes
        kinds = number_distinct(self.kind[nodes.number], self.most_kinds, Q)
        row = self.by_step(agent * Q + kinds.number)
        spread = maps(
            self.steps_of(row, nodes.row, nodes.row + nodes.real),
            self.steps_of(self.by_step(base + kinds.order), base + kinds.start, base + kinds.stop),
        )
        nothing = len(self.kinds[0]) - 2
        used = torch.where(kinds.real, self.first_kind[agent] + kinds.value, nothing)
        shift = (agent * self.width).expand(-1, Q)
        inputs = self.bags(*self.kinds, used, shift, self.kind_weight)
        return {"inputs": maps(inputs, self._inputs_back(agent, used)), "spread": spread}

    def _inputs_back(self, agent: Tensor, used: Tensor) -> list[Bags]:
        """Return the transposed map from inputs to the `used` kinds."""
        start, index = self.kinds
        first, base = start[used], agent * self.kind_entries
        kind, offset, real = expand(start[used + 1] - first, self.kind_entries)
        entry = torch.where(real, first.gather(1, kind) + offset, 0)
        column, order = sort_within(torch.where(real, index[entry].long(), self.width), self.width)
        begin, end = spans(column, self.width)
        row = self.by_step(agent * self.used_kinds + kind.gather(1, order))
        weight = self.kind_weight[entry.gather(1, order)].view(self.steps, -1)
        return self.steps_of(row, base + begin, base + end, weight)

    def _motifs(self, chosen: Tensor, agent: Tensor) -> dict[str, Any]:
        """Return the maps that sum the graphs with each motif, and the motifs of each agent."""
        M, base = self.used_motifs, agent * self.motif_entries
        start, index = self.motifs
        first, length = start[chosen], start[chosen + 1] - start[chosen]
        graph, offset, real = expand(length, self.motif_entries)
        entry = torch.where(real, first.gather(1, graph) + offset, 0)
        own = torch.where(real, index[entry] - self.first_motif[agent], self.most_motifs)
        motifs = number_distinct(own, self.most_motifs, M)
        ends, row = base + length.cumsum(1), agent * M + torch.arange(M, device=self.device)
        graph_row = self.by_step(agent * self.graphs + graph.gather(1, motifs.order))
        forward = self.steps_of(graph_row, base + motifs.start, base + motifs.stop)
        backward = self.steps_of(self.by_step(agent * M + motifs.number), ends - length, ends)
        count = motifs.real.sum(dim=1, keepdim=True)
        rows = self.steps_of(self.everything(self.agents * M), agent * M, agent * M + count)
        back = self.steps_of(self.by_step(agent.expand(-1, M)), row, row + motifs.real)
        containing = (motifs.stop - motifs.start).double()
        weight = torch.where(motifs.real, 1 / containing.clamp(min=1), 0.0).to(self.dtype)
        entries = torch.where(motifs.real, self.first_motif[agent] + motifs.value, 0)
        return {
            "motifs": maps(forward, backward),
            "motif_weight": weight.view(self.steps, -1),
            "motif_rows": maps(rows, back),
            "entries": self.by_step(entries),
        }

    def _targets(self, chosen: Tensor) -> dict[str, Any]:
        """Return targets, and how much graphs and labels weigh."""
        shape = (self.steps, self.agents, self.graphs)
        real = chosen < len(self.size) - 1
        weight = real / real.sum(dim=1, keepdim=True).clamp(min=1).double()
        labels, target = self.labels[chosen], self.target[chosen]
        of_labels = labels * -weight.unsqueeze(-1)
        if not self.classes:
            of_labels = labels / labels.sum(dim=(1, 2), keepdim=True).clamp(min=1)
        return {
            "target": target.view(*shape, *target.shape[2:]),
            "graph_weight": weight.to(self.dtype).view(shape),
            "label_weight": of_labels.to(self.dtype).view(*shape, -1),
        }

    def bags(
        self, start: Tensor, index: Tensor, row: Tensor, shift: Tensor, weight: Tensor | None = None
    ) -> list[Bags]:
        """Return, step by step, the given rows of a matrix, their columns shifted."""
        parts = (self.by_step(t) for t in (start[row], start[row + 1], shift))
        return [Bags(index, b, weight, e, by) for b, e, by in zip(*parts, strict=True)]

    def steps_of(
        self, index: Tensor, start: Tensor, stop: Tensor, weight: Tensor | None = None
    ) -> list[Bags]:
        """Return bags of each step, of `index` and `weight (S, ...)`, `start` and `stop (B, n)`."""
        weights = [None] * self.steps if weight is None else weight
        parts = zip(index, self.by_step(start), weights, self.by_step(stop), strict=True)
        return [Bags(*part) for part in parts]

    def everything(self, rows: int) -> Tensor:
        """Return the numbers of all rows of a step, for each step."""
        return torch.arange(rows, dtype=torch.int32, device=self.device).expand(self.steps, -1)

    def by_step(self, values: Tensor) -> Tensor:
        """Put the agents of each step together, `(B, n) -> (S, R·n)`, as kernels read integers."""
        return values.reshape(self.steps, self.agents * values.shape[1]).int()

    def rows(self, matrix: sparse.csr_array) -> tuple[Tensor, Tensor]:
        """Return `start` and `index` of a matrix with one more row, which is empty."""
        start = self.ints(np.append(matrix.indptr, matrix.indptr[-1]))
        index = np.append(matrix.indices, 0)  # at least one entry, so that it can be read
        return start, torch.as_tensor(index.astype(np.int32), device=self.device)

    def ints(self, values: np.ndarray) -> Tensor:
        """Copy integers to the device."""
        return torch.as_tensor(values.astype(np.int64), device=self.device)

    def _numbers(self, values: np.ndarray) -> Tensor:
        return torch.as_tensor(values, dtype=self.dtype, device=self.device)


class _EdgeLabels:
    """The messages along the edges of all graphs, for models that read edge labels."""

    def __init__(self, epochs: Epochs, stack: Stack) -> None:
        sent, graphs = stack.sent, stack.graphs
        assert sent is not None
        self.epochs, self.labels = epochs, sent.labels
        of_graph = np.diff(stack.first_sent[graphs.node_start])
        self.most = max(int(epochs.most(stack, of_graph).max()), 1)
        last = stack.first_sent[-1:]
        self.first = epochs.ints(np.concatenate([stack.first_sent, last]))
        self.label = epochs.ints(np.append(sent.label, sent.labels))
        # Which messages a node receives, and, transposed, which nodes receive a message.
        nodes, messages = len(graphs.degree), len(sent)
        start, index, _ = transpose(graphs.edge_start, sent.message, messages)
        given = (np.ones(len(index), np.float32), index, start)
        received = (np.ones(len(index), np.float32), sent.message, graphs.edge_start)
        self.sent = epochs.rows(sparse.csr_array(given, shape=(messages, nodes)))
        self.received = epochs.rows(sparse.csr_array(received, shape=(nodes, messages)))

    def cut(self, agent: Tensor, nodes: _Nodes) -> list[Messages]:
        """Return the maps of each step."""
        e, P, nothing = self.epochs, self.most, len(self.label) - 1
        base, first = agent * P, self.first[nodes.number]
        length = self.first[nodes.number + 1] - first
        node, offset, real = expand(length, P)
        number = torch.where(real, first.gather(1, node) + offset, nothing)
        row = base + torch.arange(P, device=e.device)
        ends = base + length.cumsum(1)
        source = maps(
            e.steps_of(e.by_step(agent * e.nodes + node), row, row + real),
            e.steps_of(e.everything(e.agents * P), ends - length, ends),
        )
        of_graph = (nodes.row - nodes.number).gather(1, node)
        total = maps(
            e.bags(*self.received, nodes.number, ends - length - first),
            e.bags(*self.sent, number, of_graph),
        )
        return [
            Messages(*parts)
            for parts in zip(source, self._inputs(agent, number, real), total, strict=True)
        ]

    def _inputs(self, agent: Tensor, number: Tensor, real: Tensor) -> list[BagSum]:
        """Return the map from the layer of edge labels, its bias last, to messages."""
        e, P, K = self.epochs, self.most, self.labels
        label, table, base = self.label[number], agent * (K + 1), agent * P
        both = torch.stack([table + label, (table + K).expand_as(label)], dim=2).flatten(1)
        start = 2 * (base + torch.arange(P, device=e.device))
        column, order = sort_within(label, K)
        begin, end = spans(column, K)
        # All messages of an agent, for the bias, follow those by label.
        bias = e.agents * P + base
        row = torch.cat([e.by_step(base + order), e.everything(e.agents * P)], dim=1)
        return maps(
            e.steps_of(e.by_step(both), start, start + 2 * real),
            e.steps_of(
                row,
                torch.cat([base + begin, bias], dim=1),
                torch.cat([base + end, bias + real.sum(dim=1, keepdim=True)], dim=1),
            ),
        )


class _Nodes(NamedTuple):
    """Nodes of batches: their numbers among all, their rows in the stack of a step, the place of
    their graph in the batch, and which of them are real, `(B, N)` each.
    """

    number: Tensor
    row: Tensor
    graph: Tensor
    real: Tensor


class Distinct(NamedTuple):
    """Distinct values of batches, ascending: `value`, `real` and the ends of their places in
    `order`, `(B, Q)` each; places sorted by value, and the number of each place's value, `(B, E)`.
    """

    value: Tensor
    real: Tensor
    start: Tensor
    stop: Tensor
    order: Tensor
    number: Tensor


def expand(length: Tensor, total: int) -> tuple[Tensor, Tensor, Tensor]:
    """Lay items of given `length (B, n)` one after another in `total` places.

    Returns the item of each place, its place within the item, and whether it is real, `(B, total)`.

    >>> [t.tolist() for t in expand(torch.tensor([[2, 0, 1]]), 4)]
    [[[0, 0, 2, 2]], [[0, 1, 0, 1]], [[True, True, True, False]]]
    """
    ends = length.cumsum(1)
    place = torch.arange(total, device=length.device).repeat(len(length), 1)
    item = torch.searchsorted(ends, place, right=True)
    real, item = item < length.shape[1], item.clamp(max=length.shape[1] - 1)
    return item, place - (ends - length).gather(1, item), real


def sort_within(values: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Sort each row of `values (B, E)`, from 0 to `largest`; return them, and their old places.

    As one sort of all rows, which a device does faster than many.

    >>> [t.tolist() for t in sort_within(torch.tensor([[2, 1], [1, 0]]), 2)]
    [[[1, 2], [0, 1]], [[1, 0], [1, 0]]]
    """
    rows = torch.arange(len(values), device=values.device)[:, None]
    kind = torch.int32 if len(values) * (largest + 1) < 2**31 else torch.int64
    code = (values + rows * (largest + 1)).to(kind)
    ordered, order = torch.sort(code.flatten(), stable=True)
    value = ordered.view_as(values) - rows * (largest + 1)
    return value, order.view_as(values) - rows * values.shape[1]


def spans(ordered: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """Return where each of the values 0, 1, ... begins and ends in sorted rows, `(B, columns)`.

    >>> [t.tolist() for t in spans(torch.tensor([[0, 2, 2, 3]]), 3)]
    [[[0, 1, 1]], [[1, 1, 3]]]
    """
    column = torch.arange(columns + 1, device=ordered.device).repeat(len(ordered), 1)
    at = torch.searchsorted(ordered, column)
    return at[:, :-1], at[:, 1:]


def number_distinct(values: Tensor, padding: int, most: int) -> Distinct:
    """Number the distinct values of each row, at most `most` of them; `padding` is the largest.

    >>> found = number_distinct(torch.tensor([[5, 9, 2, 5]]), 9, 3)
    >>> found.value[found.real].tolist(), found.number[0, [0, 2, 3]].tolist()
    ([2, 5], [1, 0, 1])
    """
    ordered, order = sort_within(values, padding)
    new = torch.ones_like(ordered)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    number = new.cumsum(1) - 1
    start, stop = spans(number, most)
    real = start < stop
    value = ordered.gather(1, start.clamp(max=max(values.shape[1] - 1, 0)))
    real = real & (value < padding)
    unsorted = torch.empty_like(number).scatter_(1, order, number)
    return Distinct(value, real, start, torch.where(real, stop, start), order, unsorted)


def maps(forward: Sequence[Bags], backward: Sequence[Bags]) -> list[BagSum]:
    """Return the maps of each step and their transposes."""
    return [BagSum(*ways) for ways in zip(forward, backward, strict=True)]


def _padded(values: np.ndarray) -> np.ndarray:
    return np.concatenate([values, np.zeros_like(values[:1])])
