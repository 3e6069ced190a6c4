"""GCFL, CFFL (RFFL) and CFFL of Lyu et al. decide by the constants of their published code."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from motifair.config import make_config
from motifair.methods import METHODS, Method, Seen

NEAR = 0.999, 1.001  # just below and just above a threshold

GCFL = pytest.mark.parametrize(
    ("dataset", "small", "large", "length"),
    [
        ("PROTEINS", 0.03, 0.06, 10),
        ("IMDB-BINARY", 0.025, 0.045, 5),
        ("NCI1", 0.04, 0.08, 5),
        ("DD", 0.03, 0.06, 5),
    ],
)


def method(name: str, dataset: str = "planted") -> Method:
    return METHODS[name]().bind(make_config({"dataset": dataset}))


def seen(updates: Tensor, *, round: int, value: list[float] | None = None) -> Seen:
    """What the server sees in a round (counted from 1)."""
    agents = len(updates)
    equal = torch.full((agents,), 1 / agents, dtype=torch.float64)
    return Seen(
        updates=updates,
        sent=updates,
        gradients=None,
        gradient_norm=torch.arange(1.0, agents + 1).double(),
        graphs=torch.full((agents,), 10),
        believed=torch.full_like(equal, 10.0),
        worth=torch.full_like(equal, 10.0),
        diversity=torch.full_like(equal, torch.nan),
        value=equal if value is None else torch.tensor(value, dtype=torch.float64),
        alignment=torch.full_like(equal, torch.nan),
        earlier_mean=equal,
        rounds=torch.tensor(round - 1),
        seed=torch.tensor(0),
    )


def opposed(mean: float, longest: float, agents: int = 3) -> Tensor:
    """Updates of which two are opposed: the norm of their mean, and that of the longest."""
    updates = torch.zeros(agents, 2, dtype=torch.float64)
    updates[:, 0] = mean
    updates[0, 1] = (longest**2 - mean**2) ** 0.5
    updates[1, 1] = -updates[0, 1]
    return updates


def splits(name: str, dataset: str, view: Seen) -> bool:
    return bool(method(name, dataset).remember(view)["cluster"].any())


@GCFL
def test_gcfl_splits_where_updates_cancel_although_some_are_large(
    dataset: str, small: float, large: float, length: int
) -> None:
    below, above = NEAR
    found = {
        (a, b): splits("gcfl", dataset, seen(opposed(a * small, b * large), round=21))
        for a in NEAR
        for b in NEAR
    }
    assert found == {
        (below, above): True,
        (above, above): False,
        (below, below): False,
        (above, below): False,
    }


@GCFL
def test_gcfl_splits_no_cluster_before_round_21_and_none_of_two(
    dataset: str, small: float, large: float, length: int
) -> None:
    updates = opposed(small / 2, 2 * large)
    assert [splits("gcfl", dataset, seen(updates, round=t)) for t in (1, 20, 21)] == [0, 0, 1]
    assert not splits("gcfl", dataset, seen(updates[:2], round=21))


@GCFL
def test_gcfl_plus_compares_sequences_of_the_published_length(
    dataset: str, small: float, large: float, length: int
) -> None:
    recipe = method("gcfl+", dataset)
    view = seen(opposed(small / 2, 2 * large), round=21)
    for _ in range(length):
        assert not view.memory or not view.memory["cluster"].any()
        view = replace(view, memory=recipe.remember(view))
    assert view.memory["cluster"].any()


def valued(alignment: list[float], value: list[float], *, round: int) -> list[float]:
    view = seen(torch.eye(len(value), dtype=torch.float64), round=round, value=value)
    phi = torch.tensor(alignment, dtype=torch.float64)
    return method("cffl").valuate(view, phi).tolist()


def test_cffl_keeps_95_percent_of_a_reputation() -> None:
    assert valued([1.0, 0.0], [0.5, 0.5], round=2) == pytest.approx([0.525 / 1, 0.475 / 1])
    # Before the first round there is none.
    assert valued([0.6, 0.2], [0.5, 0.5], round=1) == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize(("round", "removes"), [(1, False), (10, False), (11, True), (12, True)])
def test_cffl_removes_who_is_below_a_third_of_an_equal_share_from_round_11_on(
    round: int, removes: bool
) -> None:
    third = 1 / 3 / 4
    for factor, behind in zip(NEAR, (True, False), strict=True):
        value = [factor * third, *[(1 - factor * third) / 3] * 3]
        found = valued(value, value, round=round)  # the evidence confirms the value
        assert (found[0] == 0) == (removes and behind), factor


def reputation(reached: list[float], value: list[float]) -> list[float]:
    view = seen(torch.eye(len(value), dtype=torch.float64), round=2, value=value)
    view = replace(view, judge=lambda updates: torch.tensor(reached, dtype=torch.float64))
    return method("cffl-lyu").remember(view)["value"].tolist()


def sharpened(mixed: list[float]) -> list[float]:
    raised = torch.sinh(5 * torch.tensor(mixed, dtype=torch.float64))
    return (raised / raised.sum()).tolist()


def test_cffl_of_lyu_keeps_80_percent_of_a_reputation_and_sharpens_it_by_5() -> None:
    found = reputation([0.9, 0.6, 0.5], [0.4, 0.3, 0.3])
    mixed = [0.8 * r + 0.2 * a / 2.0 for r, a in zip([0.4, 0.3, 0.3], [0.9, 0.6, 0.5], strict=True)]
    assert found == pytest.approx(sharpened(mixed))


def test_cffl_of_lyu_removes_who_is_below_a_third_of_an_equal_share() -> None:
    # Reputations that sharpening takes to a third of 1/4, just below it and just above it.
    for factor, removed in zip(NEAR, (True, False), strict=True):
        third = factor / 3 / 4
        low, high = 0.0, 0.25
        for _ in range(60):
            middle = (low + high) / 2
            shares = sharpened([middle, *[(1 - middle) / 3] * 3])
            low, high = (middle, high) if shares[0] < third else (low, middle)
        value = [low, *[(1 - low) / 3] * 3]
        assert (reputation(value, value)[0] == 0) == removed


def test_cffl_of_lyu_clips_at_a_hundredth_and_uploads_a_tenth() -> None:
    recipe = method("cffl-lyu")
    steps = torch.tensor([[-1.0, -0.011, -0.009, 0.0, 0.009, 0.011, 1.0]])
    assert recipe.limit(steps)[0].tolist() == pytest.approx(
        [-0.01, -0.01, -0.009, 0, 0.009, 0.01, 0.01]
    )
    sent = recipe.prepare(torch.arange(1.0, 201.0).repeat(2, 1))
    assert (sent != 0).sum(dim=1).tolist() == [20, 20]
    assert recipe.validation == 0.05
