"""Weights over agents, the weighted sum, and diversity."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import naive
from torch import Tensor
from value_strategies import rounds, values

from motifair.config import make_config
from motifair.federation.server import Server
from motifair.mechanism.aggregation import aggregate, lengthened, size_weights, value_weights
from motifair.mechanism.diversity import diversity
from motifair.methods import make_method
from motifair.motifs.vocabulary import MotifIndex


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=12))
def test_size_weights_are_shares_of_all_graphs(graphs: list[int]) -> None:
    expected = torch.tensor([n / sum(graphs) for n in graphs], dtype=torch.float64)
    assert torch.allclose(size_weights(torch.tensor(graphs)), expected, rtol=1e-12)


@given(values())
def test_value_weights_are_shares_of_all_positive_value(value: Tensor) -> None:
    positive = [max(r, 0.0) for r in value.tolist()]
    expected = torch.tensor([r / sum(positive) for r in positive], dtype=torch.float64)
    assert torch.allclose(value_weights(value), expected, rtol=0, atol=1e-12)


@given(rounds())
def test_the_aggregate_is_the_weighted_sum(drawn: tuple[Tensor, Tensor]) -> None:
    updates, weights = drawn
    expected = naive.weighted_sum(weights.tolist(), list(updates))
    assert torch.allclose(aggregate(updates, weights), expected, rtol=0, atol=1e-12)


def test_the_aggregate_keeps_the_precision_of_the_updates() -> None:
    weights = torch.tensor([0.5, 0.5], dtype=torch.float64)
    assert aggregate(torch.ones(2, 3), weights).dtype == torch.float32


def stretch(updates: Tensor, weights: Tensor, steps: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The aggregate before and after it is lengthened; agents take one step if not said."""
    update = aggregate(updates, weights)
    taken = torch.ones_like(weights) if steps is None else steps
    return update, lengthened(update, updates, weights, taken)


@given(st.data(), rounds())
def test_the_lengthened_aggregate_is_the_naive_formula(
    data: st.DataObject, drawn: tuple[Tensor, Tensor]
) -> None:
    updates, weights = drawn
    counts = st.lists(st.integers(1, 9), min_size=len(weights), max_size=len(weights))
    steps = data.draw(counts)
    update, found = stretch(updates, weights, torch.tensor(steps))
    expected = naive.stretched(update, list(updates), weights.tolist(), steps)
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


def test_agents_that_take_many_steps_are_stretched_by_the_root_of_it() -> None:
    updates = torch.tensor([[3.0, 4.0], [3.0, -4.0]], dtype=torch.float64)
    weights = torch.tensor([0.25, 0.75], dtype=torch.float64)
    update = torch.tensor([3.0, -2.0], dtype=torch.float64)
    factor = 5 / 13**0.5
    for steps, taken in (((1, 1), 1), ((4, 4), 4), ((7, 3), 4), ((1, 9), 7)):
        found = stretch(updates, weights, torch.tensor(steps))[1]
        assert found.tolist() == pytest.approx((update * factor ** (1 / taken)).tolist())


def test_a_method_counts_the_steps_that_agents_take() -> None:
    config = make_config({"batch_size": 10, "local_epochs": 2, "aggregate_length": "typical"})
    updates = torch.tensor([[3.0, 4.0], [3.0, -4.0]], dtype=torch.float64)
    weights = torch.tensor([0.5, 0.5], dtype=torch.float64)
    seen = SimpleNamespace(graphs=torch.tensor([10, 11]), updates=updates)
    update = torch.tensor([3.0, 0.0], dtype=torch.float64)
    found = make_method(config).lengthen(update, seen, weights)  # type: ignore[arg-type]
    assert found.tolist() == pytest.approx([3 * (5 / 3) ** (1 / 3), 0.0])  # 2 and 4 steps
    plain = make_method(replace(config, aggregate_length="mean"))
    assert plain.lengthen(update, seen, weights) is update  # type: ignore[arg-type]


@given(rounds())
def test_the_lengthened_aggregate_points_the_same_way_and_is_of_typical_length_or_threefold(
    drawn: tuple[Tensor, Tensor],
) -> None:
    updates, weights = drawn
    update, found = stretch(updates, weights)
    factor = found.norm() / update.norm()
    assert torch.allclose(found, factor * update, rtol=0, atol=1e-12)
    typical = float((weights * updates.norm(dim=1)).sum())
    length = float(update.norm())
    assert float(found.norm()) == pytest.approx(min(typical, 3 * length))
    assert 1 - 1e-12 <= factor <= 3 + 1e-12  # a mean is never longer than what it is of


