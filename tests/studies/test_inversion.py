"""Gradient inversion: the attacker's gradient is the model's own, and its error is a distance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from motifair.graphs.batch import collate, make_shard
from motifair.graphs.features import fit_features
from motifair.graphs.planted import planted
from motifair.models.gin import GIN
from motifair.studies import inversion
from motifair.studies.inversion import attack, densify, error, gradient

GRAPHS = planted(2, seed=1).graphs.select(np.arange(0, 60, 10))


def test_the_dense_gradient_is_the_models_own() -> None:
    dense = densify(GRAPHS)
    model = GIN(dense.labels.shape[2], GRAPHS.classes, hidden=8, layers=2)
    weights = model.layout.initial(3, torch.float64)
    own = weights[None].clone().requires_grad_()
    shard = make_shard(GRAPHS, fit_features(GRAPHS, np.arange(len(GRAPHS)), "label"))
    batch = collate([shard], torch.device("cpu"), torch.float64)
    scores = model.classify(own, model.embed(own, batch))[0]
    torch.nn.functional.nll_loss(scores, dense.target).backward()
    assert own.grad is not None
    assert torch.allclose(gradient(model, weights, dense), own.grad[0], atol=1e-12)


def test_graphs_are_matched_whatever_their_order() -> None:
    content = densify(GRAPHS).content
    assert error(content[::-1].copy(), content) == 0
    assert error(content + 1, content) == pytest.approx(content.size / content.sum())


def test_labels_that_occur_are_read_off_and_one_graph_is_found_better_than_guessed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inversion, "STEPS", 60)
    monkeypatch.setattr(inversion, "STARTS", 1)
    monkeypatch.setattr(inversion, "HIDDEN", 16)
    found = attack(GRAPHS, 1, 0.0, 5)
    assert found["labels"] == 1
    assert 0 <= found["error"] < 1
