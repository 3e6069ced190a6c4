"""Second moments with common means: what is exact about them, and who can move them how far."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from worlds import simulate, small_config, small_split

from motifair.federation.round import send_all
from motifair.learning.adam import Moments
from motifair.learning.common_moments import MOST_LONGER, CommonMoments
from motifair.models.layout import Layout

LAYOUT = Layout(("matrix", "bias", "readout"), ((3, 2), (2,), (2, 4)))
COMMON = CommonMoments(LAYOUT, slice(0, LAYOUT.size), 0.999)
UNITS = [slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 8), slice(8, 12), slice(12, 16)]


def moments(seed: int, rows: int = 3, *, spread: float = 1.0) -> Moments:
    """Second moments that lie `spread` orders of magnitude apart, after some steps."""
    rng = np.random.default_rng(seed)
    size = 10.0 ** (spread * rng.standard_normal((rows, LAYOUT.size)))
    steps = torch.from_numpy(rng.integers(1, 50, rows))
    second = torch.from_numpy(size) * (1 - 0.999 ** steps.double())[:, None]
    return Moments(torch.from_numpy(rng.standard_normal(size.shape)), second, steps)


def test_means_are_those_of_inputs_and_vectors_without_their_bias_to_zero() -> None:
    given = moments(0)
    grown = 1 - 0.999 ** given.steps.double()
    expected = [(given.second[:, unit].mean(dim=1) / grown) for unit in UNITS]
    torch.testing.assert_close(COMMON.means(given), torch.stack(expected, dim=1))


@given(st.integers(0, 2**20))
def test_scaled_moments_have_the_common_means_and_the_same_proportions(seed: int) -> None:
    before = moments(seed, spread=0.2)
    common = COMMON.means(before).median(dim=0).values.expand(3, -1)
    after = COMMON.scaled(before, common)
    torch.testing.assert_close(COMMON.means(after), common)
    for unit in UNITS:
        factor = after.second[:, unit] / before.second[:, unit]
        torch.testing.assert_close(factor, factor[:, :1].expand_as(factor))
    assert torch.equal(after.first, before.first)
    assert torch.equal(after.steps, before.steps)


@given(st.integers(0, 2**20))
def test_no_step_becomes_longer_than_by_a_fixed_factor(seed: int) -> None:
    before = moments(seed, spread=3.0)
    after = COMMON.scaled(before, COMMON.means(moments(seed + 1, spread=3.0)))
    longer = (before.second / after.second).sqrt()
    assert longer.max() <= MOST_LONGER * (1 + 1e-12)


def test_own_means_and_none_leave_moments_as_they_are_to_the_bit() -> None:
    before = moments(1)
    assert torch.equal(COMMON.scaled(before, COMMON.means(before)).second, before.second)
    nothing = torch.zeros(3, len(UNITS), dtype=torch.float64)
    assert torch.equal(COMMON.scaled(before, nothing).second, before.second)


def test_units_without_moments_take_the_common_ones() -> None:
    before = moments(2)
    empty = before.second.clone()
    empty[1, UNITS[1]] = 0.0
    common = torch.full((3, len(UNITS)), 0.25, dtype=torch.float64)
    after = COMMON.scaled(replace(before, second=empty), common)
    grown = 1 - 0.999 ** before.steps[1].double()
    torch.testing.assert_close(after.second[1, UNITS[1]], (0.25 * grown).expand(2))
    fresh = Moments.zero(torch.zeros(2, LAYOUT.size))
    assert not COMMON.scaled(fresh, common[:2].float()).second.any()


@pytest.mark.parametrize("lie", [0.0, 1e-30, 1e30])
def test_a_minority_that_lies_moves_the_common_moments_between_those_of_others(lie: float) -> None:
    config = small_config(moments="common", agents=5, partition="iid")
    simulation, states, _ = simulate(config, small_split(config))
    uploads = simulation.play(states[1]).uploads
    assert uploads.moments is not None
    said = uploads.moments.clone()
    said[:2] = lie
    common = simulation.server.common_moments(replace(uploads, moments=said), None)
    assert common is not None
    assert torch.equal(common, common[:1].expand_as(common))
    honest = said[2:]
    moved = (honest > 0).all(dim=0)  # where honest agents have no moments, liars are the majority
    assert moved.any()
    assert (common >= honest.min(dim=0).values)[:, moved].all()
    assert (common <= honest.max(dim=0).values)[:, moved].all()


def test_who_is_absent_does_not_count() -> None:
    config = small_config(moments="common")
    simulation, states, _ = simulate(config, small_split(config))
    uploads = simulation.play(states[1]).uploads
    present = torch.tensor([True] + [False] * (config.agents - 1))
    common = simulation.server.common_moments(uploads, present)
    assert uploads.moments is not None
    assert common is not None
    assert torch.equal(common, uploads.moments[:1].double().expand_as(common))
    assert send_all(uploads)[1] is None


def test_classes_are_learnt_with_moments_of_ones_own() -> None:
    auto, own = (small_config(profile="default", moments=m) for m in ("auto", "own"))
    weights = [simulate(c, small_split(c))[1][-1].agents.weights for c in (auto, own)]
    assert torch.equal(*weights)
