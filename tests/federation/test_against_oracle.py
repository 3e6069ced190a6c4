"""Whole rounds against a naive PyG federation that knows nothing of this package."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from worlds import oracle_run, simulate, small_config, small_split

CASES = {
    "paper": {"profile": "paper"},
    "default": {},
    "mini-batches": {"batch_size": 5, "local_epochs": 2},
    "conv only": {"share": "conv"},
    "layer masks": {"mask_scope": "layer", "beta": 20.0},
    "ema, by size": {"value_update": "ema", "aggregation": "size", "beta": "inf"},
    "others": {"alignment_against": "others", "diversity_weight": 0.0, "rounds": 6},
    "gradient": {"alignment_of": "gradient", "batch_size": 7},
    "shapley": {"alignment_against": "shapley", "prototype_weight": 0.0},
    "no dropout": {"dropout": 0.0, "retention": 0.5},
    "dropout 0.3": {"dropout": 0.3, "tfidf": "smooth", "prototype_reduce": "sum"},
}


def compare(options: dict, method: str, dtype: torch.dtype, tolerance: float) -> None:
    config = small_config(method=method, **options)
    simulation, states, history = simulate(config, small_split(config), dtype=dtype)
    expected = oracle_run(simulation, method, dtype)
    layout = simulation.model.layout
    for t, record in enumerate(expected):
        for k, name in enumerate(simulation.members[0].split.names):
            ours = layout.to_state_dict(states[t + 1].agents.weights[k])
            flat = torch.cat([ours[n].flatten() for n in layout.names])
            assert torch.allclose(flat, record.weights[name], rtol=0, atol=tolerance), (t, name)
        close = {"rtol": 0, "atol": tolerance * 100}
        assert np.allclose(history.columns["loss"][t], record.loss, **close)
        if method == "motifair":
            assert np.allclose(history.columns["value"][t], record.value, **close)
            assert np.allclose(history.columns["alignment"][t], record.phi, **close)
            assert np.allclose(history.columns["diversity"][t], record.diversity)
            assert np.allclose(history.columns["payoff"][t], record.payoff, **close)
            paid = np.where(np.array(record.value) >= 0, record.compensation, 0)
            assert np.allclose(history.columns["compensation"][t], paid, **close)
            assert np.abs(history.columns["kept"][t] - record.kept).max() <= (
                dtype == torch.float32
            )


@pytest.mark.parametrize("case", CASES)
def test_the_mechanism_equals_a_naive_pyg_federation(case: str) -> None:
    compare(CASES[case], "motifair", torch.float64, 1e-9)


@pytest.mark.parametrize("method", ["fedavg", "self-train"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 5, "local_epochs": 2}])
def test_baselines_equal_a_naive_pyg_federation(method: str, options: dict) -> None:
    compare({"rounds": 5, **options}, method, torch.float64, 1e-9)


def test_single_precision_follows_double_precision() -> None:
    compare({}, "fedavg", torch.float32, 1e-5)
    compare({"beta": "inf", "rounds": 2}, "motifair", torch.float32, 1e-5)
