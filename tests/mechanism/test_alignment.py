"""Cosine alignment: identities, invariances, and the naive formula."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import naive
from torch import Tensor
from value_strategies import rounds

from motifair.mechanism.aggregation import aggregate
from motifair.mechanism.alignment import (
    ALIGNMENTS,
    alignment,
    alignment_with_others,
    alignment_with_peers,
    cosine,
)

Round = tuple[Tensor, Tensor]


@pytest.mark.parametrize("against", ["all", "others", "shapley"])
@given(drawn=rounds(most_agents=6))
def test_alignment_is_the_naive_formula(against: str, drawn: Round) -> None:
    updates, weights = drawn
    expected = naive.alignments(list(updates), weights.tolist(), against)
    found = ALIGNMENTS[against](updates, weights)
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)


@given(rounds())
def test_weighted_norms_times_alignments_add_up_to_the_norm_of_the_sum(drawn: Round) -> None:
    updates, weights = drawn
    total = (weights * updates.norm(dim=1) * alignment(updates, weights)).sum()
    assert torch.isclose(total, aggregate(updates, weights).norm(), rtol=0, atol=1e-9)


@given(rounds(), st.floats(1e-6, 1e6))
def test_an_agent_gains_nothing_by_scaling_its_update(drawn: Round, scale: float) -> None:
    updates, weights = drawn
    total = aggregate(updates, weights)
    before, after = cosine(updates[0], total), cosine(scale * updates[0], total)
    assert torch.isclose(before, after, rtol=0, atol=1e-12)


@given(rounds(), st.floats(0.01, 100))
def test_against_the_others_own_size_and_weight_do_not_count(drawn: Round, scale: float) -> None:
    updates, weights = drawn
    before = alignment_with_others(updates, weights)[0]
    updates[0] *= scale
    weights[0] /= 2
    after = alignment_with_others(updates, weights)[0]
    assert torch.isclose(before, after, rtol=0, atol=1e-9)


@pytest.mark.parametrize("against", ["all", "others", "shapley"])
@given(drawn=rounds(), data=st.data())
def test_alignments_follow_the_agents_when_they_are_reordered(
    against: str, drawn: Round, data: st.DataObject
) -> None:
    updates, weights = drawn
    order = data.draw(st.permutations(range(len(updates))))
    found = ALIGNMENTS[against](updates[order], weights[order])
    expected = ALIGNMENTS[against](updates, weights)[order]
    assert torch.allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("against", ["all", "others"])
@given(drawn=rounds())
def test_several_federations_at_once_equal_each_by_itself(against: str, drawn: Round) -> None:
    updates, weights = drawn
    align = ALIGNMENTS[against]
    both = align(torch.stack([updates, -2 * updates.flip(0)]), torch.stack([weights, weights]))
    assert torch.allclose(both[0], align(updates, weights), rtol=0, atol=1e-12)
    assert torch.allclose(both[1], align(-2 * updates.flip(0), weights), rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [0.0, 1e-13])
def test_a_vanishing_vector_has_cosine_zero_with_anything(length: float) -> None:
    vanishing = torch.tensor([length, 0.0], dtype=torch.float64)
    other = torch.tensor([1.0, 1.0], dtype=torch.float64)
    assert cosine(vanishing, other) == 0
    assert cosine(other, vanishing) == 0


def test_a_small_vector_that_does_not_vanish_has_its_cosine() -> None:
    small = torch.tensor([3e-11, 4e-11], dtype=torch.float64)
    assert torch.isclose(
        cosine(small, torch.tensor([1.0, 0.0], dtype=torch.float64)), small[0] * 2e10
    )


# Votes of the others: steps `(A, D)` and as many gradients, which need not match


@st.composite
def votes(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Steps and gradients of very different lengths; some vanish."""
    steps, _ = draw(rounds())
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    gradients = torch.randn(steps.shape, generator=generator, dtype=torch.float64)
    gradients -= draw(st.sampled_from([0.0, 0.5, 3.0]))
    lengths, count = st.sampled_from([0.0, 1e-6, 1.0, 1e6]), 2 * len(steps)
    scale = torch.tensor(draw(st.lists(lengths, min_size=count, max_size=count)))
    return steps * scale[: len(steps), None], gradients * scale[len(steps) :, None]


@given(votes())
def test_the_votes_of_peers_are_the_naive_formula(drawn: Round) -> None:
    steps, gradients = drawn
    expected = naive.peer_alignments(list(steps), list(gradients))
    found = alignment_with_peers(steps, gradients)
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


@given(votes())
def test_the_votes_of_peers_are_between_minus_one_and_one(drawn: Round) -> None:
    assert alignment_with_peers(*drawn).abs().max() <= 1 + 1e-12


