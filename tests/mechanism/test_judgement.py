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

Said = tuple[Tensor, Tensor, Tensor, Tensor]


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
    presence = rng.choice([0.25, 0.5, 1.0], agents, p=[0.1, 0.3, 0.6])
    judges = presence * (rng.random((agents, agents)) > 0.05)
    return tuple(map(torch.from_numpy, (loss, told, graphs, judges)))  # type: ignore[return-value]


def rows(table: Tensor) -> list[list[float | None]]:
    return [[None if math.isnan(x) else x for x in row] for row in table.tolist()]


def honest(agents: int = 10, seed: int = 0) -> Said:
    """Models of about the same quality."""
    rng = np.random.default_rng(seed)
    told = 0.3 + 0.03 * rng.standard_normal((agents, agents))
    loss = 0.5 * np.exp(0.05 * rng.standard_normal((agents, agents)))
    np.fill_diagonal(loss, np.nan)
    np.fill_diagonal(told, np.nan)
    graphs = torch.full((agents,), 50)
    return torch.from_numpy(loss), torch.from_numpy(told), graphs, torch.ones(agents, agents)


@given(judgements())
def test_quality_is_the_oracle_s(said: Said) -> None:
    loss, told, graphs, shares = said
    expected = qualities(rows(loss), rows(told), graphs.double().tolist(), shares.tolist())
    torch.testing.assert_close(
        quality(*said), torch.tensor(expected).double(), atol=1e-7, rtol=1e-6
    )
    here = shares.amax(dim=0)
    weights = torch.tensor(judges(rows(told), here.tolist())).double()
    torch.testing.assert_close(judge_weights(told, here), weights, atol=1e-7, rtol=1e-6)


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
    loss, told, graphs, shares = said
    order = list(range(len(graphs)))
    random.shuffle(order)  # type: ignore[attr-defined]
    loss, told, shares = (table[order][:, order] for table in (loss, told, shares))
    found = quality(loss, told, graphs[order], shares)
    torch.testing.assert_close(found, quality(*said)[order], atol=1e-7, rtol=1e-6)


@given(judgements(), st.integers(1, 3))
def test_a_stack_is_judged_as_one_by_one(said: Said, federations: int) -> None:
    stacked = (torch.stack([part] * federations) for part in said)
    assert torch.equal(quality(*stacked), torch.stack([quality(*said)] * federations))


@given(judgements(least=3), st.floats(0.1, 10))
def test_a_judge_with_hard_graphs_counts_against_nobody(said: Said, harder: float) -> None:
    loss, *rest = said
    loss = loss.clamp(min=0.1)
    before = quality(loss, *rest)
    loss[:, 0] *= harder
    after = quality(loss.clamp(min=1e-2), *rest)
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
    _, told, *_ = honest(6)
    told[:, 1] *= 0.3
    told[:, 2] *= -1
    weights = judge_weights(told, torch.ones(6))
    assert 0.02 < weights[1] < 0.25
    assert weights[2] == 0
    assert (weights[[0, 3, 4, 5]] > 0.5).all()


def test_a_model_that_swaps_classes_is_worth_nothing_and_a_worse_one_less() -> None:
    loss, told, *graphs = honest(6)
    told[2] *= -1
    loss[4] *= 4
    found = quality(loss, told, *graphs)
    assert found[2] == 0
    assert 0.4 < found[4] < 0.6
    assert (found[[0, 1, 3, 5]] > 0.9).all()


def test_without_judges_nothing_stands_against_anybody() -> None:
    nobody = torch.full((3, 3), torch.nan)
    graphs = torch.tensor([5, 5, 5])
    assert quality(nobody, nobody, graphs, torch.ones(3, 3)).tolist() == [1.0, 1.0, 1.0]
    alone = torch.full((1, 1), torch.nan)
    assert quality(alone, alone, torch.tensor([5]), torch.zeros(1, 1)).tolist() == [1.0]


def under_names(said: Said, names: int) -> Said:
    """The first agent under several names with the same graphs, which do not judge each other."""
    loss, told, graphs, judges = said
    row = torch.tensor([0] * names + list(range(1, len(graphs))))
    loss, told, judges = (table[row][:, row] for table in (loss, told, judges))
    judges[:, :names] /= names
    judges[:names, :names] = 0
    loss[:names, :names], told[:names, :names] = 0.01, 0.95
    return loss, told, graphs[row], judges


@pytest.mark.parametrize("worse", [1.0, 1.5])
@pytest.mark.parametrize("names", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_several_names_of_the_same_graphs_are_paid_as_one(
    names: int, seed: int, worse: float
) -> None:
    said = honest(seed=seed)
    said[0][0] *= worse
    more = under_names(said, names)
    alone, together = quality(*said), quality(*more)
    together[:names] /= names  # of whose graphs a part counts
    share = together[:names].sum() / together.sum()
    assert float(share / (alone[0] / alone.sum())) == pytest.approx(1, abs=0.01)


def test_who_has_no_judge_where_others_have_is_worth_nothing() -> None:
    """Else whoever claims all others' graphs, to whom nobody is a stranger then, is trusted."""
    loss, told = torch.full((4, 4), 0.5), torch.full((4, 4), 0.4)
    judges = 1 - torch.eye(4)
    judges[0], judges[:, 0] = 0, 0
    found = quality(loss, told, torch.full((4,), 9), judges)
    assert found.tolist() == [0.0, 1.0, 1.0, 1.0]
    nobody = quality(loss, told, torch.full((4,), 9), torch.zeros(4, 4))
    assert nobody.tolist() == [1.0] * 4
