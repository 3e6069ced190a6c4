"""Shards and batches: the sparse maps of a stack equal dense matrices written down naively."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from graphs.graph_samples import described, graph_sets
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import block_diag

from motifair.bag_sum import BagSum
from motifair.graphs.batch import Shard, collate, make_shard
from motifair.graphs.features import Features, fit_features
from motifair.graphs.graph_set import GraphSet

CPU = torch.device("cpu")
KINDS = ("label", "degree", "attributes")


@dataclass(frozen=True)
class Dense:
    """One agent's graphs as plain matrices."""

    closed: np.ndarray
    inputs: np.ndarray
    pool: np.ndarray
    motifs: np.ndarray
    target: list[int]


@st.composite
def stacks(draw: st.DrawFn) -> tuple[list[Shard], list[Dense]]:
    """Shards of a few agents, of unequal size, one of them possibly empty."""
    whole = draw(graph_sets(max_graphs=6, attributes=True, edge_labels=False))
    features = fit_features(whole, np.arange(len(whole)), draw(st.sampled_from(KINDS)))
    shards, dense = [], []
    for _ in range(draw(st.integers(1, 3))):
        chosen = draw(st.lists(st.integers(0, len(whole) - 1), max_size=4))
        graphs = whole.select(chosen)
        marks = draw(st.integers(0, 3))
        flags = draw(st.lists(st.integers(0, 1), min_size=len(chosen) * marks, max_size=99))
        motifs = np.array(flags[: len(chosen) * marks], float).reshape(len(chosen), marks)
        shards.append(make_shard(graphs, features, sparse.csr_array(motifs)))
        dense.append(written_down(graphs, features, motifs))
    return shards, dense


def written_down(graphs: GraphSet, features: Features, motifs: np.ndarray) -> Dense:
    nodes = len(graphs.degree)
    closed, pool = np.eye(nodes), np.zeros((len(graphs), nodes))
    for g, (n, edges, *_) in enumerate(described(graphs)):
        first = graphs.node_start[g]
        pool[g, first : first + n] = 1
        for u, v in edges:
            closed[first + u, first + v] = 1
    inputs = np.hstack([features.encode(graphs).toarray(), np.ones((nodes, 1))])
    return Dense(closed, inputs, pool, motifs, graphs.target.tolist())


def padded(matrix: np.ndarray, height: int, width: int) -> np.ndarray:
    grown = np.zeros((height, width))
    grown[: matrix.shape[0], : matrix.shape[1]] = matrix
    return grown


def matrix(bags: BagSum, inputs: int) -> np.ndarray:
    """The matrix of a map, column by column."""
    return bags(torch.eye(inputs, dtype=torch.float64)).numpy()


@given(stacks())
def test_neighbour_sums_and_pooling_equal_dense_matrices(
    stack: tuple[list[Shard], list[Dense]],
) -> None:
    shards, dense = stack
    batch = collate(shards, CPU, torch.float64)
    R, N, G = len(dense), max(len(d.closed) for d in dense), max(len(d.target) for d in dense)
    assert (batch.rows, batch.nodes) == (R, N)
    closed = block_diag(*(padded(d.closed, N, N) for d in dense))
    pool = block_diag(*(padded(d.pool, G, N) for d in dense))
    assert np.array_equal(matrix(batch.closed, R * N), closed)
    assert np.array_equal(matrix(batch.pool, R * N), pool)


@given(stacks())
def test_spread_inputs_are_the_sums_over_each_node_and_its_neighbours(
    stack: tuple[list[Shard], list[Dense]],
) -> None:
    shards, dense = stack
    batch = collate(shards, CPU, torch.float64)
    N, width = batch.nodes, dense[0].inputs.shape[1]
    sums = block_diag(*(padded(d.closed @ d.inputs, N, width) for d in dense))
    weights = torch.eye(len(dense) * width, dtype=torch.float64)
    spread = batch.spread(batch.inputs(weights)).numpy()
    assert spread == pytest.approx(sums, rel=1e-12, abs=1e-12)


@given(stacks())
def test_the_backward_maps_are_the_transposed_ones(
    stack: tuple[list[Shard], list[Dense]],
) -> None:
    batch = collate(stack[0], CPU, torch.float64)
    R, G = batch.target.shape
    kinds = max(s.kinds.shape[0] for s in stack[0])
    for bags, inputs, outputs in (
        (batch.spread, R * kinds, R * batch.nodes),
        (batch.closed, R * batch.nodes, R * batch.nodes),
        (batch.pool, R * batch.nodes, R * G),
        (batch.motifs, R * G, len(batch.motif_weight)),
        (batch.motif_rows, len(batch.motif_weight), R),
    ):
        back = bags.backward(torch.eye(outputs, dtype=torch.float64)).numpy()
        assert np.array_equal(back, matrix(bags, inputs).T)


