"""A PyG module of the user computes what the built-in network of the same layers computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from own_modules import built_in
from random_graphs import CLASSES, SIZES, random_graphs
from torch import Tensor
from worlds import CPU

from motifair.graphs.batch import Shard, collate, make_shard
from motifair.graphs.features import Features, fit_features
from motifair.graphs.minibatch import Stack
from motifair.graphs.task import Task
from motifair.learning.randomness import DropoutBits, stream_keys
from motifair.models import GIN, GINE, Model, Noise
from motifair.models.module import ModuleModel

HIDDEN, LAYERS = 8, 2
PARTS = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
TASK = Task("classes", CLASSES)
KINDS = pytest.mark.parametrize(
    ("kind", "edges"),
    [("label", "ignore"), ("degree", "ignore"), ("label+attributes", "ignore"), ("label", "label")],
)


def agents(kind: str, edges: str, *, summed: bool) -> tuple[Features, list[Shard]]:
    graphs = random_graphs(sum(SIZES), seed=8)
    features = fit_features(graphs, PARTS, kind, edges)
    return features, [make_shard(graphs.select(p), features, summed=summed) for p in PARTS]


def module_for(name: str, features: Features) -> ModuleModel:
    sizes = {"width": features.width, "outputs": CLASSES, "edges": features.edges}
    more = {"hidden": HIDDEN, "layers": LAYERS, "dropout": 0.5}
    return ModuleModel(name, {**sizes, **more}, TASK)


def network_for(features: Features) -> GIN | GINE:
    sizes = features.width, CLASSES, HIDDEN, LAYERS
    return GINE(*sizes, features.edges) if features.edges else GIN(*sizes)


def passed(model: Model, weights: Tensor, batch: object) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings, scores, and the gradient of a mixture of both."""
    leaf = weights.clone().requires_grad_()
    embedding, scores = model.forward(leaf, batch)  # type: ignore[arg-type]
    assert embedding is not None
    real = (batch.graph_weight > 0)[:, :, None]  # type: ignore[attr-defined]
    place = torch.cos(torch.arange(real.shape[1], dtype=torch.float64))[:, None]
    asked = real if batch.allowed is None else real & batch.allowed  # type: ignore[attr-defined]
    loss = (scores * asked * place).sum() + (embedding * real * place).sum()
    (gradient,) = torch.autograd.grad(loss, leaf)
    return (embedding * real).detach(), (scores * real).detach(), gradient


@KINDS
@pytest.mark.parametrize(
    ("cut", "own"), [(False, False), (True, False), (False, True)], ids=["whole", "cut", "own"]
)
def test_scores_embeddings_and_gradients_are_those_of_the_built_in_network(
    kind: str, edges: str, cut: bool, own: bool
) -> None:
    """`own`: the first agent does not have the last class, nor is asked for it."""
    features, summed = agents(kind, edges, summed=edges == "ignore")
    _, plain = agents(kind, edges, summed=False)
    if own:
        summed[0], plain[0] = (replace(s[0], outputs=CLASSES - 1) for s in (summed, plain))
    network, module = network_for(features), module_for("own_modules:PlainGIN", features)
    seeds = range(len(SIZES))
    rows, theirs = (
        torch.stack([m.layout.initial(s, torch.float64) for s in seeds]) for m in (network, module)
    )
    batches = []
    for shards in (summed, plain):
        stack = Stack(shards, torch.float64)
        # One agent has no graphs in this mini-batch, as one with fewer of them at the end.
        chosen = [stack.first[0] + np.array([4, 1]), np.zeros(0, np.int64), np.array([8])]
        batches.append(stack.cut(chosen) if cut else collate(shards, CPU, torch.float64))
    if own:
        assert batches[1].allowed is not None
    expected, found = passed(network, rows, batches[0]), passed(module, theirs, batches[1])
    for a, b in zip(expected[:2], found[:2], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    layout = built_in(features.width, CLASSES, features.edges, HIDDEN, LAYERS)
    for r in seeds:
        ours, by_name = (
            layout.to_state_dict(expected[2][r]),
            module.layout.unpack(found[2][r][None]),
        )
        for name, gradient in by_name.items():
            torch.testing.assert_close(ours[name], gradient[0], rtol=1e-9, atol=1e-9)


def test_an_agent_drops_the_same_in_any_company() -> None:
    features, shards = agents("label", "ignore", summed=False)
    module = module_for("own_modules:GCN", features)
    weights = torch.stack([module.layout.initial(s, torch.float32) for s in range(3)])
    keys, dropout = stream_keys(1, ["a", "b", "c"], CPU), DropoutBits(0.5, CPU)
    before = torch.random.get_rng_state()
    _, together = module.forward(weights, collate(shards, CPU, torch.float32), Noise(keys, dropout))
    for r, shard in enumerate(shards):
        row = slice(r, r + 1)
        batch = collate([shard], CPU, torch.float32)
        _, alone = module.forward(weights[row], batch, Noise(keys[row], dropout))
        assert torch.equal(alone[0], together[r, : len(shard)])
        assert not torch.equal(alone, module.forward(weights[row], batch)[1])
        other = Noise(keys[row] + 1, dropout)
        assert not torch.equal(alone, module.forward(weights[row], batch, other)[1])
    assert torch.equal(before, torch.random.get_rng_state())  # nobody else's numbers are drawn


def test_initial_weights_follow_from_the_seed() -> None:
    features, _ = agents("label", "ignore", summed=False)
    layout = module_for("own_modules:GCN", features).layout
    first, again, other = (layout.initial(s, torch.float32) for s in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    named = layout.to_state_dict(first)
    assert torch.equal(layout.from_state_dict(named), first)
    assert {n: tuple(t.shape) for n, t in named.items()} == layout.state_shapes()
