"""Accuracy of a stack of agents against counting by hand with plain PyG."""

from __future__ import annotations

import numpy as np
import torch
from oracles import naive
from worlds import CPU, small_graphs, to_pyg

from motifair.evaluation.accuracy import constant, measure, outputs, scores
from motifair.graphs.batch import Batch, collate, make_shard
from motifair.graphs.features import fit_features
from motifair.models import GIN

GRAPHS = small_graphs(40)
FEATURES = fit_features(GRAPHS, np.arange(len(GRAPHS)), "auto")
MODEL = GIN(FEATURES.width, 2, 16, 2)
PARTS = (np.arange(25), np.arange(25, 28), np.arange(28, 40))
WEIGHTS = torch.stack([MODEL.layout.initial(seed, torch.float64) for seed in range(3)])


def found(parts: tuple[np.ndarray, ...]) -> torch.Tensor:
    shards = [make_shard(GRAPHS.select(part), FEATURES) for part in parts]
    return measure(MODEL, WEIGHTS[: len(parts)], collate(shards, CPU, torch.float64))


def test_each_agent_is_measured_on_its_own_graphs_by_its_own_model() -> None:
    expected = []
    for row, part in zip(WEIGHTS, PARTS, strict=True):
        state = MODEL.layout.to_state_dict(row)
        flat = torch.cat([p.flatten() for p in state.values()])
        expected.append(naive.accuracy(flat, state, to_pyg(GRAPHS, part)))
    assert found(PARTS).tolist() == expected
    assert len(set(expected)) > 1


def mixed(batch: Batch, own: torch.Tensor, share: float) -> torch.Tensor:
    return scores(MODEL.task, outputs(MODEL, WEIGHTS, batch, own, share), batch)


def test_an_agent_with_a_model_of_its_own_is_measured_on_the_mixture() -> None:
    shards = [make_shard(GRAPHS.select(part), FEATURES) for part in PARTS]
    batch = collate(shards, CPU, torch.float64)
    own = torch.stack([MODEL.layout.initial(seed, torch.float64) for seed in (7, 8, 13)])
    seen = set()
    for share in (0.0, 0.3, 0.5, 0.8):
        expected = []
        for row, beside, part in zip(WEIGHTS, own, PARTS, strict=True):
            state = MODEL.layout.to_state_dict(row)
            pair = [
                (weight, torch.cat([p.flatten() for p in MODEL.layout.to_state_dict(r).values()]))
                for weight, r in ((1 - share, row), (share, beside))
            ]
            expected.append(naive.mixed_accuracy(pair, state, to_pyg(GRAPHS, part)))
        assert mixed(batch, own, share).tolist() == expected
        seen.add(tuple(expected))
    assert found(PARTS).tolist() == mixed(batch, own, 0.0).tolist()
    assert len(seen) > 1


def test_padding_counts_neither_as_right_nor_as_wrong() -> None:
    """Padding has target 0, so models that always say 0 or always say 1 would show it."""
    for answer in (0, 1):
        stubborn = WEIGHTS.clone()
        stubborn[:, MODEL.layout.span("readout.weight")] = 0
        bias = MODEL.layout.span("readout.bias")
        stubborn[:, bias] = torch.tensor([1.0 - answer, float(answer)], dtype=torch.float64)
        shards = [make_shard(GRAPHS.select(part), FEATURES) for part in PARTS]
        measured = measure(MODEL, stubborn, collate(shards, CPU, torch.float64))
        expected = [float((GRAPHS.target[part] == answer).mean()) for part in PARTS]
        assert np.allclose(measured, expected, rtol=0, atol=1e-12)


def test_who_predicts_one_class_is_told_whatever_the_padding_says() -> None:
    shards = [make_shard(GRAPHS.select(part), FEATURES) for part in PARTS]
    batch = collate(shards, CPU, torch.float64)
    predicted = torch.ones_like(batch.target)
    predicted[1, len(PARTS[1]) :] = 0  # nothing but padding
    predicted[2, 1] = 0
    probability = torch.eye(2, dtype=torch.float64)[predicted]
    assert constant(MODEL.task, probability, batch).tolist() == [True, True, False]


def test_the_accuracy_of_an_agent_without_graphs_is_undefined() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    measured = found((PARTS[0], nothing))
    assert measured[0] == found(PARTS)[0]
    assert measured[1].isnan()


def test_a_model_that_overflows_has_no_accuracy_and_the_others_keep_theirs() -> None:
    shards = [make_shard(GRAPHS.select(part), FEATURES) for part in PARTS]
    batch = collate(shards, CPU, torch.float64)
    usual = measure(MODEL, WEIGHTS, batch)
    weights, own = WEIGHTS.clone(), WEIGHTS.clone()
    weights[1] *= 1e200
    found = measure(MODEL, weights, batch)
    assert found.isnan().tolist() == [False, True, False]
    assert found[[0, 2]].tolist() == usual[[0, 2]].tolist()
    own[2] *= 1e200
    assert mixed(batch, own, 0.5).isnan().tolist() == [False, False, True]
