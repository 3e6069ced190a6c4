"""All batches of an epoch, cut at once, are those cut one by one, padded."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch
from graphs.graph_samples import graph_sets
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from torch import Tensor

from motifair.bag_sum import Bags, BagSum
from motifair.graphs.batch import Batch, Shard, make_shard
from motifair.graphs.epochs import Epochs
from motifair.graphs.features import fit_features, structure_inputs
from motifair.graphs.minibatch import Stack

CPU, FLOAT = torch.device("cpu"), torch.float64


@st.composite
def agents(draw: st.DrawFn, *, edges: bool) -> tuple[list[Shard], list[list[int]], int]:
    """A few agents with graphs and motifs, the order of the graphs of each, and a batch size."""
    whole = draw(graph_sets(max_graphs=6, attributes=True, edge_labels=edges))
    assume(len(whole.neighbour) or not edges)
    kind = draw(st.sampled_from(["label", "degree", "attributes"]))
    features = fit_features(whole, np.arange(len(whole)), kind, "label" if edges else "ignore")
    summed, structure = draw(st.booleans()), draw(st.booleans())
    shards, orders = [], []
    for _ in range(draw(st.integers(1, 3))):
        held = draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=6))
        shape = (len(held), draw(st.integers(0, 4)))
        flags = draw(st.lists(st.booleans(), min_size=24, max_size=24))
        marks = np.array(flags[: shape[0] * shape[1]], np.float32).reshape(shape)
        own = whole.select(held)
        extra = structure_inputs(own) if structure else None
        motifs = sparse.csr_array(marks)
        shards.append(make_shard(own, features, motifs, summed=summed, structure=extra))
        orders.append(list(draw(st.permutations(range(len(held))))))
    return shards, orders, draw(st.integers(1, 3))


def both(drawn: tuple[list[Shard], list[list[int]], int]) -> list[tuple[Batch, Batch]]:
    """Each step's batches, cut one by one and all at once."""
    shards, orders, batch_size = drawn
    stack, epochs = Stack(shards, FLOAT), Epochs(shards, batch_size, CPU, FLOAT)
    largest = max(map(len, orders))
    order = torch.tensor([o + [7] * (largest - len(o)) for o in orders])
    chosen = [np.array(o, np.int64) + f for o, f in zip(orders, stack.first, strict=False)]
    cut = epochs.cut(order)
    starts = range(0, largest, batch_size)
    return [
        (stack.cut([c[s : s + batch_size] for c in chosen]), batch)
        for s, batch in zip(starts, cut, strict=True)
    ]


def matrix(bags: Bags, inputs: int, outputs: int, rows: int) -> Tensor:
    """The map as a matrix `(R, outputs, R, inputs)`."""
    found = bags(torch.eye(inputs, dtype=FLOAT))
    return found.view(rows, outputs // rows, rows, inputs // rows)


def begins(whole: Tensor, part: Tensor) -> bool:
    """Whether `whole` is `part` with zeros around it."""
    padded = torch.zeros_like(whole)
    padded[tuple(slice(n) for n in part.shape)] = part
    return torch.equal(whole, padded)


def same_map(theirs: BagSum, ours: BagSum, rows: int) -> bool:
    def count(bags: Bags) -> int:
        return len(bags.start) - (bags.stop is None)

    pairs = ((theirs.forward, ours.forward), (theirs.backward, ours.backward))
    sizes = [tuple(count(bags) for bags in pair) for pair in pairs]
    return all(
        begins(*(matrix(pair[k], sizes[1 - way][k], sizes[way][k], rows) for k in (1, 0)))
        for way, pair in enumerate(pairs)
    )


@given(agents(edges=False))
def test_batches_cut_at_once_are_those_cut_one_by_one(
    drawn: tuple[list[Shard], list[list[int]], int],
) -> None:
    for theirs, ours in both(drawn):
        assert ours.rows == theirs.rows
        for name in ("inputs", "spread", "closed", "pool"):
            assert same_map(getattr(theirs, name), getattr(ours, name), ours.rows), name
        for name in ("degree", "structure", "target", "graph_weight", "label_weight"):
            assert begins(getattr(ours, name), getattr(theirs, name)), name
        assert {f.name for f in fields(ours)} == {f.name for f in fields(theirs)}


@given(agents(edges=True))
def test_messages_cut_at_once_are_those_cut_one_by_one(
    drawn: tuple[list[Shard], list[list[int]], int],
) -> None:
    for theirs, ours in both(drawn):
        assert ours.messages is not None
        assert theirs.messages is not None
        for name in ("source", "inputs", "total"):
            one, other = getattr(theirs.messages, name), getattr(ours.messages, name)
            assert same_map(one, other, ours.rows), name


@given(agents(edges=False))
def test_motifs_cut_at_once_are_those_cut_one_by_one(
    drawn: tuple[list[Shard], list[list[int]], int],
) -> None:
    for theirs, ours in both(drawn):
        real = ours.motif_weight > 0
        assert ours.entries is not None
        assert theirs.entries is not None
        assert torch.equal(ours.entries[real], theirs.entries)
        assert torch.equal(ours.motif_weight[real], theirs.motif_weight)
        G = (theirs.target.shape[1], ours.target.shape[1])
        motifs, longer = (
            b.motifs(torch.eye(b.target.numel(), dtype=FLOAT)).view(-1, ours.rows, g)
            for b, g in zip((theirs, ours), G, strict=True)
        )
        assert begins(longer[real], motifs)
        assert (longer[~real] == 0).all()
        graphs = torch.randn(ours.target.numel(), 2, dtype=FLOAT)
        back = longer.flatten(1).T @ (longer.flatten(1) @ graphs)
        assert torch.allclose(ours.motifs.backward(ours.motifs(graphs)), back)
        values = torch.randn(len(real), 1, dtype=FLOAT)
        assert torch.allclose(ours.motif_rows(values), theirs.motif_rows(values[real]))
        spread = ours.motif_rows.backward(torch.arange(ours.rows).double()[:, None])
        agent = theirs.motif_rows.backward(torch.arange(ours.rows).double()[:, None])
        assert torch.equal(spread[real], agent)
