"""Every baseline against a naive PyG implementation that knows nothing of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracles import baselines
from oracles.naive import RoundRecord
from worlds import (
    oracle_agents,
    oracle_mask,
    oracle_options,
    oracle_order,
    simulate,
    small_config,
    small_split,
    to_pyg,
)

from motifair.federation.history import History
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState
from motifair.methods import METHODS

Run = tuple[Simulation, list[FederationState], History, list[RoundRecord]]


def both(method: str, oracle: Callable[..., list[Any]], own: dict[str, Any], **options: Any) -> Run:
    """Run a method and its oracle on the same federation, in float64."""
    config = small_config(method=method, **options)
    simulation, states, history = simulate(config, small_split(config))
    (members,) = simulation.members
    expected = oracle(
        oracle_agents(simulation),
        simulation.model.layout.to_state_dict(simulation.initial[0]),
        oracle_options(config),
        config.rounds,
        dtype=torch.float64,
        mask_fn=oracle_mask(config, members.seed, torch.float64) if config.dropout else None,
        order_fn=oracle_order(config, members.seed),
        **own,
    )
    return simulation, states, history, expected


def assert_equal(run: Run, order: list[str] | None = None) -> None:
    """Weights and losses of every agent in every round; values and rewards where there are any."""
    simulation, states, history, expected = run
    layout = simulation.model.layout
    for t, record in enumerate(expected):
        for k, name in enumerate(simulation.members[0].split.names):
            ours = layout.to_state_dict(states[t + 1].agents.weights[k])
            flat = torch.cat([ours[n].flatten() for n in order or layout.names])
            assert torch.allclose(flat, record.weights[name], rtol=0, atol=1e-8), (t, name)
        assert np.allclose(history.columns["loss"][t], record.loss, rtol=0, atol=1e-8)
        if len(record.value):
            assert np.allclose(history.columns["value"][t], record.value, rtol=0, atol=1e-8)
        if len(record.kept):
            assert history.columns["kept"][t].tolist() == record.kept


STEPS = [{}, {"batch_size": 5, "local_epochs": 2}]


@pytest.mark.parametrize("options", STEPS)
@pytest.mark.parametrize("share", ["all", "conv"])
def test_fedprox(options: dict[str, Any], share: str) -> None:
    assert_equal(both("fedprox", baselines.fedprox, {}, share=share, **options))


@pytest.mark.parametrize("options", STEPS)
def test_fedsage(options: dict[str, Any]) -> None:
    assert_equal(both("fedsage", baselines.fedsage, {}, **options))


@pytest.mark.parametrize("options", STEPS)
def test_fedstar(options: dict[str, Any]) -> None:
    run = both("fedstar", baselines.fedstar, {}, **options)
    layers = range(3)
    names = ["pre.weight", "pre.bias", "structure.weight", "structure.bias"]
    names += [f"convs.{k}.nn.{j}.{p}" for k in layers for j in (0, 2) for p in ("weight", "bias")]
    names += [f"structure_convs.{k}.{p}" for k in layers for p in ("bias", "lin.weight")]
    names += [f"{n}.{p}" for n in ("merge", "post", "readout") for p in ("weight", "bias")]
    assert_equal(run, names)


@pytest.mark.parametrize("share", ["all", "conv"])
@pytest.mark.parametrize(
    ("method", "value"), [("cgsv", "cosine"), ("dw", "size"), ("eu", "euclidean")]
)
def test_cgsv_and_its_relatives(method: str, value: str, share: str) -> None:
    run = both(method, baselines.cgsv, {"value": value}, share=share, rounds=6)
    assert_equal(run)
    assert run[2].columns["kept"].min() < run[2].columns["kept"].max()


def test_cffl_until_agents_are_removed() -> None:
    own = {"patience": 2, "threshold": 0.9}
    run = both("cffl", baselines.rffl, own, rounds=6, **own)
    assert_equal(run)
    removed = [record.removed for record in run[3]]  # type: ignore[attr-defined]
    assert removed[1] == []
    assert removed[-1], "nobody was removed: the test shows nothing"


@pytest.mark.parametrize("plus", [False, True])
def test_gcfl_until_clusters_split(plus: bool) -> None:
    ours = {"epsilon1": 10.0, "epsilon2": 1e-12, "patience": 1} | ({"sequence": 2} if plus else {})
    own = {"eps1": 10.0, "eps2": 1e-12, "first_split": 1, "plus": plus, "length": 2}
    run = both("gcfl+" if plus else "gcfl", baselines.gcfl, own, rounds=5, batch_size=9, **ours)
    assert_equal(run)
    for state, record in zip(run[1][1:], run[3], strict=True):
        cluster = state.server.memory["cluster"].tolist()
        ours = {tuple(k for k, c in enumerate(cluster) if c == n) for n in set(cluster)}
        assert ours == {tuple(c) for c in record.clusters}  # type: ignore[attr-defined]
    assert len(run[3][-1].clusters) >= 2, "nothing was split"  # type: ignore[attr-defined]


def test_cffl_of_lyu_until_agents_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    method = METHODS["cffl-lyu"]
    own = {"theta": 0.5, "threshold": 0.95}
    monkeypatch.setattr(method, "validation", 0.3)
    config = small_config(
        method="cffl-lyu", rounds=12, learning_rate=0.01, uploaded=0.5, threshold=0.95
    )
    simulation, states, history = simulate(config, small_split(config))
    (members,) = simulation.members
    own |= {"validation": to_pyg(members.split.graphs, members.lent_numbers)}
    lent = set(members.lent_numbers.tolist())
    assert all(lent.isdisjoint(t.tolist()) for t in members.numbers)
    expected = baselines.cffl_lyu(
        oracle_agents(simulation),
        simulation.model.layout.to_state_dict(simulation.initial[0]),
        oracle_options(config),
        config.rounds,
        dtype=torch.float64,
        mask_fn=oracle_mask(config, members.seed, torch.float64),
        order_fn=oracle_order(config, members.seed),
        **own,
    )
    assert_equal((simulation, states, history, expected))  # type: ignore[arg-type]
    assert expected[-1].removed, "nobody was removed: the test shows nothing"