@given(rounds())
def test_all_peers_agree_fully_where_all_want_the_same(drawn: Round) -> None:
    updates, weights = drawn
    steps = weights[:, None] * updates[0]
    same = torch.ones(len(weights), dtype=torch.float64)
    assert torch.allclose(alignment_with_peers(steps, -3 * steps), same, rtol=0, atol=1e-12)
    assert torch.allclose(alignment_with_peers(steps, steps), -same, rtol=0, atol=1e-12)


@given(rounds(), st.data())
def test_no_length_counts_in_the_votes_of_peers(drawn: Round, data: st.DataObject) -> None:
    steps, _ = drawn
    gradients = steps.flip(1)
    scales = st.lists(st.floats(1e-3, 1e3), min_size=len(steps), max_size=len(steps))
    mine, theirs = (torch.tensor(data.draw(scales), dtype=torch.float64)[:, None] for _ in "ab")
    before = alignment_with_peers(steps, gradients)
    after = alignment_with_peers(mine * steps, theirs * gradients)
    assert torch.allclose(before, after, rtol=0, atol=1e-12)


@given(rounds(size=20))
def test_a_gradient_that_flatters_ones_own_update_gains_nothing(drawn: Round) -> None:
    """Mirrored so that it says the same of everyone else, and something else of its own agent."""
    steps, _ = drawn
    gradients = steps.flip(1)
    base, _ = torch.linalg.qr(steps[1:].T)
    other = gradients.clone()
    other[0] = 2 * base @ (base.T @ gradients[0]) - gradients[0]
    assert not torch.isclose(cosine(steps[0], other[0]), cosine(steps[0], gradients[0]), atol=1e-6)
    before, after = alignment_with_peers(steps, gradients), alignment_with_peers(steps, other)
    assert torch.allclose(before, after, rtol=0, atol=1e-9)


@given(rounds(), st.integers(0, 2**32))
def test_who_speaks_ill_of_the_others_speaks_as_ill_of_itself(drawn: Round, seed: int) -> None:
    steps, _ = drawn
    gradients = steps.flip(1)
    generator = torch.Generator().manual_seed(seed)
    other = gradients.clone()
    other[0] = 100 * torch.randn(steps.shape[1], generator=generator, dtype=torch.float64)
    change = alignment_with_peers(steps, other) - alignment_with_peers(steps, gradients)
    assert torch.isclose(change[0], change[1:].mean(), rtol=0, atol=1e-12)
    assert change.abs().max() > 1e-6
    worst = gradients.clone()
    worst[0] = steps[1:].sum(dim=0)  # of all gradients the one that opposes the others most
    found = alignment_with_peers(steps, worst) - alignment_with_peers(steps, gradients)
    assert torch.isclose(found[0], found[1:].mean(), rtol=0, atol=1e-12)


def test_votes_by_hand() -> None:
    steps = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    gradients = torch.tensor([[0.0, -5.0], [-1.0, 0.0], [0.0, 0.1]], dtype=torch.float64)
    # Agent 0 wants the second component, 1 the first, 2 less of the second.
    votes = [
        [(1.0 + 0.8) / 2, 1.0, 0.0],  # on agent 0: its own mean, then the votes of 1 and 2
        [1.0, (1.0 + 0.6) / 2, -1.0],
        [0.8, 0.6, (0.0 - 1.0) / 2],
    ]
    expected = [sum(row) / 3 for row in votes]
    assert alignment_with_peers(steps, gradients).tolist() == pytest.approx(expected)


@given(votes(), st.data())
def test_the_votes_of_peers_follow_the_agents_when_they_are_reordered(
    drawn: Round, data: st.DataObject
) -> None:
    steps, gradients = drawn
    order = data.draw(st.permutations(range(len(steps))))
    found = alignment_with_peers(steps[order], gradients[order])
    expected = alignment_with_peers(steps, gradients)[order]
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


@given(votes())
def test_the_votes_in_several_federations_at_once_equal_those_in_each(drawn: Round) -> None:
    steps, gradients = drawn
    both = alignment_with_peers(
        torch.stack([steps, -steps.flip(0)]), torch.stack([gradients, gradients])
    )
    assert torch.allclose(both[0], alignment_with_peers(steps, gradients), rtol=0, atol=1e-12)
    other = alignment_with_peers(-steps.flip(0), gradients)
    assert torch.allclose(both[1], other, rtol=0, atol=1e-12)


def test_who_has_no_direction_votes_for_nothing_and_is_voted_for_nothing() -> None:
    steps = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    gradients = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [-1e-13, 0.0]], dtype=torch.float64)
    assert alignment_with_peers(steps, gradients).tolist() == pytest.approx([1 / 3] * 3)
    assert alignment_with_peers(steps, 0 * gradients).tolist() == [0.0, 0.0, 0.0]


def test_an_agent_without_peers_is_aligned_with_nobody() -> None:
    one = torch.ones(1, 3, dtype=torch.float64)
    assert alignment_with_peers(one, -one).tolist() == [0.0]
