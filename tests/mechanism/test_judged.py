"""Evidence in which variety counts only for agents that help the others."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import naive
from torch import Tensor
from value_strategies import numbers

from motifair.mechanism.value import evidence, judged

weights = st.floats(0, 3)


def tensor(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@given(st.data(), numbers(-1, 1), weights)
def test_evidence_is_the_naive_formula(data: st.DataObject, phi: Tensor, weight: float) -> None:
    shares = data.draw(numbers(0, 1, size=len(phi)))
    options = naive.Options(evidence="judged", diversity_weight=weight)
    expected = naive.evidence(phi.tolist(), shares.tolist(), options)
    assert torch.allclose(judged(phi, shares, weight), tensor(*expected), rtol=0, atol=1e-9)


def test_evidence_by_hand() -> None:
    # The mean of what is positive is 0.26, and 0.1 is less than half of it.
    phi, shares = tensor(0.8, 0.4, 0.1, 0.0, -0.2), tensor(0.5, 1.0, 0.52, 1.0, 1.0)
    expected = tensor(0.8 + 3 * 0.26 * 0.5, 0.4 + 3 * 0.26, 0.1 + 3 * 0.2 * 0.52, 0.0, -0.2)
    assert torch.allclose(judged(phi, shares, 3.0), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("phi", "worth"),
    [
        (0.45, 0.6),  # more than half of the usual 0.6
        (0.3, 0.6),  # exactly half of the usual 0.6
        (0.1, 0.2),
        (0.0, 0.0),
        (-0.5, 0.0),
    ],
)
def test_variety_counts_fully_from_half_of_the_usual_alignment_on(phi: float, worth: float) -> None:
    others = {0.45: (0.75, 0.6), 0.3: (0.6, 0.9)}.get(phi, (0.6, 0.6))
    nobody, only = tensor(0.0, 0.0, 0.0), tensor(1.0, 0.0, 0.0)
    aligned = tensor(phi, *others)
    brought = judged(aligned, only, 1.0) - judged(aligned, nobody, 1.0)
    assert brought.tolist() == pytest.approx([worth, 0.0, 0.0])


@pytest.mark.parametrize(
    "phi", [(0.25, -0.125, -0.25), (0.0, 0.0, 0.0), (-1.0, -1.0, -0.5), (0.5, -0.5, 0.0)]
)
def test_where_agents_do_not_agree_on_the_whole_nothing_is_said_of_anyone(
    phi: tuple[float, ...],
) -> None:
    assert (judged(tensor(*phi), tensor(1.0, 0.5, 0.0), 3.0) == 0).all()


@given(st.data(), numbers(-1, 1), weights)
def test_an_agent_that_harms_gains_nothing_by_variety(
    data: st.DataObject, phi: Tensor, weight: float
) -> None:
    shares = data.draw(numbers(0, 1, size=len(phi)))
    found, harmful = judged(phi, shares, weight), phi <= 0
    wanted = phi if phi.sum() > 0 else torch.zeros_like(phi)
    assert torch.equal(found[harmful], wanted[harmful])


@given(st.data(), numbers(0.5, 1), weights)
def test_where_all_help_alike_it_is_the_plain_sum_in_units_of_the_usual_alignment(
    data: st.DataObject, phi: Tensor, weight: float
) -> None:
    shares = data.draw(numbers(0, 1, size=len(phi)))
    expected = evidence(phi, shares, weight * float(phi.mean()))
    assert torch.allclose(judged(phi, shares, weight), expected, rtol=1e-12)


@given(st.data(), numbers(-1, 1), weights, st.floats(1e-6, 1e3))
def test_evidence_is_in_proportion_to_alignment(
    data: st.DataObject, phi: Tensor, weight: float, factor: float
) -> None:
    shares = data.draw(numbers(0, 1, size=len(phi)))
    expected = factor * judged(phi, shares, weight)
    found = judged(factor * phi, shares, weight)
    undecided = abs(float(phi.sum())) < 1e-9
    assert undecided or torch.allclose(found, expected, rtol=1e-9, atol=1e-12 * factor)


@given(st.data(), numbers(-1, 1), weights)
def test_more_variety_never_lowers_anyones_evidence(
    data: st.DataObject, phi: Tensor, weight: float
) -> None:
    shares = data.draw(numbers(0, 1, size=len(phi)))
    more = shares.clone()
    more[0] = 1.0
    before, after = judged(phi, shares, weight), judged(phi, more, weight)
    assert after[0] >= before[0]
    assert torch.equal(after[1:], before[1:])


@given(st.data(), numbers(-1, 1), weights)
def test_evidence_follows_the_agents_when_they_are_reordered(
    data: st.DataObject, phi: Tensor, weight: float
) -> None:
    shares = data.draw(numbers(0, 1, size=len(phi)))
    phi[0] += 0.01  # a total of nothing might be a little more or less in another order
    order = data.draw(st.permutations(range(len(phi))))
    if abs(float(phi.sum())) < 1e-9:
        phi[0] += 0.5
    found, expected = judged(phi[order], shares[order], weight), judged(phi, shares, weight)[order]
    assert torch.allclose(found, expected, rtol=0, atol=1e-9)


@given(st.data(), numbers(-1, 1), weights)
def test_several_federations_at_once_equal_each_by_itself(
    data: st.DataObject, phi: Tensor, weight: float
) -> None:
    shares = data.draw(numbers(0, 1, size=len(phi)))
    both = judged(torch.stack([phi, -phi]), torch.stack([shares, shares.flip(0)]), weight)
    assert torch.equal(both[0], judged(phi, shares, weight))
    assert torch.equal(both[1], judged(-phi, shares.flip(0), weight))
