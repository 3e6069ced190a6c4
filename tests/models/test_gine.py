"""GINE, which reads edge labels, computes what PyG's GINEConv computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from random_graphs import CLASSES, EDGE_LABELS, SIZES, random_graphs
from torch import Tensor
from torch_geometric.nn import GINEConv, global_add_pool
from worlds import CPU

from motifair.graphs.batch import Batch, Shard, collate, make_shard, repeat
from motifair.graphs.features import Features, fit_features
from motifair.graphs.minibatch import Stack
from motifair.models import GINE, message_sum
from motifair.models.perceptron import sum_rows

HIDDEN, LAYERS = 8, 3
PARTS = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])


# With labels alone many nodes have the same neighbourhood, with attributes none.
KINDS = pytest.mark.parametrize("kind", ["label", "label+attributes"])


def agents(kind: str = "label") -> tuple[Features, list[Shard]]:
    graphs = random_graphs(sum(SIZES), seed=8)
    features = fit_features(graphs, PARTS, kind, "auto")
    assert features.kind == kind
    assert features.edges == len(EDGE_LABELS)
    return features, [make_shard(graphs.select(p), features, summed=False) for p in PARTS]


def model_of(features: Features) -> tuple[GINE, Tensor]:
    model = GINE(features.width, CLASSES, HIDDEN, LAYERS, features.edges)
    rows = [model.layout.initial(seed, torch.float64) for seed in range(len(SIZES))]
    return model, torch.stack(rows)


def by_pyg(model: GINE, row: Tensor, shard: Shard, features: Features) -> Tensor:
    """Embeddings of an agent's graphs by PyG, with inputs worked out from their definition."""
    graphs, parameters = shard.graphs, model.layout.to_state_dict(row)
    x = torch.tensor(features.encode(graphs).toarray())
    x = x.double() @ parameters["pre.weight"].T + parameters["pre.bias"]
    target = np.repeat(np.arange(len(graphs.degree)), graphs.degree)
    edges = torch.tensor(np.stack([graphs.neighbour, target]))
    edge_attr = torch.tensor(
        np.asarray(graphs.edge_label)[:, None] == np.array(EDGE_LABELS)
    ).double()
    for k in range(LAYERS):
        parts = (torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, HIDDEN))
        conv = GINEConv(torch.nn.Sequential(*parts), edge_dim=len(EDGE_LABELS)).double()
        own = {
            n.removeprefix(f"convs.{k}."): t for n, t in parameters.items() if f"convs.{k}." in n
        }
        conv.load_state_dict({**conv.state_dict(), **own})
        x = torch.relu(conv(x, edges, edge_attr))
    return global_add_pool(x, torch.tensor(graphs.node_graph), len(graphs))


def gradient(model: GINE, weights: Tensor, batch: Batch) -> Tensor:
    leaf = weights.clone().requires_grad_()
    scores = model.classify(leaf, model.embed(leaf, batch))
    (found,) = torch.autograd.grad((scores * batch.label_weight).sum(), leaf)
    return found


@KINDS
@pytest.mark.parametrize("layers", [0, LAYERS])
def test_embeddings_are_those_of_pyg(kind: str, layers: int) -> None:
    features, shards = agents(kind)
    model, weights = model_of(features)
    batch = collate(shards, CPU, torch.float64, layers=layers)
    assert (batch.distinct is not None) == (layers > 0 and kind == "label")
    with torch.no_grad():
        found = model.embed(weights, batch)
    for k, shard in enumerate(shards):
        expected = by_pyg(model, weights[k], shard, features)
        assert torch.allclose(found[k, : len(shard)], expected, rtol=0, atol=1e-6)
        assert expected.abs().max() > 0.1


@KINDS
def test_distinct_neighbourhoods_change_no_gradient(kind: str) -> None:
    features, shards = agents(kind)
    model, weights = model_of(features)
    batch = collate(shards, CPU, torch.float64)
    assert batch.first is not None
    shared = len(batch.first.spread.backward.start) < len(batch.first.spread.forward.start)
    assert shared == (kind == "label")
    found, expected = (gradient(model, weights, b) for b in (batch, replace(batch, first=None)))
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