def test_updates_that_cancel_are_stretched_no_more_than_threefold() -> None:
    updates = torch.tensor([[1.0, 0.01], [-1.0, 0.01]], dtype=torch.float64)
    update, found = stretch(updates, torch.tensor([0.5, 0.5], dtype=torch.float64))
    assert update.tolist() == [0.0, 0.01]
    assert found.tolist() == pytest.approx([0.0, 0.03])


@given(rounds())
def test_where_all_agree_the_aggregate_is_as_long_as_it_was(drawn: tuple[Tensor, Tensor]) -> None:
    updates, weights = drawn
    update, found = stretch(updates[:1] * torch.rand(len(weights), 1).double(), weights)
    assert torch.allclose(found, update, rtol=1e-12, atol=0)


@given(rounds())
def test_agents_of_no_weight_do_not_change_the_length(drawn: tuple[Tensor, Tensor]) -> None:
    updates, weights = drawn
    _, found = stretch(updates, weights)
    more = torch.cat([updates, 1e6 * updates[:1]]), torch.cat([weights, weights.new_zeros(1)])
    assert torch.allclose(stretch(*more)[1], found, rtol=0, atol=1e-12)


def test_an_aggregate_of_nothing_stays_nothing() -> None:
    weights = torch.tensor([0.5, 0.5], dtype=torch.float64)
    opposed = torch.tensor([[1.0, 2.0], [-1.0, -2.0]], dtype=torch.float64)
    for updates in (opposed, torch.zeros(2, 2, dtype=torch.float64)):
        assert stretch(updates, weights)[1].tolist() == [0.0, 0.0]


@given(rounds())
def test_several_federations_at_once_are_lengthened_each_by_itself(
    drawn: tuple[Tensor, Tensor],
) -> None:
    updates, weights = drawn
    stacks = torch.stack([updates, updates.flip(1) - 1]), torch.stack([weights, weights.flip(0)])
    _, both = stretch(*stacks)
    for f in range(2):
        assert torch.allclose(both[f], stretch(stacks[0][f], stacks[1][f])[1], rtol=1e-12, atol=0)


# Size weights among agents of positive value, as far as these are what graphs are worth


def trusted(
    graphs: list[int],
    value: list[float],
    worth: list[float] | None = None,
    rounds: int = 1,
    lengths: list[float] | None = None,
) -> Tensor:
    against = "all" if worth is None else "coverage"
    method = make_method(make_config({"aggregation": "trusted", "alignment_against": against}))
    seen = SimpleNamespace(
        graphs=torch.tensor(graphs),
        updates=torch.tensor(lengths or [1.0] * len(graphs), dtype=torch.float64)[:, None],
        believed=torch.tensor(graphs),
        value=torch.tensor(value, dtype=torch.float64),
        worth=torch.tensor(worth or graphs, dtype=torch.float64),
        rounds=torch.tensor(rounds),
    )
    return method.weigh(seen)  # type: ignore[arg-type]


