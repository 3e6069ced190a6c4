"""A mini-batch cut out of a stack equals the selected graphs, collated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from graphs.graph_samples import graph_sets
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch import Tensor

from motifair.bag_sum import BagSum
from motifair.graphs.batch import Batch, Shard, collate, make_shard
from motifair.graphs.features import fit_features, structure_inputs
from motifair.graphs.minibatch import Stack

CPU = torch.device("cpu")
DTYPES = st.sampled_from([torch.float32, torch.float64])


@st.composite
def chosen_graphs(draw: st.DrawFn) -> tuple[list[Shard], list[np.ndarray]]:
    """A few agents with graphs and motifs, and some of the graphs of each, perhaps none."""
    whole = draw(graph_sets(max_graphs=6, attributes=True, edge_labels=False))
    kind = draw(st.sampled_from(["label", "degree", "attributes"]))
    features = fit_features(whole, np.arange(len(whole)), kind)
    summed, structure = draw(st.booleans()), draw(st.booleans())
    shards, chosen = [], []
    for _ in range(draw(st.integers(1, 3))):
        held = draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=6))
        shape = (len(held), draw(st.integers(0, 4)))
        flags = draw(st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=24))
        marks = np.array(flags[: shape[0] * shape[1]], np.float32).reshape(shape)
        motifs = sparse.csr_array(marks)
        own = whole.select(held)
        extra = structure_inputs(own) if structure else None
        shards.append(make_shard(own, features, motifs, summed=summed, structure=extra))
        order = draw(st.permutations(range(len(held))))
        chosen.append(np.array(order[: draw(st.integers(0, len(held)))], dtype=np.int64))
    return shards, chosen


def both(drawn: tuple[list[Shard], list[np.ndarray]], dtype: torch.dtype) -> tuple[Batch, Batch]:
    shards, chosen = drawn
    stack = Stack(shards, dtype)
    numbers = [c + first for c, first in zip(chosen, stack.first, strict=False)]
    cut = stack.cut(numbers)
    return cut, collate([s.select(c) for s, c in zip(shards, chosen, strict=True)], CPU, dtype)


def parts(batch: Batch, dtype: torch.dtype) -> Iterator[tuple[str, Any]]:
    """Every number of a batch by name; weights as they are used, in the type of the rows."""
    for field in fields(batch):
        value = getattr(batch, field.name)
        if "motif" in field.name or field.name == "entries":  # the next test has them
            continue
        if not isinstance(value, BagSum):
            yield field.name, value
            continue
        for way in ("forward", "backward"):
            bags = getattr(value, way)
            weight = None if bags.weight is None else bags.weight.to(dtype)
            yield f"{field.name}.{way}", (bags.index, bags.start, weight)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return bool(a == b)


@given(chosen_graphs(), DTYPES)
def test_a_cut_batch_equals_the_collated_one_number_for_number(
    drawn: tuple[list[Shard], list[np.ndarray]], dtype: torch.dtype
) -> None:
    cut, collated = both(drawn, dtype)
    for (name, ours), (_, theirs) in zip(parts(cut, dtype), parts(collated, dtype), strict=True):
        assert same(ours, theirs), name


@given(chosen_graphs())
def test_a_batch_has_only_the_motifs_that_occur_in_it(
    drawn: tuple[list[Shard], list[np.ndarray]],
) -> None:
    cut, collated = both(drawn, torch.float64)
    occurring = torch.nonzero(collated.motif_weight)[:, 0]
    assert cut.entries is not None
    assert cut.entries.tolist() == occurring.tolist()
    assert torch.equal(cut.motif_weight, cut.select_motifs(collated.motif_weight))
    graphs = torch.eye(collated.target.numel(), dtype=torch.float64)
    assert torch.equal(cut.motifs(graphs), collated.motifs(graphs)[occurring])
    assert torch.equal(cut.motifs.backward(cut.motifs(graphs)), _squared(collated, graphs))
    ones = torch.ones(len(collated.motif_weight), 1, dtype=torch.float64)
    counted = collated.motif_rows(ones * (collated.motif_weight > 0)[:, None])
    assert torch.equal(cut.motif_rows(cut.select_motifs(ones)), counted)


def _squared(batch: Batch, rows: Tensor) -> Tensor:
    """The motif map, then its transpose."""
    return batch.motifs.backward(batch.motifs(rows))