@KINDS
def test_the_kernels_of_a_cpu_compute_the_bag_sums_of_other_devices(kind: str) -> None:
    batch = collate(agents(kind)[1], CPU, torch.float64)
    assert batch.messages is not None
    assert batch.first is not None
    draw = torch.Generator().manual_seed(0)
    table = torch.randn(
        batch.rows, len(EDGE_LABELS) + 1, HIDDEN, dtype=torch.float64, generator=draw
    )
    for maps in (batch.messages, batch.first.messages):
        inputs = len(maps.source.backward.start) // batch.rows
        x = torch.randn(batch.rows, inputs, HIDDEN, dtype=torch.float64, generator=draw)
        sums = message_sum.forward(x, table, maps)
        assert torch.allclose(sums.message, message_sum.send_by_bag_sums(x, table, maps))
        g = torch.randn(sums.y.shape, dtype=torch.float64, generator=draw)
        own = g if maps.own is None else sum_rows(maps.own.backward, g)
        of_message = sum_rows(maps.total.backward, g)
        expected = message_sum.backward_by_bag_sums(of_message, sums.message, own, maps)
        computed = message_sum.backward(g, sums.message, table, maps)
        for ours, theirs in zip(computed, expected, strict=True):
            assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)
            assert theirs.abs().max() > 1


@KINDS
def test_the_gradient_is_that_of_finite_differences(kind: str) -> None:
    features, shards = agents(kind)
    model, weights = model_of(features)
    batch = collate(shards, CPU, torch.float64)
    found = gradient(model, weights, batch)
    direction = torch.randn(weights.shape, generator=torch.Generator().manual_seed(0)).double()

    def loss(step: float) -> Tensor:
        moved = weights + step * direction
        return (model.classify(moved, model.embed(moved, batch)) * batch.label_weight).sum()

    slope = (loss(1e-6) - loss(-1e-6)) / 2e-6
    assert float((found * direction).sum()) == pytest.approx(float(slope), rel=1e-5)
    table = model.layout.span("convs.0.lin.")
    assert found[:, table].abs().max() > 1e-4


def test_labels_of_edges_matter() -> None:
    features, shards = agents()
    model, weights = model_of(features)
    graphs = shards[0].graphs
    other = np.full(len(graphs.neighbour), EDGE_LABELS[0])
    changed = replace(shards[0], graphs=replace(graphs, edge_label=other))
    batches = [collate([s], CPU, torch.float64) for s in (shards[0], changed)]
    with torch.no_grad():
        found = [model.embed(weights[:1], b) for b in batches]
    assert not torch.allclose(*found)


@KINDS
def test_mini_batches_have_the_tensors_of_collated_graphs(kind: str) -> None:
    features, shards = agents(kind)
    model, weights = model_of(features)
    stack = Stack(shards, torch.float64)
    chosen = [np.array([4, 1, 0]), np.array([0]), np.array([3, 2])]
    cut = stack.cut([c + f for c, f in zip(chosen, stack.first[:-1], strict=True)])
    whole = collate([s.select(c) for s, c in zip(shards, chosen, strict=True)], CPU, torch.float64)
    assert cut.messages is not None
    assert whole.messages is not None
    for name in ("source", "inputs", "total"):
        for way in ("forward", "backward"):
            mine, theirs = (getattr(getattr(b.messages, name), way) for b in (cut, whole))
            assert torch.equal(mine.index, theirs.index)
            assert torch.equal(mine.start, theirs.start)
    assert cut.first is not None
    assert whole.first is not None
    sizes = [len(b.first.spread.backward.start) for b in (cut, whole) if b.first is not None]
    assert sizes[0] == sizes[1]  # only the neighbourhoods that occur
    found, expected = (gradient(model, weights, b) for b in (cut, whole))
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


def test_repeated_batches_and_graphs_without_edges() -> None:
    features, shards = agents()
    model, weights = model_of(features)
    batch = collate(shards, CPU, torch.float64)
    with torch.no_grad():
        once, twice = (
            model.embed(weights, batch),
            model.embed(weights.repeat(2, 1), repeat(batch, 2)),
        )
        bare = collate([shards[0].select(np.array([0]))], CPU, torch.float64)
        alone = model.embed(weights[:1], bare)
    assert torch.equal(twice, once.repeat(2, 1, 1))
    assert torch.allclose(alone[0, 0], once[0, 0], rtol=0, atol=1e-12)