@given(st.data(), values(), st.booleans(), st.integers(0, 2))
def test_trusted_weights_are_the_oracle_s(
    data: st.DataObject, value: Tensor, covered: bool, rounds: int
) -> None:
    one = st.tuples(st.integers(1, 1000), st.floats(0.5, 1000), st.floats(0.1, 10))
    drawn = data.draw(st.lists(one, min_size=len(value), max_size=len(value)))
    graphs, worth, lengths = (list(column) for column in zip(*drawn, strict=True))
    found = trusted(graphs, value.tolist(), worth if covered else None, rounds, lengths)
    options = naive.Options(
        aggregation="trusted", alignment_against="coverage" if covered else "all"
    )
    sizes = [float(n) for n in graphs]
    steps = [float(-(-n // make_config({}).batch_size)) for n in graphs]
    short = naive.usual_over_length(
        list(torch.tensor(lengths, dtype=torch.float64)[:, None]), steps
    )
    expected = naive.aggregation_weights(
        value.tolist(), sizes, worth, short, options, first=rounds == 0
    )
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-9)
    assert abs(float(found.sum()) - 1) < 1e-12
    assert ((found > 0) == (value > 0)).all()


def test_trusted_weights_by_hand() -> None:
    assert trusted([10, 20, 30, 40], [0.1, 1e-12, 0.9, 1e-9]).tolist() == [0.1, 0.2, 0.3, 0.4]
    assert trusted([10, 20, 30, 40], [0.6, -0.2, 0.6, 0.0]).tolist() == [0.25, 0.0, 0.75, 0.0]


def test_a_value_by_chance_does_not_count_as_one_that_was_earned() -> None:
    """One of six claims twice the graphs, reverses its updates, and was once near by chance."""
    weights = trusted([200, *[100] * 5], [0.003, *[0.1994] * 5], [200.0, *[100.0] * 5])
    assert weights[0] < 0.02
    assert trusted([10, 10], [0.5, 0.5], [1.0, 0.0]).tolist() == [1.0, 0.0]
    # The lower median of the lengths is 2.
    weights = trusted([1, 1, 1], [0.4, 0.3, 0.3], [1.0, 1.0, 1.0], lengths=[1.0, 2.0, 4.0])
    assert weights.tolist() == [0.4, 0.4, 0.2]
    # Before the first round all have the same value, whatever their graphs are worth.
    assert trusted([10, 30], [0.5, 0.5], [1.0, 99.0], rounds=0).tolist() == [0.25, 0.75]


# Diversity


def entries(held: list[set[int]]) -> tuple[Tensor, Tensor, int]:
    """Who holds which motif, entry by entry; motifs are numbered without gaps."""
    number = {k: n for n, k in enumerate(sorted(set().union(*held)))}
    pairs = [(number[k], a) for a, keys in enumerate(held) for k in sorted(keys)]
    motif, agent = (torch.tensor([p[i] for p in pairs], dtype=torch.int64) for i in range(2))
    return motif, agent, len(held)


def holders(held: list[set[int]]) -> list[naive.Agent]:
    return [naive.Agent(str(a), [], [], {str(k): [] for k in keys}) for a, keys in enumerate(held)]


many_motifs = st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=6)


@given(many_motifs, st.integers(1, 4))
def test_diversity_is_the_naive_formula(held: list[set[int]], needed: int) -> None:
    found = diversity(*entries(held), needed)
    expected = naive.diversities(holders(held), needed)
    assert found.tolist() == pytest.approx(expected)


def test_diversity_is_the_share_of_the_union() -> None:
    held = [{0, 1}, {1, 2, 3}, set()]
    assert diversity(*entries(held)).tolist() == [0.5, 0.75, 0.0]
    assert naive.diversities(holders(held)) == [0.5, 0.75, 0.0]


@pytest.mark.parametrize("needed", [1, 2])
def test_diversity_is_zero_where_nobody_has_a_motif(needed: int) -> None:
    assert diversity(*entries([set(), set()]), needed).tolist() == [0.0, 0.0]


def test_diversity_is_zero_where_no_motif_is_held_by_enough_agents() -> None:
    assert diversity(*entries([{0, 1}, {1, 2}]), 3).tolist() == [0.0, 0.0]
    assert diversity(*entries([{0}, {1}]), 2).tolist() == [0.0, 0.0]


@given(many_motifs, st.integers(10, 12))
def test_a_motif_that_nobody_else_holds_brings_nothing(held: list[set[int]], new: int) -> None:
    more = [held[0] | {new}, *held[1:]]
    before, after = diversity(*entries(held), 2), diversity(*entries(more), 2)
    assert torch.equal(before, after)
    assert diversity(*entries(more), 1)[0] >= diversity(*entries(held), 1)[0]


def test_the_server_counts_motifs_that_as_many_agents_hold_as_is_asked_for() -> None:
    index = MotifIndex.of([("a", "b"), ("b", "c"), ("b", "c", "d")])
    for needed, expected in {1: [0.5, 0.5, 0.75], 2: [0.5, 1.0, 1.0], 3: [1.0, 1.0, 1.0]}.items():
        method = make_method(make_config({"corroboration": needed}))
        server = Server(method, torch.ones(3), (4,), [index], 8, torch.tensor(0))
        assert server.diversity.tolist() == expected
