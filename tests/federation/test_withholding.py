"""A member that withholds graphs: exact reductions to federations without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from worlds import CPU, small_config, small_split

from motifair.config import Config
from motifair.federation.history import History
from motifair.federation.loop import run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.offer import Offer, draw_member, offered
from motifair.federation.round import Round
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState, load_state, save_state
from motifair.federation.withholding import Withholding
from motifair.graphs.split import Split
from motifair.methods import METHODS, make_method

AGENT, SEED = 1, 5


def played(simulation: Simulation) -> tuple[FederationState, History]:
    (history,) = simulation.histories()
    return run_rounds(simulation, simulation.start(), [history]), history


def withheld(config: Config, split: Split, share: float) -> tuple[FederationState, History]:
    members = prepare(config, split, seed=SEED, offer=Offer(AGENT, share))
    return played(Withholding(config, members, device=CPU))


class Silent(Simulation):
    """One agent sends zeros in every round."""

    def play(self, state: FederationState, *, own: bool | None = None) -> Round:
        silent = torch.tensor([AGENT])
        return self.run_round(state, lambda sent: (sent.silent(silent), None), own)


def plain(config: Config, split: Split) -> tuple[FederationState, History]:
    return played(Simulation(config, prepare(config, split, seed=SEED), device=CPU))


def assert_equal(ours: History, theirs: History) -> None:
    for column, values in theirs.columns.items():
        assert np.array_equal(ours.columns[column], values, equal_nan=True), column


# What is given


@given(st.integers(0, 2**20), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
def test_what_is_given_is_stratified_and_part_of_what_a_larger_share_gives(
    seed: int, share: float
) -> None:
    split = small_split(small_config())
    own, target = split.partition.train[AGENT], split.graphs.target
    chosen = offered(split, Offer(AGENT, share), seed=seed)
    assert len(chosen) == round(share * len(own))
    assert set(chosen) <= set(own)
    assert np.array_equal(chosen, own[np.isin(own, chosen)])  # in the order of the member
    for c in np.unique(target[own]):
        wanted = share * (target[own] == c).sum()
        assert abs((target[chosen] == c).sum() - wanted) <= 1
    more = offered(split, Offer(AGENT, min(1.0, share + 0.25)), seed=seed)
    assert set(chosen) <= set(more)


def test_who_withholds_depends_on_the_seed_alone() -> None:
    drawn = [draw_member(seed, 10) for seed in range(200)]
    assert drawn == [draw_member(seed, 10) for seed in range(200)]
    assert set(drawn) == set(range(10))


def test_a_share_above_zero_gives_at_least_one_graph() -> None:
    split = small_split(small_config())
    assert len(offered(split, Offer(AGENT, 1e-6), seed=0)) == 1


# Exact reductions


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_member_that_gives_all_is_an_ordinary_one(method: str) -> None:
    config = small_config(method=method)
    split = small_split(config)
    state, history = withheld(config, split, 1.0)
    usual, wanted = plain(config, split)
    assert_equal(history, wanted)
    assert torch.equal(state.agents.weights, usual.agents.weights)


@pytest.mark.parametrize("share", [0.25, 0.75])
@pytest.mark.parametrize("method", ["fedavg", "fedavg-own", "fedprox"])
def test_the_server_learns_what_it_would_if_the_member_had_no_other_graphs(
    method: str, share: float
) -> None:
    """Under averaging nothing but the server's model stays with a member, and its own model."""
    config = small_config(method=method, features="degree", batch_size=8)
    split = small_split(config)
    less = list(split.partition.train)
    less[AGENT] = offered(split, Offer(AGENT, share), seed=SEED)
    smaller = replace(split, partition=replace(split.partition, train=tuple(less)))
    wanted, _ = plain(config, smaller)
    usual, _ = plain(config, split)
    state, _ = withheld(config, split, share)
    assert torch.equal(state.server.weights, wanted.server.weights)
    if state.agents.own is not None:
        assert usual.agents.own is not None
        assert torch.equal(state.agents.own.weights, usual.agents.own.weights)


