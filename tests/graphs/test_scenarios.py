"""Scenarios: each makes the agents' contributions differ in its own way, and in no other."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from graphs.graph_samples import described
from hypothesis import given
from hypothesis import strategies as st

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.graphs.dataset import Dataset, load_dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.partition import EXCLUSIVE, KINDS, stratified
from motifair.graphs.perturb import PERTURBATIONS, TIERS, Damage, perturb_classes, repeat
from motifair.graphs.split import Split, make_split
from motifair.profiles import SCENARIOS

AGENTS = 7
ROLES = {
    "rewired": {"low": 2, "medium": 2, "high": 3},
    "label-noise": {"low": 2, "medium": 2, "high": 3},
    "inverted": {"inverted": 1, "honest": 6},
    "duplicates": {"duplicates": 2, "distinct": 5},
    "twins": {"twin": 2, "single": 5},
    "exclusive-structure": {"exclusive": 1, "common": 6},
    "exclusive-class": {"exclusive": 1, "common": 6},
    "free-riders": {"free-rider": 1, "honest": 6},
}


def split(data: Dataset, scenario: str, **options: Any) -> Split:
    chosen = {"agents": AGENTS, "test_fraction": 0.1, "skew": 2.0, "seed": 3}
    return make_split(data, **{**chosen, **SCENARIOS[scenario], **options})


@pytest.fixture(
    scope="module",
    params=["planted", *(pytest.param(n, marks=pytest.mark.data) for n in ("MUTAG", "IMDB-MULTI"))],
)
def data(request: pytest.FixtureRequest) -> Dataset:
    """A dataset of two, or of three classes; real ones where they are."""
    folder = None if request.param == "planted" else request.getfixturevalue("data_dir")
    return load_dataset(request.param, agents=AGENTS, seed=3, data_dir=folder)


def classes_of(made: Split) -> list[np.ndarray]:
    return [made.graphs.target[train] for train in made.partition.train]


def truth(data: Dataset, made: Split) -> list[np.ndarray]:
    return [data.graphs.target[train] for train in made.partition.train]


def shares_of(made: Split) -> list[np.ndarray]:
    parts = zip(made.partition.train, made.partition.test, strict=True)
    return [np.concatenate(part) for part in parts]


def chosen(made: Split, role: str) -> list[int]:
    return [k for k, r in enumerate(made.roles) if r == role]


def possible(data: Dataset, scenario: str) -> bool:
    return scenario != "exclusive-class" or data.graphs.classes > 2


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s != "none"])
def test_test_graphs_are_clean_distinct_and_trained_on_by_nobody(
    data: Dataset, scenario: str
) -> None:
    if not possible(data, scenario):
        pytest.skip("needs three classes")
    made = split(data, scenario)
    shares = made.partition
    tests = np.concatenate([shares.global_test, *shares.test])
    assert len(np.unique(tests)) == len(tests)
    assert not np.isin(np.concatenate(shares.train), tests).any()
    before, after = described(data.graphs), described(made.graphs)
    assert all(before[g] == after[g] for g in tests)


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s != "none"])
def test_roles_are_as_many_as_promised_and_every_agent_has_two_classes(
    data: Dataset, scenario: str
) -> None:
    if not possible(data, scenario):
        pytest.skip("needs three classes")
    made = split(data, scenario)
    assert {role: made.roles.count(role) for role in made.roles} == ROLES.get(scenario, {})
    assert len(made.damage) == AGENTS
    assert all(len(np.unique(target)) >= 2 for target in classes_of(made))
    other = {split(data, scenario, seed=seed).roles for seed in range(3, 9)}
    assert len(other) > 1 or not made.roles


def test_label_noise_replaces_half_the_ratio_of_a_tier_by_another_class(data: Dataset) -> None:
    made = split(data, "label-noise")
    for tier, how, true, found in zip(
        made.roles, made.damage, truth(data, made), classes_of(made), strict=True
    ):
        low, high = TIERS[tier]
        assert low / 2 <= how.noise <= high / 2
        assert (true != found).sum() == round(how.noise * len(true))
        assert np.isin(found, np.arange(data.graphs.classes)).all()
    assert np.array_equal(made.graphs.neighbour, data.graphs.neighbour)


def test_inverted_agents_have_no_right_class_and_others_all(data: Dataset) -> None:
    made = split(data, "inverted")
    for role, true, found in zip(made.roles, truth(data, made), classes_of(made), strict=True):
        assert (true == found).any() != (role == "inverted")
        assert (true == found).all() == (role == "honest")


def test_duplicates_keep_the_number_of_graphs_with_a_third_of_the_graphs(data: Dataset) -> None:
    made, honest = split(data, "duplicates"), split(data, "iid")
    for k, (own, before) in enumerate(
        zip(made.partition.train, honest.partition.train, strict=True)
    ):
        graphs, times = np.unique(own, return_counts=True)
        assert set(graphs) <= set(before)
        assert set(times) == {3 if made.roles[k] == "duplicates" else 1}
        assert len(before) <= len(own) <= len(before) + 2
    assert made.graphs.digest() == data.graphs.digest()


def test_twins_have_the_same_graphs_and_one_s_own_are_used_by_nobody(data: Dataset) -> None:
    made, honest = split(data, "twins"), split(data, "iid")
    (second,) = [k for k, how in enumerate(made.damage) if how.twin is not None]
    first = made.damage[second].twin
    assert first is not None
    assert sorted((first, second)) == chosen(made, "twin")
    for k, own in enumerate(made.partition.train):
        source = first if k == second else k
        assert np.array_equal(own, honest.partition.train[source])
        assert np.array_equal(made.partition.test[k], honest.partition.test[k])
    used = np.concatenate(made.partition.train)
    assert not np.isin(honest.partition.train[second], used).any()


def test_free_riders_have_random_classes_and_moved_edges(data: Dataset) -> None:
    made = split(data, "free-riders")
    before, after = described(data.graphs), described(made.graphs)
    for role, train in zip(made.roles, made.partition.train, strict=True):
        kept = sum(len(before[g][1].keys() & after[g][1].keys()) for g in train)
        there = sum(len(before[g][1]) for g in train)
        wrong = np.mean([before[g][-1] != after[g][-1] for g in train])
        if role == "honest":
            assert (kept, wrong) == (there, 0)
        else:
            assert kept < there
            assert 0.2 < wrong < 0.9
        assert there == sum(len(after[g][1]) for g in train)


def test_the_exclusive_agent_alone_has_the_largest_graphs(data: Dataset) -> None:
    made = split(data, "exclusive-structure")
    (k,) = chosen(made, "exclusive")
    assert made.partition.exclusive == k
    shares = shares_of(made)
    sizes = [len(s) for s in shares]
    assert max(sizes) - min(sizes) <= 1
    nodes, target = data.graphs.nodes, data.graphs.target
    others = np.concatenate([s for a, s in enumerate(shares) if a != k])
    whole = nodes[shares[k]].min() >= nodes[others].max()
    by_class = all(
        nodes[shares[k]][target[shares[k]] == c].min() >= nodes[others][target[others] == c].max()
        for c in np.unique(target)
    )
    assert whole or by_class


def sized(nodes: list[int], target: list[int]) -> Dataset:
    return Dataset(GraphSet.build("sized", nodes, edges=[], target=target))


def test_largest_graphs_of_one_class_are_taken_from_both() -> None:
    target = [0] * 60 + [1] * 60
    made = split(sized([1 + c for c in target], target), "exclusive-structure", agents=3)
    (k,) = chosen(made, "exclusive")
    found = np.bincount(made.graphs.target[made.partition.train[k]])
    assert abs(found[0] - found[1]) <= 1


@given(
    st.lists(st.integers(0, 3), min_size=30, max_size=300), st.integers(2, 5), st.integers(0, 99)
)
def test_one_agent_alone_has_the_rarest_class_and_an_equal_share(
    more: list[int], agents: int, seed: int
) -> None:
    target = [0, 1, 2] * (4 * agents) + more
    made = split(sized([1] * len(target), target), "exclusive-class", agents=agents, seed=seed)
    (k,) = chosen(made, "exclusive")
    shares = shares_of(made)
    held = [set(np.array(target)[s]) for s in shares]
    rest = np.delete(np.array(target), made.partition.global_test)
    count = np.bincount(rest)
    rarest = int(np.flatnonzero(count == count[count > 0].min())[0])
    assert [a for a in range(agents) if rarest in held[a]] == [k]
    sizes = [len(s) for s in shares]
    assert max(sizes) - min(sizes) <= 1
    unused = len(rest) - sum(sizes)
    # All graphs of other classes are held, and those of the rarest up to half of the share.
    own = int((np.array(target)[shares[k]] == rarest).sum())
    assert own + unused == count[rarest]
    assert own <= sizes[k] / 2
    assert unused == 0 or own >= sizes[k] / 2 - 1


@given(
    st.lists(st.integers(0, 2), min_size=2, max_size=60), st.integers(2, 4), st.integers(0, 2**31)
)
def test_repeated_graphs_keep_two_classes_in_proportion(
    target: list[int], copies: int, seed: int
) -> None:
    classes = np.array(target)
    found = repeat(classes, copies, np.random.default_rng(seed))
    graphs, times = np.unique(found, return_counts=True)
    assert set(times) == {copies}
    assert len(graphs) == max(2, -(-len(target) // copies))
    kept = np.bincount(classes[graphs], minlength=3)
    assert (kept > 0).sum() >= min(2, len(set(target)))
    assert (np.abs(kept - np.bincount(classes, minlength=3) * len(graphs) / len(target)) <= 2).all()


@given(st.lists(st.integers(0, 3), max_size=40))
def test_a_stratified_order_has_every_index_once_and_keeps_that_of_a_stratum(
    strata: list[int],
) -> None:
    order = stratified(np.array(strata, dtype=np.int64))
    assert sorted(order.tolist()) == list(range(len(strata)))
    for c in set(strata):
        assert [k for k in order if strata[k] == c] == [k for k, s in enumerate(strata) if s == c]


@given(st.lists(st.integers(0, 2), max_size=40), st.floats(0, 1), st.integers(0, 2**31))
def test_noise_changes_exactly_its_share(target: list[int], noise: float, seed: int) -> None:
    before = np.array(target, dtype=np.int64)
    after = perturb_classes(before, Damage(noise=noise), 3, np.random.default_rng(seed))
    assert (after != before).sum() == round(noise * len(target))
    assert np.isin(after, [0, 1, 2]).all()
    assert np.array_equal(before, np.array(target))


def test_two_classes_are_too_few_for_an_exclusive_one() -> None:
    data = load_dataset("planted", agents=AGENTS, seed=3)
    with pytest.raises(MotifairError, match=r"needs at least 3 classes, but planted has 2; use"):
        split(data, "exclusive-class")


def test_a_perturbation_replaces_the_roles_of_the_embedded_dataset() -> None:
    data = load_dataset("planted", agents=10, seed=3)
    for name in PERTURBATIONS:
        made = split(data, "none", partition="domains", perturbation=name, agents=10)
        assert not set(made.roles) & set(data.roles)
        assert split(data, "none", partition="iid", perturbation=name, agents=10).roles


def test_options_offer_every_partition_and_perturbation() -> None:
    choices = {n: Config.__dataclass_fields__[n].metadata["choices"] for n in SCENARIOS["iid"]}
    assert set(choices["partition"]) == {*KINDS, *EXCLUSIVE, "domains", "scaffold"}
    assert set(choices["perturbation"]) == {*PERTURBATIONS, "none"}


# Digests of splits as they were before there were scenarios (seed 3, ten agents).
BEFORE = {
    ("domains", "none"): "6603e359da4db385",
    ("domains", "tiers"): "a730469ed606a571",
    ("chunks", "none"): "939f236a7375930f",
    ("chunks", "tiers"): "1dcf3c2e6371050f",
    ("iid", "none"): "5f073cbdeec04c0c",
    ("iid", "tiers"): "b37e79a99e330cd0",
    ("dirichlet", "none"): "47711cded2fccf37",
    ("dirichlet", "tiers"): "7a52c95dde691ad8",
    ("sizes", "none"): "591eaeca9ddee531",
    ("sizes", "tiers"): "9bfd46e0b7637a34",
}


@pytest.mark.parametrize(("partition", "perturbation"), BEFORE)
def test_splits_of_earlier_versions_stay_the_same(partition: str, perturbation: str) -> None:
    data = load_dataset("planted", agents=10, seed=3)
    options = {"partition": partition, "perturbation": perturbation, "agents": 10}
    made, sha = split(data, "none", **options), hashlib.sha256()
    shares, graphs = made.partition, made.graphs
    for part in (
        shares.global_test, *shares.train, *shares.test, graphs.neighbour, graphs.target,
        graphs.edge_start,
    ):  # fmt: skip
        sha.update(np.asarray(part, dtype=np.int64).tobytes() + b"/")
    sha.update(repr((made.roles, [(d.rewired, d.flipped) for d in made.damage])).encode())
    assert sha.hexdigest()[:16] == BEFORE[partition, perturbation]
