"""A stack of unequal agents computes what each computes alone, and what plain PyG computes."""

from __future__ import annotations

import pytest
import torch
from oracles import naive
from random_graphs import CLASSES, SIZES, as_pyg, random_agents
from torch import Tensor
from worlds import CPU, pack_bits

from motifair.graphs.batch import Shard, collate
from motifair.models import GIN
from motifair.models.perceptron import DropoutMask

HIDDEN, LAYERS = 8, 3
KINDS = pytest.mark.parametrize("kind", ["label", "degree", "attributes"])
DROPPED = pytest.mark.parametrize("dropped", [False, True], ids=["whole", "dropped"])


def make_model(width: int) -> tuple[GIN, Tensor]:
    """A model and different weights for each of the agents."""
    model = GIN(width, CLASSES, HIDDEN, LAYERS)
    rows = [model.layout.initial(seed, torch.float64) for seed in range(len(SIZES))]
    return model, torch.stack(rows)


def make_masks(nodes: int, graphs: int) -> list[Tensor]:
    """Masks of all agents, padding included; what is drawn first does not depend on padding."""
    generator = torch.Generator().manual_seed(0)
    sizes = [nodes] * LAYERS + [graphs]
    rows = [
        (torch.rand(n, len(SIZES), HIDDEN, generator=generator) < 0.5).double().transpose(0, 1)
        for n in sizes
    ]
    return [2 * r for r in rows]


def outputs(
    model: GIN, weights: Tensor, shards: list[Shard], masks: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings, log-probabilities, and the gradient of a mixture of both for every row."""
    batch = collate(shards, CPU, torch.float64)
    leaf = weights.clone().requires_grad_()
    keep = [DropoutMask(pack_bits(m), float(m.max())) for m in masks]
    embedding = model.embed(leaf, batch, keep)
    scores = model.classify(leaf, embedding, keep)
    real = (batch.graph_weight > 0)[:, :, None]
    mixture = (mixed(embedding) * real).sum() + (mixed(scores) * real).sum()
    (gradient,) = torch.autograd.grad(mixture, leaf)
    return embedding.detach(), scores.detach(), gradient


def mixed(x: Tensor) -> Tensor:
    """Unlike a plain sum, this tells graphs and units apart."""
    place = torch.arange(x.shape[-2] * x.shape[-1], dtype=x.dtype)
    return x * torch.cos(place).view(x.shape[-2:])


def naive_outputs(
    model: GIN, row: Tensor, shard: Shard, kind: str, masks: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    features, _ = random_agents(kind)
    state = model.layout.to_state_dict(row)
    plain = naive.build_model(state, torch.float64).train(bool(masks))
    batch = naive.collate(as_pyg(shard, features), torch.float64)
    scores, embedding = plain(batch, masks or None)
    (mixed(embedding).sum() + mixed(scores).sum()).backward()
    # Matrices of ours are stored (inputs, outputs).
    gradients = {n: p.grad for n, p in plain.named_parameters()}
    flat = [gradients[n].T if gradients[n].dim() == 2 else gradients[n] for n in model.layout.names]
    return embedding.detach(), scores.detach(), torch.cat([g.flatten() for g in flat])


def own_masks(masks: list[Tensor], row: int, shard: Shard) -> list[Tensor]:
    nodes = len(shard.graphs.degree)
    return [m[row, : (nodes if k < LAYERS else len(shard))] for k, m in enumerate(masks)]


def padded_masks(shards: list[Shard], dropped: bool) -> list[Tensor]:
    if not dropped:
        return []
    return make_masks(max(len(s.graphs.degree) for s in shards), max(len(s) for s in shards))


@KINDS
@DROPPED
def test_a_stack_computes_what_each_agent_computes_alone(kind: str, dropped: bool) -> None:
    features, shards = random_agents(kind)
    model, weights = make_model(features.width)
    masks = padded_masks(shards, dropped)
    embedding, scores, gradient = outputs(model, weights, shards, masks)
    for row, shard in enumerate(shards):
        own = [m[None] for m in own_masks(masks, row, shard)]
        alone = outputs(model, weights[[row]], [shard], own)
        close = {"rtol": 0, "atol": 1e-12 * max(1.0, float(alone[2].abs().max()))}
        assert torch.allclose(embedding[row, : len(shard)], alone[0][0], **close)
        assert torch.allclose(scores[row, : len(shard)], alone[1][0], **close)
        assert torch.allclose(gradient[row], alone[2][0], **close)


@KINDS
@DROPPED
def test_a_stack_computes_what_plain_pyg_computes(kind: str, dropped: bool) -> None:
    features, shards = random_agents(kind)
    model, weights = make_model(features.width)
    masks = padded_masks(shards, dropped)
    embedding, scores, gradient = outputs(model, weights, shards, masks)
    # Inputs are stored in single precision, which is exact for counts but not for attributes.
    tolerance = 1e-5 if kind == "attributes" else 1e-9
    for row, shard in enumerate(shards):
        plain = naive_outputs(model, weights[row], shard, kind, own_masks(masks, row, shard))
        close = {"rtol": tolerance, "atol": tolerance}
        assert torch.allclose(embedding[row, : len(shard)], plain[0], **close)
        assert torch.allclose(scores[row, : len(shard)], plain[1], **close)
        assert torch.allclose(gradient[row], plain[2], **close)


def test_the_random_agents_have_isolated_nodes_and_graphs_of_one_node() -> None:
    _, shards = random_agents("label")
    assert any((s.graphs.degree == 0).any() for s in shards)
    assert any((s.graphs.nodes == 1).any() for s in shards)
    assert any((s.graphs.edges == 0).any() and (s.graphs.nodes > 1).any() for s in shards)


def test_an_agent_without_graphs_does_not_disturb_the_others() -> None:
    features, shards = random_agents("label")
    model, weights = make_model(features.width)
    empty = shards[1].select(torch.zeros(0, dtype=torch.int64).numpy())
    expected = outputs(model, weights, shards, [])
    found = outputs(model, weights, [shards[0], empty, shards[2]], [])
    for row in (0, 2):
        for ours, theirs in zip(found, expected, strict=True):
            assert torch.allclose(ours[row], theirs[row], rtol=0, atol=1e-12)
    assert not found[2][1].any()


def test_embeddings_come_in_the_order_of_the_graphs() -> None:
    features, shards = random_agents("label")
    model, weights = make_model(features.width)
    backwards = shards[0].select(torch.arange(len(shards[0])).flip(0).numpy())
    there, back = (outputs(model, weights[:1], [s], []) for s in (shards[0], backwards))
    assert torch.allclose(there[0].flip(1), back[0], rtol=0, atol=1e-12)


def test_log_probabilities_are_normalised() -> None:
    features, shards = random_agents("label")
    model, weights = make_model(features.width)
    _, scores, _ = outputs(model, weights, shards, [])
    assert scores.shape == (len(SIZES), max(SIZES), CLASSES)
    total = scores.exp().sum(dim=-1)
    assert torch.allclose(total, torch.ones_like(total), rtol=0, atol=1e-12)
