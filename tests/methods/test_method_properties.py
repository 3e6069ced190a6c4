"""What methods promise beside their trajectories: reductions, splits, removal, masks, ablations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import naive
from worlds import simulate, small_config, small_graphs, small_split

import motifair
from motifair.config import make_config
from motifair.errors import MotifairError
from motifair.methods import METHODS, Seen, make_method
from motifair.methods.gcfl import dtw


def seen(updates: torch.Tensor, rounds: int = 0, value: torch.Tensor | None = None) -> Seen:
    agents = len(updates)
    equal = torch.full((agents,), 1 / agents, dtype=torch.float64)
    return Seen(
        updates=updates,
        sent=updates,
        gradients=None,
        gradient_norm=updates.norm(dim=1),
        graphs=torch.arange(1, agents + 1),
        believed=torch.arange(1, agents + 1).double(),
        worth=torch.arange(1, agents + 1).double(),
        diversity=equal,
        value=equal if value is None else value,
        alignment=torch.full_like(equal, torch.nan),
        earlier_mean=equal,
        rounds=torch.tensor(rounds),
        seed=torch.tensor(0),
    )


def final_weights(
    split_options: dict[str, object] | None = None, **options: object
) -> torch.Tensor:
    config = small_config(rounds=5, **options)
    split = small_split(small_config(**(split_options or {})))
    return simulate(config, split)[1][-1].agents.weights


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, rtol=0, atol=1e-10)


def test_fedprox_without_its_term_is_federated_averaging() -> None:
    steps = {"batch_size": 5, "local_epochs": 2}
    averaged = final_weights(method="fedavg", **steps)
    assert not close(final_weights(method="fedprox", **steps), averaged)
    assert close(final_weights(method="fedprox", mu=0.0, **steps), averaged)


@pytest.mark.parametrize("method", ["gcfl", "gcfl+"])
def test_gcfl_that_never_splits_averages_convolutions(method: str) -> None:
    assert close(final_weights(method=method), final_weights(method="fedavg", share="conv"))


def test_equal_sizes_give_everyone_everything_under_dw() -> None:
    config = small_config(method="dw", partition="iid", skew=0.5, rounds=2)
    split = small_split(config, small_graphs(63))
    assert len({len(t) for t in split.partition.train}) == 1
    simulation, _, history = simulate(config, split)
    assert (history.columns["kept"] == simulation.model.layout.size).all()


def test_dw_with_equal_sizes_and_no_scaling_is_federated_averaging(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(METHODS["dw"], "prepare", lambda self, updates: updates)
    even = {"partition": "iid", "skew": 0.5}
    config = small_config(method="dw", rounds=4, **even)
    split = small_split(config, small_graphs(63))
    _, ours, _ = simulate(config, split)
    _, theirs, _ = simulate(small_config(method="fedavg", rounds=4, **even), split)
    assert close(ours[-1].agents.weights, theirs[-1].agents.weights)


def test_fedstar_shares_structure_and_nothing_else() -> None:
    config = small_config(method="fedstar", rounds=3)
    simulation, states, _ = simulate(config, small_split(config))
    parts = simulation.model.layout.unpack(states[-1].agents.weights)
    for name, stack in parts.items():
        same = all(torch.allclose(stack[0], other) for other in stack)
        assert same == name.startswith("structure"), name


def test_star_alone_is_fedstar_whose_agents_receive_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = final_weights(method="star-alone")
    assert not close(final_weights(method="fedstar"), alone)
    monkeypatch.setattr(METHODS["fedstar"], "ratio", lambda self, seen, value: 0 * value)
    assert close(final_weights(method="fedstar"), alone)


@given(st.integers(3, 8), st.integers(0, 10_000))
def test_equal_norms_rank_alike_under_distance_and_cosine(agents: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    updates = torch.randn(agents, 30, generator=generator, dtype=torch.float64)
    updates = updates / updates.norm(dim=1, keepdim=True)
    config = make_config({"agents": 2})
    view, weights = seen(updates), torch.full((agents,), 1 / agents, dtype=torch.float64)
    cosines = METHODS["cgsv"]().bind(config).align(view, weights)
    closeness = METHODS["eu"]().bind(config).align(view, weights)
    assert torch.equal(cosines.argsort(), closeness.argsort())


def test_cgsv_values_stay_positive_and_its_first_weights_are_sizes() -> None:
    config = small_config(method="cgsv", rounds=8)
    simulation, _, history = simulate(config, small_split(config))
    value = history.columns["value"]
    assert (value > 0).all()
    assert np.allclose(value.sum(axis=1), 1)
    method = simulation.method
    weights = method.weigh(seen(torch.eye(4).double()))
    assert torch.allclose(weights, torch.tensor([1, 2, 3, 4]).double() / 10)
    later = seen(torch.eye(4).double(), rounds=3, value=torch.tensor([0.4, 0.3, 0.2, 0.1]).double())
    assert torch.equal(method.weigh(later), later.value)


def test_a_removed_agent_never_returns_and_receives_nothing() -> None:
    config = small_config(method="cffl", rounds=8, patience=2, threshold=0.9)
    simulation, _, history = simulate(config, small_split(config))
    gone = history.columns["value"] == 0
    assert gone[-1].any()
    assert not gone[:2].any()
    assert (gone[1:] >= gone[:-1]).all()
    assert (history.columns["kept"][gone] == 0).all()
    assert (history.columns["kept"].max(axis=1) == simulation.model.layout.size).all()


def test_only_methods_with_a_server_model_have_a_global_accuracy() -> None:
    for name in ("cffl", "cffl-lyu", "cgsv"):
        config = small_config(method=name, rounds=1)
        simulation, _, history = simulate(config, small_split(config))
        assert np.isnan(history.global_accuracy[-1]) == (name == "cffl")
        assert simulation.method.global_model == ("contribution" in simulation.method.options)
    with pytest.raises(MotifairError, match="cffl does not use contribution"):
        motifair.run(method="cffl", contribution=True, rounds=1, agents=4)


def test_opposed_groups_are_separated_by_the_minimum_cut() -> None:
    method = METHODS["gcfl"](epsilon1=1.0, epsilon2=0.1, patience=0)
    generator = torch.Generator().manual_seed(0)
    noise = 0.1 * torch.randn(6, 20, generator=generator, dtype=torch.float64)
    sign = torch.tensor([1, -1, 1, 1, -1, -1]).double()[:, None]
    memory = method.bind(make_config({"agents": 6})).remember(seen(sign + noise))
    cluster = memory["cluster"]
    assert cluster.tolist() == [0, 1, 0, 0, 1, 1]
    weights = method.weigh(Seen(**{**vars(seen(sign + noise)), "memory": memory}))
    assert torch.allclose(weights.sum(dim=1), torch.ones(6).double())
    assert (weights[0, [1, 4, 5]] == 0).all()


@pytest.mark.parametrize("dataset", ["PROTEINS", "dir/PROTEINS", "a/PROTEINS.zip", "PROTEINS/raw"])
def test_gcfl_knows_a_dataset_by_its_name_however_it_is_given(dataset: str) -> None:
    assert METHODS["gcfl"]().bind(make_config({"dataset": dataset})).thresholds == (0.03, 0.06, 10)
    binary = dataset.replace("PROTEINS", "IMDB-BINARY")
    assert METHODS["gcfl+"]().bind(make_config({"dataset": binary})).thresholds == (0.025, 0.045, 5)


@pytest.mark.parametrize("dataset", ["DD", "dir/DD.zip,dir/PROTEINS.zip", "PROTEINS,IMDB-BINARY"])
def test_other_and_several_datasets_have_the_default_thresholds(dataset: str) -> None:
    assert METHODS["gcfl"]().bind(make_config({"dataset": dataset})).thresholds == (0.03, 0.06, 5)


sequences = st.lists(st.floats(-10, 10), min_size=1, max_size=8)


@given(sequences, sequences)
def test_warping_is_symmetric_and_forgives_delays(a: list[float], b: list[float]) -> None:
    assert dtw(a, a) == 0
    assert dtw(a, b) == pytest.approx(dtw(b, a))
    assert dtw(a, [a[0], *a]) == 0


ABLATIONS = {
    "motifair-alignment": lambda h, f: np.allclose(h["alignment"], 0),
    "motifair-diversity": lambda h, f: not np.allclose(h["value"], f["value"]),
    "motifair-allocation": lambda h, f: len(np.unique(h["kept"])) == 1,
    "motifair-aggregation": lambda h, f: np.isclose(h["loss"][0], f["loss"][0]).all(),
    "motifair-prototypes": lambda h, f: (h["loss"][0] < f["loss"][0]).all(),
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_takes_out_its_part_and_changes_the_run(name: str) -> None:
    # While all are of positive value, the default weighs by size whoever is asked; and diversity
    # has no weight in it.
    options = {
        "motifair-aggregation": {"aggregation": "value"},
        "motifair-diversity": {"diversity_weight": 1.0},
    }.get(name, {})
    config = small_config(rounds=4, **options)
    split = small_split(config)
    _, _, full = simulate(config, split)
    _, _, less = simulate(small_config(rounds=4, method=name, **options), split)
    assert ABLATIONS[name](less.columns, full.columns)
    assert not np.allclose(less.columns["loss"][-1], full.columns["loss"][-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("aggregation", ["value", "size", "trusted"])
def test_without_value_in_the_sum_even_an_agent_of_no_value_weighs_by_its_size(
    aggregation: str,
) -> None:
    config = make_config({"aggregation": aggregation})
    view = seen(torch.eye(4).double(), value=torch.tensor([0.7, -0.2, 0.4, 0.1]).double())
    by_size = torch.tensor([1, 2, 3, 4]).double() / 10
    assert torch.allclose(METHODS["motifair-aggregation"]().bind(config).weigh(view), by_size)
    assert torch.allclose(METHODS["motifair"]().bind(config).weigh(view), by_size) == (
        aggregation == "size"
    )


@pytest.mark.parametrize(("profile", "guarded"), [("default", True), ("paper", False)])
def test_the_guard_of_e9_is_an_option_and_the_paper_has_none(profile: str, guarded: bool) -> None:
    alignment = torch.tensor([0.9, 0.2, -0.5, -0.4], dtype=torch.float64)  # Σφ = 0.2 < ½Σ|φ| = 1
    view = seen(torch.eye(4).double(), rounds=1)
    options = {
        "profile": profile, "diversity_weight": 0.0, "value_rate": 0.05, "initial_value": "equal",
    }  # fmt: skip
    for guard in (None, True, False):
        given = {} if guard is None else {"value_guard": guard}
        config = make_config({**options, **given})
        found = METHODS["motifair"]().bind(config).valuate(view, alignment)
        raised = 0.8 / 4 if (guarded if guard is None else guard) else 0.0
        literal = view.value + 0.05 * (alignment + raised)
        assert torch.allclose(found, literal / literal.sum(), rtol=0, atol=1e-15)
    with pytest.raises(MotifairError, match="fedavg does not use value_guard"):
        motifair.run(method="fedavg", value_guard=False, rounds=1, agents=4)


@pytest.mark.parametrize("profile", ["default", "paper"])
def test_without_alignment_value_is_by_diversity_alone_and_no_gradient_is_uploaded(
    profile: str,
) -> None:
    config = small_config(
        method="motifair-alignment", rounds=2, profile=profile, diversity_weight=1.0
    )
    simulation, _, history = simulate(config, small_split(config))
    assert not simulation.method.uses_gradients
    value, shares = [0.25] * 4, history.columns["diversity"][0]
    options = naive.Options(value_rate=config.value_rate)
    for t in range(2):
        first = t == 0 and config.initial_value == "evidence"
        value = naive.updated_values(
            value, [0.0] * 4, shares.tolist(), options, begin_with=[1.0] * 4 if first else None
        )
        assert np.allclose(history.columns["value"][t], value, rtol=0, atol=1e-9)
    assert np.ptp(value) > 1e-4
    assert (np.argsort(value, kind="stable") == np.argsort(shares, kind="stable")).all()


def test_random_rewards_are_random_but_repeatable() -> None:
    config = small_config(rounds=3, method="random-rewards")
    split = small_split(config)
    _, _, first = simulate(config, split)
    _, _, again = simulate(config, split)
    assert np.array_equal(first.columns["kept"], again.columns["kept"])
    assert len(np.unique(first.columns["value"])) == 12


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_and_pays_out_its_budget(name: str) -> None:
    config = small_config(rounds=2, method=name, budget=3.0)
    _, states, history = simulate(config, small_split(config), dtype=torch.float32)
    paid = history.columns["payoff"].sum(axis=1)
    assert np.allclose(paid, 0 if name in ("self-train", "star-alone") else 3.0)
    assert torch.isfinite(states[-1].agents.weights).all()
    assert make_method(config).summary
