"""Mini-batches of a stack of agents on a CPU, drawn at every training step.

`collate` of the selected graphs gives bit-identical tensors (and also the motifs that do not
occur, and distinct neighbourhoods in another order), but takes as long as the training step itself.
Here the agents' graphs are in flat arrays, compiled kernels extract a batch, and its tensors are
views of two arrays. On a GPU `epochs` cuts the same batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from motifair.bag_sum import Bags, BagSum
from motifair.graphs.batch import (
    Batch,
    Shard,
    closed_neighbourhoods,
    of_targets,
    own_outputs,
)
from motifair.graphs.graph_set import GraphSet, Ints, ranges
from motifair.graphs.kernels import gather_rows, number_values, padded_rows, row_starts, transpose
from motifair.graphs.messages import EdgeMessages, FirstLayer, Messages, Neighbourhoods

Arrays = dict[str, np.ndarray]


class Stack:
    """The graphs of R agents in flat arrays, from which `cut` extracts mini-batches.

    `first` has the number of each agent's first graph and, at its end, the number of all graphs,
    `(R + 1,)`; `first_kind` and `first_motif` have the same for kinds of nodes and for motifs.
    """

    def __init__(self, shards: Sequence[Shard], dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.first = _sums([len(s) for s in shards])
        self.first_kind = _sums([s.kinds.shape[0] for s in shards])
        self.first_motif = _sums([s.motifs.shape[1] for s in shards])
        self.graphs = GraphSet.concatenate("stack", [s.graphs for s in shards])
        self.size = self.graphs.nodes
        self.target, self.labels = of_targets(self.graphs)
        self.allowed = own_outputs(shards, self.labels.shape[1], torch.device("cpu"))
        self.structure = np.concatenate([s.structure for s in shards])
        self.closed = closed_neighbourhoods(self.graphs)
        self.kinds = sparse.csr_array(sparse.vstack([s.kinds for s in shards], format="csr"))
        self.kinds.data = torch.as_tensor(self.kinds.data, dtype=dtype).numpy()
        of_agents = zip(shards, self.first_kind[:-1], strict=True)
        self.kind = np.concatenate([s.kind + k for s, k in of_agents], dtype=np.int32)
        self.motifs = sparse.csr_array(sparse.block_diag([s.motifs for s in shards], "csr"))
        self.motifs.sort_indices()
        columns = shards[0].edge_columns
        self.sent = None if columns is None else EdgeMessages(self.graphs, columns)
        if self.sent is not None and columns is not None:
            self.first_sent = np.searchsorted(self.sent.source, np.arange(len(self.kind) + 1))
            # Kinds are numbered agent by agent, and so is what is made of them.
            self.hoods = Neighbourhoods(self.graphs, columns, self.kind.astype(np.int64))
            agent = np.searchsorted(self.first_kind, self.hoods.own, side="right") - 1
            self.first_hood = np.searchsorted(agent, np.arange(len(shards) + 1))
            self.first_pair = np.searchsorted(self.hoods.sent.source, self.first_kind)

    def cut(self, chosen: Sequence[Ints]) -> Batch:
        """Return a batch of the chosen graphs of each agent, given by their numbers in the stack.

        Only the motifs that occur are included: an agent may have a hundred times as many.
        """
        graph = np.concatenate(chosen)
        size = self.size[graph]
        graphs = _PaddedRows(_sums([len(c) for c in chosen]))
        nodes = _PaddedRows(_sums(size)[graphs.first])
        node = ranges(self.graphs.node_start[graph], size)
        ints, floats = self._motif_parts(graph, graphs)
        ints |= self._node_maps(graphs, size, node, nodes)
        for parts, more in zip((ints, floats), self._input_parts(node, nodes), strict=True):
            parts |= more
        ints |= self._message_maps(node, nodes)
        weight, labels = 1 / np.diff(graphs.first)[graphs.agent], self.labels[graph]
        floats["graph_weight"] = graphs.padded(weight)
        if self.graphs.values is None:
            ints["target"] = graphs.padded(self.target[graph])
            floats["label_weight"] = graphs.padded(labels * -weight[:, None])
        else:
            known = np.bincount(graphs.agent, labels.sum(axis=1), len(chosen))
            floats["target"] = graphs.padded(self.target[graph])
            floats["label_weight"] = graphs.padded(labels / known.clip(min=1)[graphs.agent, None])
        floats["degree"] = nodes.padded(self.graphs.degree[node])
        floats["structure"] = nodes.padded(self.structure[node])
        sent = _tensors(ints, torch.int32) | _tensors(floats, self.dtype)
        R, N, G = len(chosen), nodes.largest, graphs.largest
        return Batch(
            rows=R,
            nodes=N,
            degree=sent["degree"].view(R, N, 1),
            structure=sent["structure"].view(R, N, self.structure.shape[1]),
            inputs=_bag_sum(sent, "inputs"),
            spread=_bag_sum(sent, "spread"),
            closed=_bag_sum(sent, "closed", "closed"),
            pool=_bag_sum(sent, "pool"),
            target=self._shaped(sent["target"], R, G),
            graph_weight=sent["graph_weight"].view(R, G),
            label_weight=sent["label_weight"].view(R, G, self.labels.shape[1]),
            motifs=_bag_sum(sent, "motifs"),
            motif_weight=sent["motif_weight"],
            motif_rows=_bag_sum(sent, "motif_rows"),
            entries=sent["entries"],
            messages=None if self.sent is None else _messages(sent),
            first=None if self.sent is None else _first_layer(sent),
            allowed=self.allowed,
        )

    def _shaped(self, target: Tensor, rows: int, graphs: int) -> Tensor:
        if self.graphs.values is None:
            return target.view(rows, graphs).long()
        return target.view(rows, graphs, self.target.shape[1])

    def _node_maps(self, graphs: _PaddedRows, size: Ints, node: Ints, nodes: _PaddedRows) -> Arrays:
        """Return the maps that sum over neighbourhoods and over graphs."""
        closed, shift = self.closed, nodes.row - node
        return {
            "closed.index": gather_rows(node, closed.indptr, closed.indices, shift)[0],
            "closed.start": nodes.starts(self.graphs.degree[node] + 1),
            "pool.index": nodes.row,
            "pool.start": graphs.starts(size),
            "pool back.index": np.repeat(graphs.row, size),
            "pool back.start": nodes.starts(np.ones_like(node)),
        }

    def _message_maps(self, node: Ints, nodes: _PaddedRows) -> Arrays:
        """Return the maps from nodes and edge labels to messages, and from messages to nodes."""
        if self.sent is None:
            return {}
        count = self.first_sent[node + 1] - self.first_sent[node]
        used, ones = ranges(self.first_sent[node], count), np.ones(count.sum(), np.int64)
        messages = _PaddedRows(_sums(count)[nodes.first])
        place = np.empty(len(self.sent), np.int64)
        place[used] = messages.row
        received, _ = gather_rows(
            node, self.graphs.edge_start, self.sent.message, np.zeros_like(node)
        )
        total, _ = _with_transpose(
            "total", nodes.starts(self.graphs.degree[node]), place[received], messages.rows
        )
        return {
            "source.index": np.repeat(nodes.row, count),
            "source.start": messages.starts(ones),
            "source back.index": messages.row,
            "source back.start": nodes.starts(count),
            **_label_maps("labels", messages, self.sent.label[used], self.sent.labels + 1),
            **total,
        }

    def _first_maps(self, node: Ints, nodes: _PaddedRows, used: Ints, kinds: _PaddedRows) -> Arrays:
        """Return the maps from the `used` kinds to the neighbourhoods that occur, and to nodes."""
        if self.sent is None:
            return {}
        received, sent = self.hoods.received, self.hoods.sent
        hood, number, first = number_values(self.hoods.number[node], nodes.first, self.first_hood)
        hoods = _PaddedRows(first)
        pair, _ = gather_rows(hood, received.indptr, received.indices, np.zeros_like(hood))
        start = hoods.starts(received.indptr[hood + 1] - received.indptr[hood])
        of_agent = start[hoods.largest * np.arange(len(first))]
        pair, message, first = number_values(pair, of_agent, self.first_pair)
        pairs = _PaddedRows(first)
        row = np.empty(self.first_kind[-1], np.int64)
        row[used] = kinds.row
        one, single = (rows.starts(np.ones_like(rows.row)) for rows in (hoods, pairs))
        maps = (
            ("first own", one, row[self.hoods.own[hood]], kinds.rows),
            ("first source", single, row[sent.source[pair]], kinds.rows),
            ("first total", start, pairs.row[message], pairs.rows),
            ("hoods", nodes.starts(np.ones_like(node)), hoods.row[number], hoods.rows),
        )
        parts = _label_maps("first labels", pairs, sent.label[pair], sent.labels + 1)
        for each in maps:
            parts |= _with_transpose(*each)[0]
        return parts

    def _input_parts(self, node: Ints, nodes: _PaddedRows) -> tuple[Arrays, Arrays]:
        """Return the maps from inputs to the kinds that occur, and from kinds to nodes."""
        used, number, first = number_values(self.kind[node], nodes.first, self.first_kind)
        kinds = _PaddedRows(first)
        width, source = self.kinds.shape[1], self.kinds
        column, entry = gather_rows(used, source.indptr, source.indices, kinds.agent * width)
        start = kinds.starts(source.indptr[used + 1] - source.indptr[used])
        weight = source.data[entry]
        single, kind = nodes.starts(np.ones_like(node)), kinds.row[number]
        ints, entry = _with_transpose("inputs", start, column, (len(first) - 1) * width)
        spread, _ = _with_transpose("spread", single, kind, kinds.rows)
        ints |= spread | self._first_maps(node, nodes, used, kinds)
        return ints, {"inputs.weight": weight, "inputs back.weight": weight[entry]}

    def _motif_parts(self, graph: Ints, graphs: _PaddedRows) -> tuple[Arrays, Arrays]:
        """Return the maps that sum the graphs with each motif, and the motifs of each agent."""
        source = self.motifs
        motif, _ = gather_rows(graph, source.indptr, source.indices, np.zeros_like(graph))
        start = graphs.starts(source.indptr[graph + 1] - source.indptr[graph])
        of_agent = start[graphs.largest * np.arange(len(graphs.first))]
        used, motif, first = number_values(motif, of_agent, self.first_motif)
        ints, _ = _with_transpose("motifs back", start, motif, len(used), back="motifs")
        containing = np.diff(ints["motifs.start"])
        weight = np.divide(1.0, containing, out=np.zeros(len(used)), where=containing > 0)
        motifs = _PaddedRows(first)
        ints |= {
            "motif_rows.index": np.arange(len(used)),
            "motif_rows.start": motifs.first,
            "motif_rows back.index": motifs.agent,
            "motif_rows back.start": np.arange(len(used) + 1),
            "entries": used,
        }
        return ints, {"motif_weight": weight}


class _PaddedRows:
    """Rows of the items of R agents in a stack in which each agent is padded to the largest.

    Agent r has the items `first[r]:first[r+1]`; item k belongs to `agent[k]` and has row `row[k]`
    of `rows`.
    """

    def __init__(self, first: Ints) -> None:
        self.first = first
        self.largest, self.agent, self.row = padded_rows(first)
        self.rows = (len(first) - 1) * self.largest

    def padded(self, values: np.ndarray) -> np.ndarray:
        """Return the items' values in their rows, zeros in the padding."""
        out = np.zeros((self.rows, *values.shape[1:]), values.dtype)
        out[self.row] = values
        return out

    def starts(self, length: Ints) -> np.ndarray:
        """Return the start of each row's bag; item k has `length[k]` entries in its bag."""
        start: np.ndarray = row_starts(self.row, length, self.rows)
        return start


