"""Trust: plain Python, bounds, order, and what one agent cannot do to others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles.belief import distinct_counts, judging_shares, wiring_trusts
from oracles.naive import class_trusts, trusts
from torch import Tensor
from value_strategies import numbers

from motifair.mechanism.trust import (
    class_trust,
    distinct_graphs,
    exclusiveness,
    first_names,
    judging,
    owners,
    trust,
    wiring_trust,
)

LEAST = 0.05
KNOWN = np.arange(13)  # classes
lists_of_graphs = st.lists(st.lists(st.integers(0, 12), max_size=8), min_size=1, max_size=7)


def fingerprints(agents: Sequence[Sequence[int]]) -> list[np.ndarray]:
    return [np.array(graphs, dtype=np.uint64) for graphs in agents]


def close(found: Tensor, expected: Sequence[float]) -> bool:
    return bool(np.allclose(found.numpy(), expected, rtol=0, atol=1e-9))


# Trust by evidence


@given(numbers(-3, 3))
def test_trust_is_from_0_to_1_and_what_plain_python_says(evidence: Tensor) -> None:
    found = trust(evidence, LEAST)
    assert ((found >= 0) & (found <= 1)).all()
    assert close(found, trusts(evidence.tolist(), [LEAST] * len(evidence)))


@given(numbers(-3, 3))
def test_more_evidence_is_trusted_no_less(evidence: Tensor) -> None:
    order = evidence.argsort()
    assert (trust(evidence, LEAST)[order].diff() >= 0).all()


@given(numbers(-3, 3), st.data(), st.floats(0, 5))
def test_who_shows_more_is_trusted_no_less(
    evidence: Tensor, data: st.DataObject, more: float
) -> None:
    agent = data.draw(st.integers(0, len(evidence) - 1))
    before = trust(evidence, LEAST)[agent]
    assume(evidence.sort().values[-2] > 0)  # else all are trusted
    evidence[agent] += more
    assert trust(evidence, LEAST)[agent] >= before - 1e-12


@given(numbers(-3, 3), st.floats(1, 1e6))
def test_one_extreme_agent_does_not_set_the_scale(evidence: Tensor, by: float) -> None:
    before = trust(evidence, LEAST)
    best = evidence.argmax()
    evidence[best] = evidence[best].abs() * by
    assert torch.equal(trust(evidence, LEAST), before)


@pytest.mark.parametrize("evidence", [[5.0], [5.0, 0.0], [5.0, -1.0, -2.0], [-1.0, -2.0]])
def test_where_no_two_agents_have_evidence_all_are_trusted(evidence: list[float]) -> None:
    assert trust(torch.tensor(evidence), LEAST).tolist() == [1.0] * len(evidence)


@given(st.lists(numbers(-3, 3, size=5), min_size=1, max_size=4))
def test_a_stack_is_trusted_as_one_by_one(rows: list[Tensor]) -> None:
    expected = torch.stack([trust(row, LEAST) for row in rows])
    assert torch.equal(trust(torch.stack(rows), LEAST), expected)


# Classes

told = st.lists(
    st.tuples(
        st.none() | st.floats(-1, 1, width=32), st.integers(0, 200), st.sampled_from([0, 0.5, 1.0])
    ),
    min_size=1,
    max_size=8,
)


@given(told)
def test_trust_in_classes_is_what_plain_python_says(
    agents: list[tuple[float | None, int, float]],
) -> None:
    given_, graphs, presence = zip(*agents, strict=True)
    said = torch.tensor([math.nan if a is None else a for a in given_]).double()
    found = class_trust(said, torch.tensor(graphs).double(), torch.tensor(presence).double())
    assert ((found >= 0) & (found <= 1)).all()
    assert close(found, class_trusts(given_, [float(n) for n in graphs], presence))
    assert (found[said.isnan()] == 1).all()


def test_an_agent_that_nobody_can_be_compared_with_is_trusted() -> None:
    assert wiring_trust(torch.tensor([[-0.5, 0.1]]).double()).tolist() == [1.0]
    assert distinct_graphs([np.array([1, 1, 2])]).tolist() == [2.0]


def test_swapped_classes_are_not_trusted_and_few_graphs_say_little() -> None:
    said = torch.tensor([0.5, 0.4, -0.4, -0.4]).double()
    found = class_trust(said, torch.tensor([50.0, 50.0, 50.0, 2.0]).double(), torch.ones(4))
    assert found[:3].tolist() == [1.0, 1.0, 0.0]
    assert found[3] == 0  # few graphs are no excuse


# Wiring


def wirings(agents: int, seed: int, measures: int = 13) -> Tensor:
    """Agents that differ from chance alike, with noise; the first measures are rings."""
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(measures, generator=generator, dtype=torch.float64)
    noise = torch.randn(agents, measures, generator=generator, dtype=torch.float64)
    return (0.3 * common + 0.1 * noise).clamp(-1, 1)


many_wirings = st.tuples(st.integers(2, 8), st.integers(0, 10**6)).map(lambda x: wirings(*x))


@given(many_wirings)
def test_trust_in_the_wiring_is_what_plain_python_says(wiring: Tensor) -> None:
    found = wiring_trust(wiring)
    assert ((found >= 0) & (found <= 1)).all()
    assert close(found, wiring_trusts(wiring.tolist()))


@given(many_wirings, st.randoms(use_true_random=False))
def test_trust_in_the_wiring_does_not_depend_on_the_order(wiring: Tensor, random: object) -> None:
    order = list(range(len(wiring)))
    random.shuffle(order)  # type: ignore[attr-defined]
    torch.testing.assert_close(wiring_trust(wiring[order]), wiring_trust(wiring)[order])


@given(many_wirings, st.floats(1, 1e6))
def test_one_extreme_wiring_does_not_set_the_scale(wiring: Tensor, by: float) -> None:
    before = wiring_trust(wiring)
    wiring[wiring.norm(dim=1).argmax()] *= by
    torch.testing.assert_close(wiring_trust(wiring), before)


@given(st.integers(4, 8), st.integers(0, 10**6))
def test_less_of_what_most_have_is_trusted_less(agents: int, seed: int) -> None:
    wiring = wirings(agents, seed)
    wiring[:] = wiring[0]
    wiring[0] *= 0.5
    wiring[1] *= 0.1
    found = wiring_trust(wiring).tolist()
    assert found[1] < found[0] < 1
    assert found[2:] == pytest.approx([1.0] * (agents - 2))


def test_agents_that_are_divided_are_told_apart_by_rings() -> None:
    rings = torch.tensor([0.9, 0.2, 0.0, 0.0, -0.5]).double()
    found = wiring_trust(torch.stack([rings, -rings, rings, -rings]))
    assert found.tolist() == pytest.approx([1.0, 0.0, 1.0, 0.0])
    found = wiring_trust(torch.stack([-rings, -rings, -rings, rings, rings]))
    assert found.tolist() == pytest.approx([0.0, 0.0, 0.0, 1.0, 1.0])
    most = wiring_trust(torch.stack([-rings] * 4 + [rings]))
    assert most.tolist() == pytest.approx([1.0, 1.0, 1.0, 1.0, 0.0])


def test_graphs_without_a_sign_of_wiring_are_all_trusted() -> None:
    assert wiring_trust(torch.zeros(3, 13).double()).tolist() == [1.0, 1.0, 1.0]


# Distinct graphs


@given(lists_of_graphs)
def test_distinct_graphs_are_what_loops_count(agents: list[list[int]]) -> None:
    found = distinct_graphs(fingerprints(agents))
    np.testing.assert_allclose(found, distinct_counts(agents))
    assert (found <= np.array([len(graphs) for graphs in agents]) + 1e-9).all()
    assert (found >= 0).all()


@given(st.integers(2, 5), st.data())
def test_to_copy_graphs_brings_next_to_nothing(copies: int, data: st.DataObject) -> None:
    chance = data.draw(lists_of_graphs.filter(lambda agents: len(agents) > 3))
    agents = [[*graphs, *(100 * k + g for g in range(20, 30))] for k, graphs in enumerate(chance)]
    before = distinct_graphs(fingerprints(agents))
    agents[0] = agents[0] * copies
    after = distinct_graphs(fingerprints(agents))
    assert after[0] <= 1.25 * before[0]  # the reference changes by one agent's place


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 5), st.data())
def test_agents_with_the_same_graphs_count_together_as_one(
    twins: int, graphs: int, copies: int, data: st.DataObject
) -> None:
    others = data.draw(st.integers(max(twins, 2), 6))
    mine = list(range(graphs)) * copies
    rest = [[1000 * (k + 1) + g for g in range(4)] for k in range(others)]
    found = distinct_graphs(fingerprints([*[mine] * twins, *rest]))
    assert found[:twins].tolist() == pytest.approx([graphs / twins] * twins)
    assert found[twins:].tolist() == [4.0] * others


def test_graphs_that_most_hold_count_in_full_beside_others() -> None:
    common = [1, 1, 2]
    found = distinct_graphs(fingerprints([common, common, common, [*common, 7, 7, 8]]))
    assert found.tolist() == [3.0, 3.0, 3.0, 4.0]  # 7 and 8 are two of three


@given(st.integers(2, 12), st.data())
def test_names_with_the_same_graphs_change_nothing_that_counts(
    names: int, data: st.DataObject
) -> None:
    # Also where they are most of all names, and graphs are alike by chance.
    chance = data.draw(lists_of_graphs.filter(lambda agents: len(agents) > 2))
    agents = [[*graphs, *(100 * (k + 1) + g for g in range(10))] for k, graphs in enumerate(chance)]
    one = fingerprints(agents)
    several = [*one, *[one[0]] * (names - 1)]
    assert owners(several).tolist() == [*range(len(one)), *[0] * (names - 1)]
    before, after = distinct_graphs(one), distinct_graphs(several)
    own = [0, *range(len(one), len(several))]
    assert after[own].sum() == pytest.approx(before[0])
    np.testing.assert_allclose(np.delete(after, own), before[1:])
    judged, still = judging(one), judging(several)
    np.testing.assert_allclose(still[1 : len(one), 1 : len(one)], judged[1:, 1:])
    assert still[own][:, own].max() == 0
    assert still[1][own].sum() == pytest.approx(before[0] / np.median(before))  # as judges, too
    wiring = wirings(len(one), seed=names)
    said = torch.cat([wiring, wiring[:1].expand(names - 1, -1)])
    trusted = wiring_trust(said, torch.from_numpy(first_names(owners(several))))
    torch.testing.assert_close(trusted[: len(one)], wiring_trust(wiring))
    torch.testing.assert_close(trusted[own], trusted[:1].expand(names))


def test_graphs_changed_a_little_gain_little_where_graphs_are_alike_by_chance() -> None:
    rng = np.random.default_rng(0)
    cliques, own = [rng.integers(1, 60, 15) for _ in range(10)], np.arange(15)
    agents = [np.concatenate([c, 100 * (k + 1) + own]) for k, c in enumerate(cliques)]
    before = distinct_graphs(agents)
    gain = []
    for k, graphs in enumerate(agents):
        changed = [*agents[:k], 10_000 + np.arange(len(graphs)), *agents[k + 1 :]]
        gain.append(distinct_graphs(changed)[k] / before[k])
    assert np.mean(gain) < 1.1


@given(lists_of_graphs)
def test_what_agents_count_as_judges_is_what_loops_say(agents: list[list[int]]) -> None:
    np.testing.assert_allclose(judging(fingerprints(agents)), judging_shares(agents))


def test_an_agent_without_graphs_counts_nothing() -> None:
    assert distinct_graphs(fingerprints([[], [1, 2], [3]])).tolist() == [0.0, 2.0, 1.0]


# A class of one's own


@given(lists_of_graphs)
def test_exclusiveness_is_what_loops_count(agents: list[list[int]]) -> None:
    sizes = [len(classes) for classes in agents]
    everybody = sum(sizes) ** 2 / max(sum(n * n for n in sizes), 1)
    expected = []
    for classes in agents:
        total = 0.0
        for c in classes:
            most = max(other.count(c) for other in agents)
            alone = (most / sum(other.count(c) for other in agents) - 0.9) / 0.1
            total += 1 + (everybody - 1) * min(1, max(0, alone))
        expected.append(total / len(classes) if classes else 1.0)
    np.testing.assert_allclose(exclusiveness(fingerprints(agents), KNOWN), expected)


@given(st.lists(st.lists(st.integers(0, 2), min_size=3), min_size=2, max_size=6))
def test_where_two_agents_have_every_class_all_graphs_count_1(agents: list[list[int]]) -> None:
    everything = [0, 1, 2] * 40
    weights = exclusiveness(fingerprints([everything, everything, *agents]), KNOWN)
    assert weights.tolist() == [1.0] * (len(agents) + 2)


@given(lists_of_graphs, st.integers(1, 4))
def test_names_without_graphs_change_no_weight(agents: list[list[int]], names: int) -> None:
    before = exclusiveness(fingerprints(agents), KNOWN)
    after = exclusiveness(fingerprints([*agents, *[[]] * names]), KNOWN)
    np.testing.assert_allclose(after[: len(agents)], before)


def test_a_class_under_two_names_is_no_class_of_ones_own() -> None:
    others = [[0, 1] * 10] * 5
    alone = exclusiveness(fingerprints([[2, 2, 0, 1] * 5, *others]), KNOWN)
    split = exclusiveness(fingerprints([[2, 0] * 5, [2, 1] * 5, *others]), KNOWN)
    assert alone.tolist() == [3.5, 1, 1, 1, 1, 1]  # half of its graphs count six times
    assert split.tolist() == [1.0] * 7


def test_a_class_that_the_federation_does_not_know_brings_nothing() -> None:
    invented = [[77, 78, 79] * 5, *[[0, 1] * 10] * 5]
    assert exclusiveness(fingerprints(invented), np.array([0, 1])).tolist() == [1.0] * 6
