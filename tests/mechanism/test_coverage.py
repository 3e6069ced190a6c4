"""Coverage: a naive oracle, the axioms a payment by it stands on, and edge cases."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.naive import coverages
from torch import Tensor
from value_strategies import rounds

from motifair.mechanism.alignment import reach
from motifair.mechanism.coverage import agreement_of_gram
from motifair.mechanism.coverage import coverage as by_length

Round = tuple[Tensor, Tensor]


def coverage(updates: Tensor, worth: Tensor) -> Tensor:
    """Coverage of updates of usual lengths."""
    return by_length(updates, worth, torch.ones_like(worth))


def consensus(updates: Tensor, weight: Tensor) -> Tensor:
    """Consensus of updates, with nobody's weight above the median."""
    capped = torch.minimum(weight, weight.sort().values[(len(weight) - 1) // 2])
    return agreement_of_gram(updates @ updates.mT, capped / capped.sum())[1]


def drawn(agents: int, seed: int, lean: float = 0.5, size: int = 40) -> Round:
    """Updates of agents with a common part, and weights that add up to 1."""
    generator = torch.Generator().manual_seed(seed)
    updates = torch.randn(agents, size, generator=generator, dtype=torch.float64) + lean
    weight = torch.rand(agents, generator=generator, dtype=torch.float64) + 0.1
    return updates, weight / weight.sum()


@given(rounds(most_agents=6))
def test_coverage_is_the_oracle_s(one: Round) -> None:
    updates, weight = one
    far = reach(updates, torch.ones_like(weight))
    expected = coverages(list(updates), (7 * weight).tolist(), far.tolist())
    found = by_length(updates, 7 * weight, far)
    torch.testing.assert_close(found, torch.tensor(expected).double(), atol=1e-9, rtol=1e-6)


@given(rounds())
def test_nobody_gets_more_than_its_worth_or_less_than_nothing(one: Round) -> None:
    updates, weight = one
    most = consensus(updates, weight) ** 3 * weight
    found = coverage(updates, weight)
    assert ((found >= 0) & (found <= most + 1e-12)).all()


@given(rounds(), st.floats(0, 1))
def test_short_updates_are_worth_as_much_less_as_they_are_shorter(one: Round, by: float) -> None:
    updates, weight = one
    found = by_length(updates, weight, torch.full_like(weight, by))
    torch.testing.assert_close(found, min(1.0, 2 * by) * coverage(updates, weight))


@given(rounds())
def test_consensus_is_from_0_to_1_and_1_where_all_agree(one: Round) -> None:
    updates, weight = one
    assert 0 <= consensus(updates, weight) <= 1 + 1e-12
    same = updates[:1].expand_as(updates)
    assert abs(consensus(same, weight) - 1) < 1e-9
    torch.testing.assert_close(coverage(same, weight), weight, atol=1e-9, rtol=0)


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


@given(rounds(), st.floats(0.01, 0.99), st.data())
def test_two_names_together_are_worth_what_one_is_where_no_weight_is_capped(
    one: Round, part: float, data: st.DataObject
) -> None:
    """They agree with each other, which earns what graphs are worth and nothing more."""
    updates, weight = one
    weight = torch.cat([weight, weight.max().repeat(len(weight) + 2)])
    updates = torch.cat([updates, updates[:1].repeat(len(updates) + 2, 1)])
    agent = data.draw(st.integers(0, len(weight) - 1))
    again = torch.cat([updates, updates[agent : agent + 1]])
    parts = torch.cat([weight, weight[agent : agent + 1] * (1 - part)])
    parts[agent] *= part
    most = consensus(updates, weight) ** 3 * weight[agent] / weight.sum()
    before, after = coverage(updates, weight)[agent], coverage(again, parts)
    together = after[agent] + after[-1]
    assert together <= most + 1e-9
    if before > most - 1e-9:
        assert together > most - 1e-6


@given(rounds(), st.data(), st.floats(0.01, 100))
def test_only_the_directions_of_updates_are_compared(
    one: Round, data: st.DataObject, by: float
) -> None:
    """A longer update is not further from the others', a shorter one not nearer."""
    updates, weight = one
    expected = coverage(updates, weight)
    updates[data.draw(st.integers(0, len(weight) - 1))] *= by
    torch.testing.assert_close(coverage(updates, weight), expected, atol=1e-9, rtol=1e-6)


def test_noise_and_reversed_updates_get_nothing_where_others_agree() -> None:
    updates, weight = drawn(6, 1, lean=3.0, size=4000)
    generator = torch.Generator().manual_seed(2)
    noise = torch.randn(updates.shape[1], generator=generator, dtype=torch.float64)
    noise *= updates[0].norm() / noise.norm()
    for sent in (noise, noise / 2, -updates[0]):
        updates[0] = sent
        found = coverage(updates, weight)
        assert found[0] == 0
        assert (found[1:] > 0).all()


def test_claims_do_not_decide_what_is_common() -> None:
    """Three of ten that claim twice the graphs and reverse their updates get nothing."""
    updates, worth = drawn(10, 1, lean=1.0)[0], torch.ones(10)
    updates[:3] *= -1
    worth[:3] = 2
    found = coverage(updates, worth)
    assert (found[:3] == 0).all()
    assert (found[3:] > 0).all()


@given(rounds(), st.floats(0.01, 0.99), st.data())
def test_who_agrees_more_with_the_others_does_not_lose(
    one: Round, by: float, data: st.DataObject
) -> None:
    updates, weight = one
    agent = data.draw(st.integers(0, len(weight) - 1))
    weight[agent] = 1e-9
    share = coverage(updates, weight)[agent]
    directions = updates / updates.norm(dim=-1, keepdim=True)
    capped = torch.minimum(weight, weight.sort().values[(len(weight) - 1) // 2])
    capped[agent] = 0
    updates[agent] = directions[agent] + by * (capped @ directions / capped.sum())
    assert coverage(updates, weight)[agent] >= share - 1e-12


@given(st.sampled_from([1, 2, 5, 14]), st.integers(1, 4))
@settings(max_examples=12)
def test_a_stack_of_federations_is_valued_as_one_by_one(agents: int, federations: int) -> None:
    each = [drawn(agents, seed) for seed in range(federations)]
    updates, weight = (torch.stack(column) for column in zip(*each, strict=True))
    expected = torch.stack([coverage(*one) for one in each])
    torch.testing.assert_close(coverage(updates, weight), expected, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("agents", [1, 2, 7])
def test_updates_without_a_common_step_are_worth_nothing(agents: int) -> None:
    zero = torch.zeros(agents, 5, dtype=torch.float64)
    assert (coverage(zero, torch.ones(agents)) == 0).all()
    updates, weight = drawn(agents, 3)
    opposed, equal = torch.cat([updates, -updates]), torch.full((2 * agents,), 1.0)
    assert coverage(opposed, equal).abs().max() < 1e-6
    one_silent, weight = drawn(agents, 4)
    one_silent[0] = 0
    assert coverage(one_silent, weight).isfinite().all()
    assert coverage(one_silent, torch.zeros(agents)).isfinite().all()


def test_one_agent_covers_itself() -> None:
    assert coverage(drawn(1, 0)[0], torch.tensor([3.0])).tolist() == pytest.approx([1.0])
