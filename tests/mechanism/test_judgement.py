"""What peers say of models: a naive oracle, what no liar can do, and edge cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.naive import judges, middle, qualities
from torch import Tensor

from motifair.mechanism.judgement import judge_weights, quality, weighted_median

Said = tuple[Tensor, Tensor, Tensor]


@st.composite
def judgements(draw: st.DrawFn, least: int = 2) -> Said:
    """Losses and discriminations of two to eight agents, with some judges of one class."""
    agents = draw(st.integers(least, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    loss, told = rng.lognormal(0, 1, (agents, agents)), rng.uniform(-0.5, 0.9, (agents, agents))
    told[:, rng.random(agents) < 0.1] = np.nan
    np.fill_diagonal(loss, np.nan)
    np.fill_diagonal(told, np.nan)
    graphs = rng.integers(1, 200, agents)
    return torch.from_numpy(loss), torch.from_numpy(told), torch.from_numpy(graphs)


def rows(table: Tensor) -> list[list[float | None]]:
    return [[None if math.isnan(x) else x for x in row] for row in table.tolist()]


def honest(agents: int = 10, seed: int = 0) -> Said:
    """Models of about the same quality."""
    rng = np.random.default_rng(seed)
    told = 0.3 + 0.03 * rng.standard_normal((agents, agents))
    loss = 0.5 * np.exp(0.05 * rng.standard_normal((agents, agents)))
    np.fill_diagonal(loss, np.nan)
    np.fill_diagonal(told, np.nan)
    return torch.from_numpy(loss), torch.from_numpy(told), torch.full((agents,), 50)


@given(judgements())
def test_quality_is_the_oracle_s(said: Said) -> None:
    loss, told, graphs = said
    expected = qualities(rows(loss), rows(told), graphs.double().tolist())
    torch.testing.assert_close(
        quality(*said), torch.tensor(expected).double(), atol=1e-7, rtol=1e-6
    )
    weights = torch.tensor(judges(rows(told))).double()
    torch.testing.assert_close(judge_weights(told), weights, atol=1e-7, rtol=1e-6)


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0, 5)), min_size=1, max_size=9))
def test_the_weighted_median_is_the_oracle_s_and_between_the_values(
    pairs: list[tuple[float, float]],
) -> None:
    values, weights = (torch.tensor(x).double() for x in zip(*pairs, strict=True))
    found = weighted_median(values, weights)
    if not (weights > 0).any():
        assert found.isnan()
        return
    counted = values[weights > 0]
    assert counted.min() - 1e-9 <= found <= counted.max() + 1e-9
    assert float(found) == pytest.approx(middle(values.tolist(), weights.tolist()), abs=1e-6)


@given(judgements(), st.randoms(use_true_random=False))
def test_agents_in_another_order_have_the_same_quality(said: Said, random: object) -> None:
    loss, told, graphs = said
    order = list(range(len(graphs)))
    random.shuffle(order)  # type: ignore[attr-defined]
    found = quality(loss[order][:, order], told[order][:, order], graphs[order])
    torch.testing.assert_close(found, quality(*said)[order], atol=1e-7, rtol=1e-6)


@given(judgements(), st.integers(1, 3))
def test_a_stack_is_judged_as_one_by_one(said: Said, federations: int) -> None:
    stacked = (torch.stack([part] * federations) for part in said)
    assert torch.equal(quality(*stacked), torch.stack([quality(*said)] * federations))


@given(judgements(least=3), st.floats(0.1, 10))
def test_a_judge_with_hard_graphs_counts_against_nobody(said: Said, harder: float) -> None:
    loss, told, graphs = said
    loss = loss.clamp(min=0.1)
    before = quality(loss, told, graphs)
    loss[:, 0] *= harder
    after = quality(loss.clamp(min=1e-2), told, graphs)
    if float(loss[1:, 0].min()) >= 1e-2:
        torch.testing.assert_close(after, before, atol=1e-9, rtol=1e-6)


@given(st.floats(0, 1e6), st.floats(-1, 1), st.integers(0, 9))
def test_what_one_of_ten_says_changes_little(loss: float, told: float, seed: int) -> None:
    said = honest(seed=seed)
    before = quality(*said)
    said[0][1:, 0], said[1][1:, 0] = loss, told
    share = quality(*said) / quality(*said).sum()
    assert ((share / (before / before.sum()) - 1).abs() < 0.04).all()


@pytest.mark.parametrize(("loss", "told"), [(1e3, -1.0), (1e-3, 1.0), (0.5, 0.9)])
def test_three_of_ten_that_lie_together_change_little(loss: float, told: float) -> None:
    said = honest()
    before = quality(*said)
    liars, others = torch.arange(3), torch.arange(3, 10)
    said[0][others[:, None], liars], said[1][others[:, None], liars] = loss, told
    for i in liars:
        for j in liars[liars != i]:
            said[0][i, j], said[1][i, j] = 1e-3, 1.0
    share, fair = quality(*said) / quality(*said).sum(), before / before.sum()
    assert float(share[:3].sum() / fair[:3].sum()) < 1.05


def test_noisy_judges_count_less_and_swapped_ones_nothing() -> None:
    _, told, _ = honest(6)
    told[:, 1] *= 0.3
    told[:, 2] *= -1
    weights = judge_weights(told)
    assert 0.02 < weights[1] < 0.25
    assert weights[2] == 0
    assert (weights[[0, 3, 4, 5]] > 0.5).all()


def test_a_model_that_swaps_classes_is_worth_nothing_and_a_worse_one_less() -> None:
    loss, told, graphs = honest(6)
    told[2] *= -1
    loss[4] *= 16
    found = quality(loss, told, graphs)
    assert found[2] == 0
    assert 0.4 < found[4] < 0.6
    assert (found[[0, 1, 3, 5]] > 0.9).all()


def test_without_judges_nothing_stands_against_anybody() -> None:
    nobody = torch.full((3, 3), torch.nan)
    assert quality(nobody, nobody, torch.tensor([5, 5, 5])).tolist() == [1.0, 1.0, 1.0]
    alone = torch.full((1, 1), torch.nan)
    assert quality(alone, alone, torch.tensor([5])).tolist() == [1.0]
