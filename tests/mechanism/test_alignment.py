"""Cosine alignment: identities, invariances, and the naive formula."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import naive
from torch import Tensor
from value_strategies import rounds

from motifair.mechanism.aggregation import aggregate, value_weights
from motifair.mechanism.alignment import (
    ALIGNMENTS,
    alignment,
    alignment_with_others,
    alignment_with_peers,
    cosine,
    reach,
)

Round = tuple[Tensor, Tensor]
Ballot = tuple[Tensor, Tensor, Tensor, Tensor]


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


# Votes of the others: steps `(A, D)` and as many gradients, which need not match; the weights of
# votes `(A,)`, and how far each step goes `(A,)`


@st.composite
def ballots(draw: st.DrawFn) -> Ballot:
    """Steps and gradients of very different lengths; some vanish. Some agents may have no vote."""
    steps, weights = draw(rounds())
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    gradients = torch.randn(steps.shape, generator=generator, dtype=torch.float64)
    gradients -= draw(st.sampled_from([0.0, 0.5, 3.0]))
    lengths, count = st.sampled_from([0.0, 1e-6, 1.0, 1e6]), 2 * len(steps)
    scale = torch.tensor(draw(st.lists(lengths, min_size=count, max_size=count)))
    voted = value_weights(weights * torch.randn(len(steps), generator=generator).sign())
    votes = weights / weights.sum() if voted.isnan().any() else voted
    far = torch.rand(len(steps), generator=generator, dtype=torch.float64)
    far = torch.where(far < 0.5, 2 * far, 1.0)
    return steps * scale[: len(steps), None], gradients * scale[len(steps) :, None], votes, far


@given(ballots())
def test_the_votes_of_peers_are_the_naive_formula(drawn: Ballot) -> None:
    steps, gradients, votes, far = drawn
    expected = naive.peer_alignments(list(steps), list(gradients), votes.tolist(), far.tolist())
    found = alignment_with_peers(*drawn)
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


@given(ballots())
def test_the_votes_of_peers_are_between_minus_one_and_one(drawn: Ballot) -> None:
    assert alignment_with_peers(*drawn).abs().max() <= 1 + 1e-12


@given(rounds())
def test_all_peers_agree_fully_where_all_want_the_same(drawn: Round) -> None:
    updates, weights = drawn
    steps, votes = weights[:, None] * updates[0], weights / weights.sum()
    same = torch.ones(len(weights), dtype=torch.float64)
    agreed = alignment_with_peers(steps, -3 * steps, votes, same)
    assert torch.allclose(agreed, same, rtol=0, atol=1e-12)
    opposed = alignment_with_peers(steps, steps, votes, same)
    assert torch.allclose(opposed, -same, rtol=0, atol=1e-12)


@given(rounds(), st.data())
def test_no_length_counts_in_the_votes_of_peers(drawn: Round, data: st.DataObject) -> None:
    steps, weights = drawn
    gradients, votes = steps.flip(1), weights / weights.sum()
    scales = st.lists(st.floats(1e-3, 1e3), min_size=len(steps), max_size=len(steps))
    mine, theirs = (torch.tensor(data.draw(scales), dtype=torch.float64)[:, None] for _ in "ab")
    far = torch.linspace(1, 0, len(steps), dtype=torch.float64)
    before = alignment_with_peers(steps, gradients, votes, far)
    after = alignment_with_peers(mine * steps, theirs * gradients, votes, far)
    assert torch.allclose(before, after, rtol=0, atol=1e-12)


@given(ballots(), st.integers(0, 2**32))
def test_whose_vote_counts_for_nothing_changes_nothing(drawn: Ballot, seed: int) -> None:
    steps, gradients, votes, far = drawn
    votes = torch.where(torch.arange(len(votes)) == 0, 0.0, votes)
    generator = torch.Generator().manual_seed(seed)
    other = gradients.clone()
    other[0] = torch.randn(steps.shape[1], generator=generator, dtype=torch.float64)
    before = alignment_with_peers(steps, gradients, votes, far)
    after = alignment_with_peers(steps, other, votes, far)
    assert torch.allclose(before, after, rtol=0, atol=1e-12)


@given(rounds(size=20))
def test_a_gradient_that_flatters_ones_own_update_gains_nothing(drawn: Round) -> None:
    """Mirrored so that it says the same of everyone else, and something else of its own agent."""
    steps, weights = drawn
    gradients, votes = steps.flip(1), weights / weights.sum()
    base, _ = torch.linalg.qr(steps[1:].T)
    other = gradients.clone()
    other[0] = 2 * base @ (base.T @ gradients[0]) - gradients[0]
    assert not torch.isclose(cosine(steps[0], other[0]), cosine(steps[0], gradients[0]), atol=1e-6)
    far = torch.linspace(0.5, 1, len(steps), dtype=torch.float64)
    before = alignment_with_peers(steps, gradients, votes, far)
    after = alignment_with_peers(steps, other, votes, far)
    assert torch.allclose(before, after, rtol=0, atol=1e-9)


@given(rounds(), st.integers(0, 2**32))
def test_who_speaks_ill_of_the_others_speaks_as_ill_of_itself(drawn: Round, seed: int) -> None:
    steps, weights = drawn
    gradients, votes = steps.flip(1), weights / weights.sum()
    generator = torch.Generator().manual_seed(seed)
    other, worst = gradients.clone(), gradients.clone()
    other[0] = 100 * torch.randn(steps.shape[1], generator=generator, dtype=torch.float64)
    worst[0] = steps[1:].sum(dim=0)  # of all gradients the one that opposes the others most
    far = torch.linspace(0.5, 1, len(steps), dtype=torch.float64)
    before = alignment_with_peers(steps, gradients, votes, far)
    change = alignment_with_peers(steps, other, votes, far) - before
    assert torch.isclose(change[0], change[1:].mean(), rtol=0, atol=1e-12)
    assert change.abs().max() > 1e-9 * votes[0]
    found = alignment_with_peers(steps, worst, votes, far) - before
    assert torch.isclose(found[0], found[1:].mean(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("counts", [(1.0, 1.0, 1.0), (3.0, 1.0, 0.0)])
def test_votes_by_hand(counts: tuple[float, ...]) -> None:
    steps = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    gradients = torch.tensor([[0.0, -5.0], [-1.0, 0.0], [0.0, 0.1]], dtype=torch.float64)
    # Agent 0 wants the second component, 1 the first, 2 less of the second.
    cast = [
        [(1.0 + 0.8) / 2, 1.0, 0.0],  # on agent 0: its own mean, then the votes of 1 and 2
        [1.0, (1.0 + 0.6) / 2, -1.0],
        [0.8, 0.6, (0.0 - 1.0) / 2],
    ]
    expected = [sum(c * v for c, v in zip(counts, row, strict=True)) / sum(counts) for row in cast]
    votes = torch.tensor(counts, dtype=torch.float64) / sum(counts)
    found = alignment_with_peers(steps, gradients, votes, torch.ones(3))
    assert found.tolist() == pytest.approx(expected)


@given(ballots(), st.data())
def test_the_votes_of_peers_follow_the_agents_when_they_are_reordered(
    drawn: Ballot, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(drawn[0]))))
    found = alignment_with_peers(*(part[order] for part in drawn))
    assert torch.allclose(found, alignment_with_peers(*drawn)[order], rtol=0, atol=1e-12)


@given(ballots())
def test_the_votes_in_several_federations_at_once_equal_those_in_each(drawn: Ballot) -> None:
    steps, gradients, votes, far = drawn
    other = (-steps.flip(0), gradients, votes.flip(0), far.flip(0))
    both = alignment_with_peers(*(torch.stack(pair) for pair in zip(drawn, other, strict=True)))
    assert torch.allclose(both[0], alignment_with_peers(*drawn), rtol=0, atol=1e-12)
    assert torch.allclose(both[1], alignment_with_peers(*other), rtol=0, atol=1e-12)


def test_who_has_no_direction_votes_for_nothing_and_is_voted_for_nothing() -> None:
    steps = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    gradients = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [-1e-13, 0.0]], dtype=torch.float64)
    one = torch.ones(3, dtype=torch.float64)
    found = alignment_with_peers(steps, gradients, one / 3, one)
    assert found.tolist() == pytest.approx([1 / 3] * 3)
    assert alignment_with_peers(steps, 0 * gradients, one / 3, one).tolist() == [0.0, 0.0, 0.0]


def test_an_agent_without_peers_is_aligned_with_nobody() -> None:
    one = torch.ones(1, 3, dtype=torch.float64)
    assert alignment_with_peers(one, -one, torch.ones(1), torch.ones(1)).tolist() == [0.0]


# How far a step goes


@given(rounds(), st.data())
def test_how_far_a_step_goes_is_the_naive_formula(drawn: Round, data: st.DataObject) -> None:
    updates, weights = drawn
    taken = st.lists(st.integers(1, 500), min_size=len(updates), max_size=len(updates))
    steps = torch.tensor(data.draw(taken))
    lengthened = updates * (1 + weights[:, None])
    expected = naive.reaches(list(lengthened), steps.tolist())
    assert reach(lengthened, steps).tolist() == pytest.approx(expected, abs=1e-12)
    both = reach(torch.stack([updates, lengthened]), torch.stack([steps, steps]))
    assert both[1].tolist() == pytest.approx(expected, abs=1e-12)


@given(rounds(), st.floats(1e-3, 1e3))
def test_only_what_is_shorter_than_usual_counts_less(drawn: Round, by: float) -> None:
    updates, _ = drawn
    steps = torch.ones(len(updates))
    found = reach(updates, steps)
    assert (found <= 1).all()
    assert (found >= 0).all()
    assert (found == 1).sum() >= len(updates) / 2
    assert torch.allclose(reach(by * updates, steps), found, rtol=0, atol=1e-12)
    shorter = updates.clone()
    shorter[0] = 0.1 * updates[0]
    assert reach(shorter, steps)[0] <= found[0] + 1e-12


def test_where_nobody_moves_nobody_has_gone_anywhere() -> None:
    assert reach(torch.zeros(3, 2), torch.ones(3)).tolist() == [0.0, 0.0, 0.0]