def _with_transpose(
    name: str, start: np.ndarray, index: np.ndarray, columns: int, back: str | None = None
) -> tuple[Arrays, Ints]:
    """Return the named arrays of a map and its transpose, and the old position of its entries."""
    back_start, back_index, entry = transpose(start, index, columns)
    back = back or f"{name} back"
    parts = {f"{name}.index": index, f"{name}.start": start}
    return parts | {f"{back}.index": back_index, f"{back}.start": back_start}, entry


def _label_maps(name: str, messages: _PaddedRows, label: Ints, width: int) -> Arrays:
    """Return the map from rows of edge labels, that of the bias last, to messages."""
    row = messages.agent * width
    both = np.column_stack([row + label, row + width - 1]).ravel()
    start = messages.starts(np.full_like(row, 2))
    return _with_transpose(name, start, both, (len(messages.first) - 1) * width)[0]


def _tensors(parts: Mapping[str, np.ndarray], dtype: torch.dtype) -> dict[str, Tensor]:
    """Convert arrays to one tensor; return flat views of it by name."""
    flat = [p.ravel() for p in parts.values()]
    size = [len(p) for p in flat]
    packed = torch.empty(sum(size), dtype=dtype)
    np.concatenate(flat, out=packed.numpy(), casting="same_kind")
    return dict(zip(parts, torch.split(packed, size), strict=True))


def _bag_sum(sent: Mapping[str, Tensor], name: str, back: str | None = None) -> BagSum:
    forward, backward = (
        Bags(sent[f"{n}.index"], sent[f"{n}.start"], sent.get(f"{n}.weight"))
        for n in (name, back or f"{name} back")
    )
    return BagSum(forward, backward)


def _messages(sent: Mapping[str, Tensor]) -> Messages:
    return Messages(*(_bag_sum(sent, name) for name in ("source", "labels", "total")))


def _first_layer(sent: Mapping[str, Tensor]) -> FirstLayer:
    names = ("first source", "first labels", "first total", "first own")
    return FirstLayer(Messages(*(_bag_sum(sent, n) for n in names)), _bag_sum(sent, "hoods"))


def _sums(counts: Sequence[int] | Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
