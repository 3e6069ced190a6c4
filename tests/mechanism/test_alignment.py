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
from motifair.mechanism.alignment import ALIGNMENTS, alignment, alignment_with_others, cosine

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
