"""A data split: training graphs are damaged as roles and tiers say, no other graph is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs.graph_samples import Described, described

from motifair.graphs.dataset import Dataset, load_dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.split import Split, make_split


def split(data: Dataset, **options: Any) -> Split:
    chosen = {
        "partition": "iid",
        "agents": 10,
        "test_fraction": 0.2,
        "skew": 1.0,
        "perturbation": "none",
        "seed": 3,
    }
    return make_split(data, **{**chosen, **options})


def gone(before: Described, after: Described) -> float:
    """The share of the edges that are no longer there."""
    return len(before[1].keys() - after[1].keys()) / len(before[1])


@pytest.fixture(scope="module")
def planted_data() -> Dataset:
    return load_dataset("planted", agents=10, seed=2)


@pytest.fixture(scope="module")
def by_role(planted_data: Dataset) -> Split:
    return split(planted_data, partition="domains")


def test_roles_damage_training_graphs_as_they_should(planted_data: Dataset, by_role: Split) -> None:
    before, after = described(planted_data.graphs), described(by_role.graphs)
    assert by_role.roles == planted_data.roles
    for role, train in zip(by_role.roles, by_role.partition.train, strict=True):
        for g in train:
            (nodes, edges, labels, _, y), (*same, new_y) = before[g], after[g]
            assert same[0] == nodes
            assert same[2] == labels
            assert len(same[1]) == len(edges)
            assert new_y == (1 - y if role == "harmful" else y)
            lost = gone(before[g], after[g])
            assert 0.7 - 2 / len(edges) <= lost <= 0.7 if role == "noisy" else lost == 0


def test_test_graphs_tell_the_truth(planted_data: Dataset, by_role: Split) -> None:
    before, after = described(planted_data.graphs), described(by_role.graphs)
    for g in np.concatenate([by_role.partition.global_test, *by_role.partition.test]):
        assert after[g] == before[g]


def test_roles_belong_to_the_agents_that_hold_their_own_graphs(planted_data: Dataset) -> None:
    mixed = split(planted_data, partition="iid")
    assert mixed.roles == ()
    assert mixed.graphs.digest() == planted_data.graphs.digest()


def test_tiers_damage_training_graphs_only_and_each_agent_by_one_ratio(mutag: GraphSet) -> None:
    made = split(Dataset(mutag), perturbation="tiers")
    before, after = described(mutag), described(made.graphs)
    bounds = {"low": (0.7, 1.0), "medium": (0.3, 0.7), "high": (0.0, 0.3)}
    assert sorted(made.roles) == ["high"] * 4 + ["low"] * 3 + ["medium"] * 3
    for tier, train in zip(made.roles, made.partition.train, strict=True):
        low, high = bounds[tier]
        for g in train:
            assert low - 2 / len(before[g][1]) <= gone(before[g], after[g]) < high
            assert after[g][-1] == before[g][-1]
        lost = np.array([gone(before[g], after[g]) for g in train])
        assert np.ptp(lost) <= max(2 / len(before[g][1]) for g in train)
    for g in np.concatenate([made.partition.global_test, *made.partition.test]):
        assert after[g] == before[g]


def test_tiers_come_before_the_roles_of_the_embedded_dataset(planted_data: Dataset) -> None:
    made = split(planted_data, partition="domains", perturbation="tiers")
    assert set(made.roles) == {"low", "medium", "high"}
    assert np.array_equal(made.graphs.target, planted_data.graphs.target)


def test_the_seed_alone_decides_the_split(mutag: GraphSet) -> None:
    first, again, other = (split(Dataset(mutag), perturbation="tiers", seed=s) for s in (1, 1, 2))
    assert first.graphs.digest() == again.graphs.digest() != other.graphs.digest()
    assert first.roles == again.roles
    assert first.to_frame().equals(again.to_frame())


def test_the_frame_says_who_holds_what(planted_data: Dataset, by_role: Split) -> None:
    frame = by_role.to_frame()
    assert frame.index.tolist() == list(by_role.names)
    assert frame.index.name == "agent"
    assert frame.columns.tolist() == ["role", "train", "test", "class 0", "class 1", "nodes"]
    assert frame["role"].tolist() == list(planted_data.roles)
    assert (frame["train"] == frame["class 0"] + frame["class 1"]).all()
    held = len(by_role.partition.global_test) + frame["train"].sum() + frame["test"].sum()
    assert held == len(planted_data.graphs)
    for k, train in enumerate(by_role.partition.train):
        assert frame["nodes"].iloc[k] == planted_data.graphs.nodes[train].sum()
        assert frame["class 1"].iloc[k] == by_role.graphs.target[train].sum()


def test_the_frame_has_no_roles_where_agents_have_none(mutag: GraphSet) -> None:
    frame = split(Dataset(mutag), agents=4).to_frame()
    assert "role" not in frame.columns
    assert frame.index.tolist() == ["agent-00", "agent-01", "agent-02", "agent-03"]