def test_motifs_and_prototypes_come_from_what_is_given() -> None:
    """Where a reward is whole and nothing is retained, all agents move as with fewer graphs."""
    config = small_config(method="motifair-allocation", own_weight=0.0)
    split = small_split(config)
    less = list(split.partition.train)
    less[AGENT] = offered(split, Offer(AGENT, 0.5), seed=SEED)
    smaller = replace(split, partition=replace(split.partition, train=tuple(less)))
    wanted, recorded = plain(config, smaller)
    state, history = withheld(config, split, 0.5)
    for column in ("value", "alignment", "diversity", "payoff", "update_norm", "uploaded"):
        assert np.array_equal(history.columns[column], recorded.columns[column]), column
    assert torch.equal(state.server.prototypes, wanted.server.prototypes)
    assert torch.equal(state.agents.weights, wanted.agents.weights)


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("method", ["self-train", "star-alone"])
def test_without_an_exchange_there_is_nothing_to_withhold(method: str, share: float) -> None:
    config = small_config(method=method)
    split = small_split(config)
    assert_equal(withheld(config, split, share)[1], plain(config, split)[1])


def test_a_member_that_gives_nothing_sends_zeros() -> None:
    """Sizes and motifs count for nothing here, so that no more than the upload differs."""
    config = small_config(
        aggregation="value", alignment_against="all", aggregate_length="mean",
        diversity_weight=0.0, prototype_weight=0.0,
    )  # fmt: skip
    split = small_split(config)
    wanted, recorded = played(Silent(config, prepare(config, split, seed=SEED), device=CPU))
    state, history = withheld(config, split, 0.0)
    assert torch.equal(state.agents.weights, wanted.agents.weights)
    for column in ("value", "payoff", "accuracy", "update_norm"):
        assert np.array_equal(history.columns[column], recorded.columns[column]), column
    assert (history.columns["update_norm"][:, AGENT] == 0).all()


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_copes_with_a_member_that_gives_nothing(method: str) -> None:
    config = small_config(method=method)
    _, history = withheld(config, small_split(config), 0.0)
    assert np.isfinite(history.columns["accuracy"][-1]).all()
    assert np.isfinite(history.columns["payoff"]).all()
    if make_method(config).share != "none":
        assert (history.columns["update_norm"][:, AGENT] == 0).all()


def test_a_cluster_of_one_that_gives_nothing_receives_nothing() -> None:
    config = small_config(method="gcfl", patience=0, epsilon1=1e9, epsilon2=1e-9, smallest=1)
    state, history = withheld(config, small_split(config), 0.0)
    assert len(set(state.server.memory["cluster"].tolist())) == 4
    assert np.isfinite(history.columns["accuracy"][-1]).all()


# Stacks and files


@pytest.mark.parametrize("options", [{}, {"method": "gcfl+"}, {"method": "cffl-lyu"}])
def test_shares_side_by_side_give_what_they_give_one_by_one(options: dict[str, Any]) -> None:
    config = small_config(features="degree", **options)
    split = small_split(config)
    shares = (0.0, 0.25, 0.75)
    members: list[Members] = [
        prepare(config, split, seed=SEED, offer=Offer(AGENT, share)) for share in shares
    ]
    stack = Withholding(config, members, device=CPU, dtype=torch.float64, rows=3)
    histories = stack.histories()
    run_rounds(stack, stack.start(), histories)
    for member, history in zip(members, histories, strict=True):
        alone = Withholding(config, member, device=CPU, dtype=torch.float64)
        _, wanted = played(alone)
        for column, values in wanted.columns.items():
            found = history.columns[column]
            assert np.allclose(found, values, rtol=1e-9, atol=1e-9, equal_nan=True), column


def test_a_state_is_taken_apart_saved_and_joined_to_the_same_rounds(tmp_path: Path) -> None:
    config = small_config(features="degree")
    split = small_split(config)
    members = [prepare(config, split, seed=SEED, offer=Offer(AGENT, c)) for c in (0.0, 0.5)]
    stack = Withholding(config, members, device=CPU)
    state, _ = stack.round(stack.start())
    parts = []
    for f, history in enumerate(stack.histories()):
        path = tmp_path / f"{f}.safetensors"
        save_state(path, stack.part(state, f), history, {}, final=False)
        parts.append(load_state(path, CPU))
    onwards, _ = stack.round(state)
    again, _ = stack.round(stack.join(parts))
    assert torch.equal(onwards.agents.weights, again.agents.weights)
    assert onwards.given is not None
    assert again.given is not None
    assert torch.equal(onwards.given.second, again.given.second)
