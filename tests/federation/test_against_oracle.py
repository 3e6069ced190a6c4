"""Whole rounds against a naive PyG federation that knows nothing of this package."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from oracles.naive import RoundRecord
from worlds import oracle_run, simulate, small_config, small_graphs, small_split

from motifair.federation.history import History
from motifair.graphs.split import Split

# The default profile of 0.1, which the cases in VOTES change in some options.
EARLIER = {
    "alignment_against": "peers-by-value", "alignment_rate": 0.1, "evidence": "judged",
    "diversity_weight": 8.0, "value_rate": 0.05, "size": "claimed",
}  # fmt: skip
VOTES = {
    "as it was": {"rounds": 5},
    "mini-batches": {"batch_size": 5, "local_epochs": 2},
    "conv only": {"share": "conv"},
    "layer masks": {"mask_scope": "layer", "beta": 20.0},
    "ema, by size": {"value_update": "ema", "aggregation": "size", "beta": "inf"},
    "by value": {"aggregation": "value", "value_update": "ema", "value_rate": 0.5},
    "all": {"alignment_against": "all"},
    "others": {"alignment_against": "others", "diversity_weight": 0.0, "rounds": 6},
    "gradient": {"alignment_of": "gradient", "batch_size": 7},
    "gradient against all": {  # of very unequal lengths, which the oracle does not bound
        "alignment_of": "gradient",
        "alignment_against": "all",
        "bounded": False,
    },
    "shapley": {"alignment_against": "shapley", "prototype_weight": 0.0},
    "no running mean": {"alignment_rate": 1.0, "value_rate": 0.5},
    "fast running mean": {"alignment_rate": 0.6, "value_rate": 0.5, "rounds": 5},
    "three must hold a motif": {"corroboration": 3, "chance": False, "diversity_weight": 2.0},
    "plain sum": {"evidence": "sum", "corroboration": 1, "diversity_weight": 2.0},
    "as long as the mean": {"aggregate_length": "mean", "beta": 5.0},
    "nothing of one's own": {"own_weight": 0.0},
    "mostly one's own": {"own_weight": 0.9, "share": "conv", "batch_size": 7},
    "three steps, a tenth kept": {"reward_step": 3.0, "retention": 0.1},
    "no dropout": {"dropout": 0.0, "retention": 0.5},
    "dropout 0.3": {"dropout": 0.3, "tfidf": "smooth", "prototype_reduce": "sum"},
    "votes by value": {"alignment_against": "peers-by-value", "value_rate": 0.5, "rounds": 5},
}
CASES = {
    "paper": {"profile": "paper"},
    "the paper's with one part": {
        "profile": "paper",
        "own_weight": 0.5,
        "aggregate_length": "typical",
    },
    "the paper's with peers": {"profile": "paper", "alignment_against": "peers"},
    "the paper's with votes by value": {
        "profile": "paper",
        "alignment_of": "gradient",
        "alignment_against": "peers-by-value",
        "value_rate": 0.5,
    },
    **{name: {**EARLIER, **options} for name, options in VOTES.items()},
    "default": {"rounds": 5, "trial_rounds": 100},
    "default, mini-batches": {"batch_size": 5},
    "default, several epochs": {"local_epochs": 3},
    "default, mini-batches and epochs": {"batch_size": 7, "local_epochs": 2, "rounds": 4},
    "default, few steps a round": {"batch_size": 3, "local_steps": 2, "local_epochs": 2},
    "default, convolutions": {"share": "conv", "value_rate": 1.0, "value_update": "ema"},
    "default, no dropout": {"dropout": 0.0, "learning_rate": 0.01},
    "coverage by claims": {"size": "claimed"},
    "running coverage": {"alignment_rate": 0.3, "diversity_weight": 0.5},
    "coverage, weights by size": {"aggregation": "size"},
    "coverage, weights by value": {"aggregation": "value"},
    "the paper's with coverage": {"profile": "paper", "alignment_against": "coverage"},
    "the paper's by size that is believed": {
        "profile": "paper",
        "aggregation": "size",
        "size": "believed",
    },
    "twins": {"perturbation": "twins"},
    "duplicates": {"perturbation": "duplicates"},
    "rewired": {"perturbation": "tiers"},
    "free riders": {"perturbation": "free-riders", "agents": 3, "partition": "iid"},
    "common second moments": {"moments": "common", "rounds": 5},
    "common second moments of convolutions": {"moments": "common", "share": "conv"},
    "common second moments, unequal steps": {"moments": "common", "batch_size": 5},
    "batches of one class": {"batch_size": 2, "local_epochs": 2},
}

AT_ONCE = {
    "value_update": "ema", "value_rate": 1.0, "rounds": 8, "dropout": 0.0, "learning_rate": 0.01,
    "perturbation": "none",
}  # values follow the evidence of a round  # fmt: skip


def compare(
    options: dict, method: str, dtype: torch.dtype, tolerance: float, split: Split | None = None
) -> tuple[History, list[RoundRecord]]:
    config = small_config(method=method, **options)
    simulation, states, history = simulate(config, split or small_split(config), dtype=dtype)
    expected = oracle_run(simulation, method, dtype)
    layout = simulation.model.layout
    for t, record in enumerate(expected):
        for k, name in enumerate(simulation.members[0].split.names):
            ours = layout.to_state_dict(states[t + 1].agents.weights[k])
            flat = torch.cat([ours[n].flatten() for n in layout.names])
            assert torch.allclose(flat, record.weights[name], rtol=0, atol=tolerance), (t, name)
            if record.own:
                own = states[t + 1].agents.own
                assert own is not None
                row = layout.to_state_dict(own.weights[k])
                flat = torch.cat([row[n].flatten() for n in layout.names])
                assert torch.allclose(flat, record.own[name], rtol=0, atol=tolerance), (t, name)
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
            if dtype == torch.float64:
                assert history.columns["accuracy"][t].tolist() == record.accuracy
    own_weight = config.own_weight if method == "motifair" else 0.0
    assert all(bool(record.own) == (own_weight > 0) for record in expected)
    assert (states[-1].agents.own is not None) == (own_weight > 0)
    return history, expected


@pytest.mark.parametrize("case", CASES)
def test_the_mechanism_equals_a_naive_pyg_federation(case: str) -> None:
    compare(CASES[case], "motifair", torch.float64, 1e-9)


def test_an_agent_of_no_value_is_left_out_of_the_sum_as_in_a_naive_federation() -> None:
    """One agent has learnt the wrong classes, and values follow the evidence at once."""
    options = {**EARLIER, **AT_ONCE, "alignment_rate": 1.0, "diversity_weight": 0.1}
    split = wrong_classes(small_split(small_config(**options)), 1)
    history, expected = compare(options, "motifair", torch.float64, 1e-8, split)
    value = history.columns["value"]
    assert (value[:-1] <= 0).any(), "nobody was left out: the test shows nothing"
    assert (value[:-1] > 0).any(axis=1).all()
    judged = [sum(record.phi) > 0 for record in expected]
    assert any(judged)


def test_wrong_classes_are_worth_nothing_as_in_a_naive_federation() -> None:
    """The models of the others tell classes well, that of one agent swaps them."""
    options = {"rounds": 40, "trial_rounds": 40, "dropout": 0.0, "learning_rate": 0.01}
    options |= {"partition": "iid"}
    split = wrong_classes(small_split(small_config(**options), small_graphs(240)), 1)
    history, _ = compare(options, "motifair", torch.float64, 1e-6, split)
    alignment = history.columns["alignment"]
    assert (alignment[:, 1] == 0).all(), "the test shows nothing"
    assert (alignment[:, [0, 2, 3]] > 0).any(axis=0).all()
    assert (history.columns["payoff"][:, 1] == 0).all()


@pytest.mark.parametrize("options", [{}, {"batch_size": 4, "local_epochs": 2}, AT_ONCE])
def test_an_agent_with_one_class_is_trusted_as_in_a_naive_federation(options: dict) -> None:
    split = small_split(small_config(**options))
    target = split.graphs.target.copy()
    target[split.partition.train[2]] = 1
    one = replace(split, graphs=replace(split.graphs, target=target))
    history, _ = compare(options, "motifair", torch.float64, 1e-8, one)
    assert (history.columns["alignment"][:, 2] >= 0).all()


def wrong_classes(split: Split, agent: int) -> Split:
    """The same split, in which one agent trains on the other class of each of its graphs."""
    target = split.graphs.target.copy()
    mine = split.partition.train[agent]
    target[mine] = 1 - target[mine]
    return replace(split, graphs=replace(split.graphs, target=target))


@pytest.mark.parametrize("method", ["fedavg", "self-train"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 5, "local_epochs": 2}])
def test_baselines_equal_a_naive_pyg_federation(method: str, options: dict) -> None:
    compare({"rounds": 5, **options}, method, torch.float64, 1e-9)


def test_single_precision_follows_double_precision() -> None:
    compare({}, "fedavg", torch.float32, 1e-5)
    for profile in ({}, EARLIER):
        compare({**profile, "beta": "inf", "rounds": 2}, "motifair", torch.float32, 1e-5)
