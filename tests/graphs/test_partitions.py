"""Who holds which graph: every graph once, shares as each partition promises, refusals."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from motifair.errors import MotifairError
from motifair.graphs.dataset import Dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.partition import KINDS, Partition, holdout, make_partition

HUNDREDTHS = st.integers(1, 99)


def dataset(target: list[int] | np.ndarray, owner: list[int] | None = None) -> Dataset:
    """Graphs of a single node, of the given classes and owners."""
    nodes, classes = [1] * len(target), range(2)
    graphs = GraphSet.build("dots", nodes, edges=[], target=target, class_values=classes)
    if owner is None:
        return Dataset(graphs)
    names = tuple(f"owner-{k}" for k in range(max(owner) + 1))
    return Dataset(graphs, np.array(owner), names)


def shared_out(data: Dataset, kind: str, *, seed: int = 0, **options: Any) -> Partition:
    chosen = {"agents": 4, "test_fraction": 0.1, "skew": 5.0, **options}
    return make_partition(data, kind, rng=np.random.default_rng(seed), **chosen)


def shares(partition: Partition) -> list[np.ndarray]:
    return [
        np.sort(np.concatenate(parts))
        for parts in zip(partition.train, partition.test, strict=True)
    ]


def balanced(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.arange(n) % 2)


@given(
    st.sampled_from([*KINDS, "domains"]),
    st.integers(80, 200),
    st.integers(2, 4),
    st.integers(0, 2**31 - 1),
)
def test_every_graph_is_held_exactly_once(kind: str, n: int, agents: int, seed: int) -> None:
    owner = (np.arange(n) // 2 % agents).tolist()
    data = dataset(balanced(n, seed) if kind != "domains" else np.arange(n) % 2, owner)
    partition = shared_out(data, kind, agents=agents, seed=seed)
    held = [partition.global_test, *partition.train, *partition.test]
    assert sorted(chain.from_iterable(h.tolist() for h in held)) == list(range(n))
    assert all((np.diff(h) > 0).all() for h in held)
    assert len(partition.names) == len(partition.train) == len(partition.test) == agents


@pytest.mark.parametrize("kind", [*KINDS, "domains"])
def test_the_seed_alone_decides_the_partition(kind: str) -> None:
    data = dataset(balanced(200, 0), [0, 1, 2, 3] * 50)
    first, again, other = (shared_out(data, kind, seed=s) for s in (7, 7, 8))
    for one, two in zip(first.train + first.test, again.train + again.test, strict=True):
        assert np.array_equal(one, two)
    assert first.global_test.tolist() == again.global_test.tolist()
    assert first.global_test.tolist() != other.global_test.tolist()
    assert any(a.tolist() != b.tolist() for a, b in zip(first.test, other.test, strict=True))


@given(st.lists(st.integers(2, 30), min_size=1, max_size=4), HUNDREDTHS, st.integers(0, 2**31 - 1))
@example([50, 50], 7, 0)  # .07·100 is above 7 in floating point
def test_the_hold_out_takes_every_class_within_one_graph_of_its_proportion(
    size: list[int], hundredths: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    strata = rng.permutation(np.repeat(np.arange(len(size)) * 3 - 1, size))
    kept, held = holdout(strata, hundredths / 100, rng)
    n = len(strata)
    wanted = ceil(Fraction(hundredths, 100) * n)
    assert len(held) == wanted
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(n))
    for c, members in enumerate(size):
        taken = int((strata[held] == c * 3 - 1).sum())
        assert abs(taken - Fraction(members * wanted, n)) < 1


def test_the_hold_out_is_plain_where_a_class_has_a_single_member() -> None:
    strata = np.array([0] * 19 + [1])
    held = [holdout(strata, 0.1, np.random.default_rng(s))[1] for s in range(200)]
    assert all(len(h) == 2 for h in held)
    assert 5 < sum(19 in h for h in held) < 40


def test_equal_claims_on_the_last_held_graph_do_not_always_favour_one_class() -> None:
    strata = np.array([0] * 5 + [1] * 5)
    first = [int(strata[holdout(strata, 0.1, np.random.default_rng(s))[1][0]]) for s in range(40)]
    assert 8 < sum(first) < 32


@given(st.integers(100, 300), HUNDREDTHS.filter(lambda h: 5 <= h <= 50), st.integers(0, 999))
def test_test_sets_are_rounded_up_at_the_server_and_at_each_agent(
    n: int, hundredths: int, seed: int
) -> None:
    partition = shared_out(
        dataset(balanced(n, seed)), "iid", test_fraction=hundredths / 100, seed=seed
    )
    assert len(partition.global_test) == ceil(Fraction(n, 10))
    for train, test in zip(partition.train, partition.test, strict=True):
        assert len(test) == ceil(Fraction(hundredths, 100) * (len(train) + len(test)))


@given(st.integers(30, 900), st.integers(2, 10), st.integers(0, 999))
def test_chunks_are_consecutive_blocks_and_a_random_rest(n: int, agents: int, seed: int) -> None:
    partition = shared_out(dataset(np.arange(n) % 2), "chunks", agents=agents, seed=seed)
    rest = np.setdiff1d(np.arange(n), partition.global_test)
    size = min(50, len(rest) // agents)
    owner = {int(g): a for a, share in enumerate(shares(partition)) for g in share}
    for a in range(agents):
        assert {owner[int(g)] for g in rest[a * size : (a + 1) * size]} == {a}
    if len(rest) - agents * size >= 100:
        assert {owner[int(g)] for g in rest[agents * size :]} == set(range(agents))


def test_the_chunks_of_proteins_hold_50_graphs_in_order_and_about_50_more(
    proteins: GraphSet,
) -> None:
    partition = shared_out(Dataset(proteins), "chunks", agents=10)
    sizes = [len(s) for s in shares(partition)]
    assert sum(sizes) == 1113 - 112
    assert all(75 < s < 125 for s in sizes)
    first = shares(partition)[0]
    assert len(set(proteins.target[first[:50]].tolist())) == 1


def test_the_chunker_may_leave_an_agent_of_imdb_with_one_class(imdb: GraphSet) -> None:
    partition = shared_out(Dataset(imdb), "chunks", agents=10)
    assert np.unique(imdb.target[partition.train[9]]).tolist() == [1]


@given(st.integers(100, 300), st.integers(2, 6), st.integers(0, 999))
def test_iid_shares_differ_by_at_most_one_graph(n: int, agents: int, seed: int) -> None:
    partition = shared_out(dataset(np.arange(n) % 2), "iid", agents=agents, seed=seed)
    sizes = [len(s) for s in shares(partition)]
    assert max(sizes) - min(sizes) <= 1


def test_iid_shares_are_not_consecutive() -> None:
    partition = shared_out(dataset(np.arange(200) % 2), "iid")
    assert all(np.ptp(s) > 100 for s in shares(partition))


def class_shares(data: Dataset, partition: Partition) -> np.ndarray:
    return np.array([data.graphs.target[s].mean() for s in shares(partition)])


def test_dirichlet_classes_are_more_skewed_for_a_smaller_skew() -> None:
    data = dataset(balanced(1000, 0))
    spread = {
        skew: np.mean(
            [
                class_shares(data, shared_out(data, "dirichlet", skew=skew, seed=s)).std()
                for s in range(10)
            ]
        )
        for skew in (0.5, 5.0, 500.0)
    }
    assert spread[0.5] > 2 * spread[5.0] > 4 * spread[500.0]


def test_sizes_are_more_skewed_for_a_smaller_skew_but_alike_in_content() -> None:
    data = dataset(balanced(1000, 0))

    def unevenness(skew: float) -> float:
        made = [shared_out(data, "sizes", skew=skew, seed=s) for s in range(10)]
        return float(np.mean([np.std([len(s) for s in shares(p)]) for p in made]))

    assert unevenness(0.5) > 2 * unevenness(5.0) > 4 * unevenness(500.0)
    data = dataset(np.arange(1000) // 500)
    partition = shared_out(data, "sizes", skew=0.5)
    sizes = np.array([len(s) for s in shares(partition)])
    deviation = np.abs(class_shares(data, partition) - 0.5)
    assert (deviation < 2 / np.sqrt(sizes)).all()


@pytest.mark.parametrize("kind", ["dirichlet", "sizes"])
def test_drawn_shares_hold_two_graphs_of_two_classes_each(kind: str) -> None:
    data = dataset(balanced(60, 0))
    for seed in range(20):
        partition = shared_out(data, kind, skew=0.7, seed=seed)
        for share in shares(partition):
            assert np.bincount(data.graphs.target[share], minlength=2).min() >= 2


def test_domains_follow_the_owner_whatever_the_number_of_agents() -> None:
    owner = [0] * 60 + [1] * 40 + [2] * 100
    data = dataset(np.arange(200) % 2, owner)
    partition = shared_out(data, "domains", agents=2)
    assert partition.names == ("owner-0", "owner-1", "owner-2")
    for a, share in enumerate(shares(partition)):
        assert set(np.array(owner)[share]) == {a}
    assert data.owner is not None
    held = np.bincount(data.owner[partition.global_test] * 2 + partition.global_test % 2)
    assert held.tolist() == [3, 3, 2, 2, 5, 5]


def test_an_agent_of_one_class_is_refused_for_domains_and_named() -> None:
    data = dataset([0, 1] * 20 + [1] * 20, [0] * 40 + [1] * 20)
    with pytest.raises(
        MotifairError, match=r"Agent 'owner-1' trains on 16 graphs of one class.* another class"
    ):
        shared_out(data, "domains")


def test_graphs_of_one_class_are_refused_for_iid_but_not_for_chunks() -> None:
    data = dataset([0] * 100)
    with pytest.raises(MotifairError, match="of one class, so there is nothing to learn"):
        shared_out(data, "iid")
    assert len(shared_out(data, "chunks").train) == 4


@pytest.mark.parametrize(
    ("data", "kind", "options", "sentence"),
    [
        (dataset([0, 1]), "iid", {"agents": 3}, "dots has 2 graphs for 3 agents; use fewer agents"),
        (dataset([0]), "chunks", {"agents": 2}, "dots has 1 graphs for 2 agents; use fewer"),
        (dataset([0, 1] * 5), "iid", {"agents": 10}, "Agent '.*' has (no|1) graph.* fewer agents"),
        (dataset([0, 1] * 5), "iid", {"agents": 9}, "has 1 graph; a split into train and test"),
        (dataset([0, 1] * 50), "domains", {}, "partition=domains gives each .* but dots is one"),
        (dataset([0, 1] * 50), "iid", {"test_fraction": 0.99}, "no graph left to train on; lower"),
        (dataset([0, 1] * 20), "dirichlet", {"skew": 1e-4}, "partition=dirichlet .* raise skew"),
        (dataset([0, 1] * 20), "sizes", {"skew": 1e-4}, "partition=sizes .* raise skew"),
        (dataset([0] * 90), "sizes", {}, "partition=sizes left an agent without two classes"),
    ],
)
def test_impossible_partitions_are_refused_in_a_sentence(
    data: Dataset, kind: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(MotifairError, match=sentence):
        shared_out(data, kind, **options)
