"""Coverage: brute force over coalitions, the axioms of Shapley values, and edge cases."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.naive import coverages
from torch import Tensor
from value_strategies import rounds

from motifair.mechanism.alignment import MOST_AGENTS_EXACT
from motifair.mechanism.coverage import _quadratic, _sampled, coverage, shares_of_gram

Round = tuple[Tensor, Tensor]


def shares(updates: Tensor, weight: Tensor) -> Tensor:
    return shares_of_gram(updates @ updates.mT, weight)[0]


def consensus(updates: Tensor, weight: Tensor) -> Tensor:
    return shares_of_gram(updates @ updates.mT, weight)[1]


def sampled(updates: Tensor, weight: Tensor) -> Tensor:
    gram = updates @ updates.mT
    return _sampled(gram, weight, _quadratic(weight, gram))


def drawn(agents: int, seed: int, lean: float = 0.5, size: int = 40) -> Round:
    """Updates of agents with a common part, and weights that add up to 1."""
    generator = torch.Generator().manual_seed(seed)
    updates = torch.randn(agents, size, generator=generator, dtype=torch.float64) + lean
    weight = torch.rand(agents, generator=generator, dtype=torch.float64) + 0.1
    return updates, weight / weight.sum()


@given(rounds(most_agents=6))
def test_coverage_is_the_game_of_means_by_brute_force(one: Round) -> None:
    updates, weight = one
    expected = torch.tensor(coverages(list(updates), (7 * weight).tolist()), dtype=torch.float64)
    torch.testing.assert_close(coverage(updates, 7 * weight), expected, atol=1e-9, rtol=1e-6)


@given(rounds())
def test_shares_add_up_to_the_whole_step(one: Round) -> None:
    total = shares(*one).sum()
    torch.testing.assert_close(total, torch.ones_like(total), atol=1e-7, rtol=0)


@given(rounds())
def test_consensus_is_from_0_to_1_and_1_where_all_agree(one: Round) -> None:
    updates, weight = one
    assert 0 <= consensus(updates, weight) <= 1 + 1e-12
    same = updates[:1].expand_as(updates)
    assert abs(consensus(same, weight) - 1) < 1e-9
    expected = torch.full_like(weight, 1 / len(weight))
    torch.testing.assert_close(coverage(same, weight), expected, atol=1e-9, rtol=0)


@given(rounds(), st.randoms(use_true_random=False))
def test_agents_in_another_order_have_the_same_coverage(one: Round, random: object) -> None:
    updates, weight = one
    order = list(range(len(weight)))
    random.shuffle(order)  # type: ignore[attr-defined]
    found = coverage(updates[order], weight[order])
    torch.testing.assert_close(found, coverage(updates, weight)[order], atol=1e-9, rtol=1e-6)


@given(rounds(), st.floats(0.01, 100), st.floats(0.01, 100), st.integers(0, 99))
def test_lengths_numbers_of_graphs_and_directions_do_not_matter(
    one: Round, by: float, more: float, seed: int
) -> None:
    updates, weight = one
    generator = torch.Generator().manual_seed(seed)
    square = torch.randn(2 * [updates.shape[1]], generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(square).Q
    found = coverage(-by * updates @ rotation, more * weight)
    torch.testing.assert_close(found, coverage(updates, weight), atol=1e-9, rtol=1e-6)


@given(rounds(), st.data())
def test_equal_agents_have_equal_coverage(one: Round, data: st.DataObject) -> None:
    updates, weight = one
    twin = data.draw(st.integers(1, len(weight) - 1))
    updates[twin], weight[twin] = updates[0], weight[0]
    found = coverage(updates, weight)
    torch.testing.assert_close(found[twin], found[0], atol=1e-9, rtol=1e-6)


@given(rounds(), st.data())
def test_an_agent_without_graphs_gets_nothing_and_takes_nothing(
    one: Round, data: st.DataObject
) -> None:
    updates, weight = one
    empty = data.draw(st.integers(0, len(weight) - 1))
    weight[empty] = 0
    rest = [k for k in range(len(weight)) if k != empty]
    found = coverage(updates, weight)
    assert abs(found[empty]) < 1e-9
    alone = coverage(updates[rest], weight[rest])
    torch.testing.assert_close(found[rest], alone, atol=1e-9, rtol=1e-6)


def gain_by_orders(updates: Tensor, weight: Tensor, orders: int) -> Tensor:
    """What each agent adds to a coalition in each of some random orders, `(orders, A)`."""
    generator, step = torch.Generator().manual_seed(1), weight @ updates
    gains = torch.zeros(orders, len(weight), dtype=torch.float64)
    for gain in gains:
        order = torch.randperm(len(weight), generator=generator)
        before = -1.0
        for k in range(len(order)):
            members = order[: k + 1]
            mean = weight[members] @ updates[members] / weight[members].sum()
            worth = -float((mean - step).square().sum() / step.square().sum())
            gain[order[k]], before = worth - before, worth
    return gains


@pytest.mark.parametrize("lean", [0.5, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_random_orders_estimate_the_exact_shares(seed: int, lean: float) -> None:
    one = drawn(8, seed, lean)
    exact, estimate = shares(*one), sampled(*one)
    assert abs(estimate.sum() - 1) < 1e-9
    spread = gain_by_orders(*one, orders=300).std(dim=0)  # of one order
    assert ((estimate - exact).abs() < 2 * spread / 256**0.5).all()


def test_many_agents_are_estimated() -> None:
    many = MOST_AGENTS_EXACT + 1
    updates, weight = drawn(many, 0)
    assert torch.equal(shares(updates, weight), sampled(updates, weight))
    few = updates[:-1], weight[:-1] / weight[:-1].sum()
    assert not torch.equal(shares(*few), sampled(*few))


@pytest.mark.parametrize("agents", [MOST_AGENTS_EXACT + 1, 20, 50])
def test_places_in_the_order_of_agents_are_worth_the_same(agents: int) -> None:
    """Also where the values are estimates: by chance, agents that are alike get about the same."""
    equal = torch.ones(agents, dtype=torch.float64) / agents
    same = drawn(1, 0)[0].expand(agents, -1)
    torch.testing.assert_close(coverage(same, equal), equal, atol=1e-9, rtol=0)
    alike = [coverage(drawn(agents, seed, lean=2.0, size=400)[0], equal) for seed in range(10)]
    mean = torch.stack(alike).mean(dim=0) * agents
    assert (mean / mean.mean() - 1).abs().max() < 0.1


@given(st.sampled_from([1, 2, 5, MOST_AGENTS_EXACT + 2]), st.integers(1, 4))
@settings(max_examples=12)
def test_a_stack_of_federations_is_valued_as_one_by_one(agents: int, federations: int) -> None:
    each = [drawn(agents, seed) for seed in range(federations)]
    updates, weight = (torch.stack(column) for column in zip(*each, strict=True))
    expected = torch.stack([coverage(*one) for one in each])
    torch.testing.assert_close(coverage(updates, weight), expected, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("agents", [1, 2, 7, MOST_AGENTS_EXACT + 1])
def test_updates_without_a_common_step_are_worth_nothing(agents: int) -> None:
    zero = torch.zeros(agents, 5, dtype=torch.float64)
    assert (coverage(zero, torch.ones(agents)) == 0).all()
    updates, weight = drawn(agents + 1, 3)
    updates[-1] = -(weight[:-1] @ updates[:-1]) / weight[-1]
    assert coverage(updates, weight).abs().max() < 1e-6
    one_silent, weight = drawn(agents, 4)
    one_silent[0] = 0
    assert coverage(one_silent, weight).isfinite().all()
    assert coverage(one_silent, torch.zeros(agents)).isfinite().all()


def test_one_agent_covers_itself() -> None:
    assert coverage(drawn(1, 0)[0], torch.tensor([3.0])).tolist() == pytest.approx([1.0])
