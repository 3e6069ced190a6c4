"""The embedded dataset: reproducible graphs whose class and agent are known by their rings."""

from __future__ import annotations

import numpy as np
import pytest

from motifair.graphs.planted import GRAPHS_PER_AGENT, ROLES, Planted, planted
from motifair.motifs.extract import extract_motifs

SEED = 4


@pytest.fixture(scope="module")
def ten() -> Planted:
    return planted(10, SEED)


@pytest.fixture(scope="module")
def contains(ten: Planted) -> dict[str, np.ndarray]:
    """For each motif, which graphs contain it."""
    labels = ten.graphs.node_label
    assert labels is not None
    found = extract_motifs(ten.graphs, labels, rings="chordless", max_ring=4)
    return dict(zip(found.keys, (found.counts.toarray() > 0).T, strict=True))


def test_the_same_seed_gives_the_same_graphs_and_another_seed_others(ten: Planted) -> None:
    assert planted(10, SEED).graphs.digest() == ten.graphs.digest()
    assert planted(10, SEED + 1).graphs.digest() != ten.graphs.digest()


@pytest.mark.parametrize("agents", [2, 4, 13])
def test_an_agents_graphs_do_not_depend_on_the_number_of_agents(agents: int, ten: Planted) -> None:
    other = planted(agents, SEED)
    for agent in range(min(agents, 10)):
        here, there = (p.graphs.select(np.flatnonzero(p.owner == agent)) for p in (ten, other))
        assert here.digest() == there.digest()


def test_two_good_agents_do_not_hold_the_same_graphs(ten: Planted) -> None:
    first, second = (ten.graphs.select(np.flatnonzero(ten.owner == a)) for a in (0, 1))
    assert first.digest() != second.digest()


def test_roles_repeat_the_pattern_of_ten() -> None:
    assert planted(13, 0).roles == ROLES + ROLES[:3]
    assert {r: ROLES.count(r) for r in set(ROLES)} == {
        "good": 6,
        "harmful": 1,
        "late": 1,
        "noisy": 2,
    }


def test_every_agent_holds_as_many_graphs_half_of_each_class(ten: Planted) -> None:
    assert np.bincount(ten.owner).tolist() == [GRAPHS_PER_AGENT] * 10
    for agent in range(10):
        classes = ten.graphs.target[ten.owner == agent]
        assert np.bincount(classes).tolist() == [GRAPHS_PER_AGENT // 2] * 2


def test_the_ring_of_its_class_is_in_every_graph_of_all_but_the_late_agent(
    ten: Planted, contains: dict[str, np.ndarray]
) -> None:
    late = ten.owner == ten.roles.index("late")
    for y, ring in ((0, "ring 3 4 3 4"), (1, "ring 3 3 4")):
        assert contains[ring][(ten.graphs.target == y) & ~late].all()


def test_the_ring_of_the_other_class_is_in_about_half_of_the_graphs(
    ten: Planted, contains: dict[str, np.ndarray]
) -> None:
    late = ten.owner == ten.roles.index("late")
    for y, ring in ((1, "ring 3 4 3 4"), (0, "ring 3 3 4")):
        share = contains[ring][(ten.graphs.target == y) & ~late].mean()
        assert 0.4 < share < 0.6


def test_the_rare_rings_are_in_the_late_agents_graphs_and_nowhere_else(
    ten: Planted, contains: dict[str, np.ndarray]
) -> None:
    late = ten.owner == ten.roles.index("late")
    rare = {key: found for key, found in contains.items() if {"5", "6"} & set(key.split())}
    assert {"ring 5 6 5 6", "ring 5 5 6"} <= set(rare)
    for found in rare.values():
        assert not found[~late].any()
    for y, ring in ((0, "ring 5 6 5 6"), (1, "ring 5 5 6")):
        share = contains[ring][(ten.graphs.target == y) & late].mean()
        assert 0.5 < share < 0.9


def test_rings_without_labels_of_rings_are_background_only(ten: Planted) -> None:
    assert ten.graphs.node_label is not None
    assert np.unique(ten.graphs.node_label).tolist() == [0, 1, 2, 3, 4, 5, 6]
    late = ten.owner == ten.roles.index("late")
    others = ten.graphs.select(np.flatnonzero(~late))
    assert others.node_label is not None
    assert np.unique(others.node_label).tolist() == [0, 1, 2, 3, 4]