@given(stacks())
def test_padding_has_no_weight_and_each_agents_graphs_have_one_in_all(
    stack: tuple[list[Shard], list[Dense]],
) -> None:
    shards, dense = stack
    batch = collate(shards, CPU, torch.float64)
    for r, d in enumerate(dense):
        n = len(d.target)
        assert batch.target[r, :n].tolist() == d.target
        assert batch.graph_weight[r, :n].tolist() == pytest.approx([1 / max(n, 1)] * n)
        assert not batch.graph_weight[r, n:].any()


@given(stacks())
def test_motif_maps_average_over_the_graphs_with_the_motif(
    stack: tuple[list[Shard], list[Dense]],
) -> None:
    shards, dense = stack
    batch = collate(shards, CPU, torch.float64)
    R, G = batch.target.shape
    motifs = [(r, graphs) for r, d in enumerate(dense) for graphs in d.motifs.T]
    contained = np.zeros((len(motifs), R, G))
    for m, (r, graphs) in enumerate(motifs):
        contained[m, r, : len(graphs)] = graphs
    assert np.array_equal(matrix(batch.motifs, R * G), contained.reshape(len(motifs), R * G))
    count = contained.sum(axis=(1, 2))
    owner = [[float(r == agent) for agent, _ in motifs] for r in range(R)]
    assert matrix(batch.motif_rows, len(motifs)).tolist() == owner
    assert batch.motif_weight.tolist() == pytest.approx([1 / c if c else 0 for c in count])


@given(stacks())
def test_each_kind_of_node_is_listed_once_and_used(
    stack: tuple[list[Shard], list[Dense]],
) -> None:
    for shard in stack[0]:
        rows = {tuple(row) for row in shard.kinds.toarray().tolist()}
        assert len(rows) == shard.kinds.shape[0]
        assert np.unique(shard.kind).tolist() == list(range(shard.kinds.shape[0]))


@given(graph_sets(max_graphs=6, attributes=True), st.sampled_from(KINDS), st.data())
def test_selecting_from_a_shard_equals_a_shard_of_the_selected(
    graphs: GraphSet, kind: str, data: st.DataObject
) -> None:
    features = fit_features(graphs, np.arange(len(graphs)), kind)
    motifs = sparse.csr_array(np.arange(2 * len(graphs)).reshape(-1, 2) % 3 > 0).astype(float)
    chosen = np.array(data.draw(st.lists(st.integers(0, len(graphs) - 1))), dtype=np.int64)
    selected = make_shard(graphs, features, motifs).select(chosen)
    expected = make_shard(graphs.select(chosen), features, motifs[chosen])
    assert len(selected) == len(chosen)
    assert described(selected.graphs) == described(expected.graphs)
    assert selected.kinds.shape == expected.kinds.shape
    ours, theirs = (s.kinds.toarray()[s.kind] for s in (selected, expected))
    assert np.array_equal(ours, theirs)
    assert np.array_equal(selected.motifs.toarray(), expected.motifs.toarray())


def test_stacking_leaves_the_shards_as_they_were(mutag: GraphSet) -> None:
    features = fit_features(mutag, np.arange(len(mutag)), "label")
    shards = [make_shard(mutag.select(np.arange(n)), features) for n in (3, 9)]
    before = [(s.kinds.toarray(), s.kind.copy(), s.motifs.shape) for s in shards]
    collate(shards, CPU, torch.float32)
    for shard, (kinds, kind, shape) in zip(shards, before, strict=True):
        assert np.array_equal(shard.kinds.toarray(), kinds)
        assert np.array_equal(shard.kind, kind)
        assert shard.motifs.shape == shape


def test_an_empty_shard_is_a_row_of_padding(mutag: GraphSet) -> None:
    features = fit_features(mutag, np.arange(len(mutag)), "label")
    full = make_shard(mutag.select([0, 1]), features, sparse.csr_array(np.ones((2, 2))))
    batch = collate([full.select(np.array([], dtype=np.int64)), full], CPU, torch.float64)
    N = batch.nodes
    assert batch.rows == 2
    assert not matrix(batch.closed, 2 * N)[:N].any()
    assert not matrix(batch.pool, 2 * N)[:2].any()
    assert batch.graph_weight.tolist() == [[0, 0], [0.5, 0.5]]
    assert batch.motif_weight.tolist() == [0, 0, 0.5, 0.5]
    assert matrix(batch.closed, 2 * N)[N:].sum() == N + 2 * mutag.select([0, 1]).edges.sum()


def test_few_kinds_of_nodes_serve_all_nodes_of_proteins(proteins: GraphSet) -> None:
    features = fit_features(proteins, np.arange(len(proteins)), "label")
    shard = make_shard(proteins.select(np.arange(100)), features)
    assert shard.kinds.shape[0] < len(shard.kind) / 20
