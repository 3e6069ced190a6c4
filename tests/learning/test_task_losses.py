"""Losses of binary tasks and numbers against plain PyTorch, which sees known labels alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from oracles import naive
from targets_world import planted_numbers, planted_tasks
from torch import Tensor
from torch.nn import functional
from worlds import CPU, to_pyg

from motifair.graphs.batch import Batch, collate, make_shard
from motifair.graphs.epochs import Epochs
from motifair.graphs.features import fit_features
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.minibatch import Stack
from motifair.graphs.task import Task, fit_task
from motifair.learning.objective import discrimination, mean_loss
from motifair.models import GIN

PARTS = (np.arange(25), np.arange(25, 28), np.arange(28, 80))
GRAPHS = {"binary": planted_tasks(), "regression": planted_numbers(holes=0.3)}
KINDS = pytest.mark.parametrize("kind", GRAPHS)


def made(kind: str, graphs: GraphSet | None = None) -> tuple[GIN, Task, Tensor, Batch]:
    """A model, its task, weights of three agents, and a batch of their graphs."""
    graphs = GRAPHS[kind] if graphs is None else graphs
    features = fit_features(graphs, PARTS, "label")
    task = fit_task(GRAPHS[kind], PARTS, kind)
    model = GIN(features.width, task.outputs, 16, 2, task=task)
    weights = torch.stack([model.layout.initial(seed, torch.float64) for seed in range(3)])
    shards = [make_shard(task.encode(graphs).select(part), features) for part in PARTS]
    return model, task, weights, collate(shards, CPU, torch.float64)


def losses(model: GIN, weights: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Every agent's loss, and the gradient of their sum."""
    leaf = weights.clone().requires_grad_()
    loss = mean_loss(model.task.kind, model.classify(leaf, model.embed(leaf, batch)), batch)
    (gradient,) = torch.autograd.grad(loss.sum(), leaf)
    return loss.detach(), gradient


class Scores(naive.GIN):
    """The oracle's network without the softmax: it reads the scores before it."""

    def forward(self, data, masks=None, dropout=0.0):  # type: ignore[no-untyped-def]
        seen: list[Tensor] = []
        handle = self.readout.register_forward_hook(lambda _, __, out: seen.append(out))
        super().forward(data, masks, dropout)
        handle.remove()
        return seen[0]


@KINDS
def test_loss_and_gradient_are_those_of_plain_pytorch_on_known_labels(kind: str) -> None:
    model, task, weights, batch = made(kind)
    loss, gradient = losses(model, weights, batch)
    values = GRAPHS[kind].values
    assert values is not None
    for k, part in enumerate(PARTS):
        state = model.layout.to_state_dict(weights[k])
        plain = Scores(model.width, task.outputs, 16, 2).double()
        plain.load_state_dict(state, strict=False)  # PyG has an ε, which is 0
        scores = plain(naive.collate(to_pyg(GRAPHS[kind], part), torch.float64))
        known = torch.tensor(~np.isnan(values[part]))
        if kind == "binary":
            target = torch.tensor(values[part])[known]
            expected = functional.binary_cross_entropy_with_logits(scores[known], target)
        else:
            every = np.concatenate(PARTS)
            scaled = (values - np.nanmean(values[every], 0)) / np.nanstd(values[every], 0)
            expected = functional.mse_loss(scores[known], torch.tensor(scaled[part])[known])
        torch.testing.assert_close(loss[k], expected.detach(), rtol=1e-10, atol=1e-10)
        expected.backward()  # type: ignore[no-untyped-call]
        of_state = {n: p.grad for n, p in plain.named_parameters() if p.grad is not None}
        row = model.layout.from_state_dict(of_state)
        torch.testing.assert_close(gradient[k], row, rtol=1e-8, atol=1e-9)


@KINDS
def test_a_missing_label_changes_no_gradient_whatever_it_might_have_been(kind: str) -> None:
    model, _, weights, batch = made(kind)
    guessed = batch.target.where(batch.label_weight > 0, 1e6)
    other = losses(model, weights, replace(batch, target=guessed))
    for ours, theirs in zip(losses(model, weights, batch), other, strict=True):
        assert torch.equal(ours, theirs)


@KINDS
def test_graphs_without_any_label_change_no_gradient(kind: str) -> None:
    graphs = GRAPHS[kind]
    assert graphs.values is not None
    values = graphs.values.copy()
    values[[0, 3, 30]] = np.nan
    model, _, weights, batch = made(kind, replace(graphs, values=values))
    _, gradient = losses(model, weights, batch)
    left = [np.setdiff1d(part, [0, 3, 30]) for part in PARTS]
    features = fit_features(graphs, PARTS, "label")
    shards = [make_shard(model.task.encode(graphs).select(part), features) for part in left]
    _, expected = losses(model, weights, collate(shards, CPU, torch.float64))
    torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-12)


@KINDS
def test_a_mini_batch_has_the_targets_of_a_collated_one(kind: str) -> None:
    graphs = GRAPHS[kind]
    features = fit_features(graphs, PARTS, "label")
    shards = [make_shard(graphs.select(part), features) for part in PARTS]
    stack = Stack(shards, torch.float64)
    chosen = [np.array([3, 1, 7]), np.zeros(0, np.int64), np.arange(4)]
    drawn = [c + first for c, first in zip(chosen, stack.first[:-1], strict=True)]
    cut = stack.cut(drawn)
    expected = collate(
        [s.select(c) for s, c in zip(shards, chosen, strict=True)], CPU, torch.float64
    )
    for field in ("target", "label_weight", "graph_weight"):
        assert torch.equal(getattr(cut, field), getattr(expected, field)), field


@KINDS
def test_batches_of_an_epoch_have_the_targets_of_those_cut_one_by_one(kind: str) -> None:
    graphs = GRAPHS[kind]
    features = fit_features(graphs, PARTS, "label")
    shards = [make_shard(graphs.select(part), features) for part in PARTS]
    stack, epochs = Stack(shards, torch.float64), Epochs(shards, 6, CPU, torch.float64)
    largest = max(map(len, shards))
    batches = epochs.cut(torch.arange(largest).expand(len(shards), -1))
    for start, batch in zip(range(0, largest, 6), batches, strict=True):
        numbers = [np.arange(f, last)[start : start + 6] for f, last in pairwise(stack.first)]
        expected = stack.cut(numbers)
        for field in ("target", "label_weight", "graph_weight"):
            ours, theirs = getattr(batch, field), getattr(expected, field)
            assert torch.equal(ours[:, : theirs.shape[1]], theirs), field
            assert (ours[:, theirs.shape[1] :] == 0).all()


def test_discrimination_on_binary_tasks_is_the_mean_of_tjurs_coefficients() -> None:
    _, _, _, batch = made("binary")
    scores = torch.randn(*batch.target.shape, generator=torch.Generator().manual_seed(0)).double()
    found = discrimination("binary", scores, batch)
    for k in range(len(PARTS)):
        told = []
        for t in range(scores.shape[2]):
            known = batch.label_weight[k, :, t] > 0
            p, y = scores[k, known, t].sigmoid(), batch.target[k, known, t]
            if 0 < y.sum() < len(y):
                told.append(float(p[y == 1].mean() - p[y == 0].mean()))
        assert float(found[k]) == pytest.approx(np.mean(told))


def test_discrimination_on_numbers_is_1_for_the_truth_and_minus_1_for_its_opposite() -> None:
    _, _, _, batch = made("regression")
    right = discrimination("regression", batch.target, batch)
    torch.testing.assert_close(right, torch.ones(3).double())
    opposite = discrimination("regression", -batch.target, batch)
    torch.testing.assert_close(opposite, -torch.ones(3).double())
    same = torch.full_like(batch.target, 0.4)
    nothing = discrimination("regression", same, batch)
    assert torch.allclose(nothing, torch.zeros(3).double(), atol=1e-9)
