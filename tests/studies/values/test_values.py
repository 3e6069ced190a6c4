"""The study of valuations against the truth: its arithmetic, and a small run."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from oracles.games import shapley_by_permutations

from motifair.federation.loop import Stopped
from motifair.studies.study import Settings
from motifair.studies.values import study
from motifair.studies.values.measures import OTHER_TEST, RELIABILITY, rank_correlation, shares
from motifair.studies.values.truth import TRUTHS, banzhaf, leave_one_out, shapley
from motifair.studies.values.valuations import VALUATIONS


def game(agents: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=2**agents)


def members(number: int) -> frozenset[int]:
    return frozenset(i for i in range(8) if number >> i & 1)


def test_shapley_values_are_means_over_orders() -> None:
    table = game(4, 1)
    worth = {members(s): float(v) for s, v in enumerate(table)}
    assert np.allclose(shapley(table), shapley_by_permutations(worth.__getitem__, 4))


def test_banzhaf_values_are_means_over_random_coalitions() -> None:
    table, rng = game(3, 2), np.random.default_rng(3)
    for p in (0.5, 0.8):
        inside = rng.random((200_000, 3)) < p
        number = (inside * (1 << np.arange(3))).sum(axis=1)
        drawn = [(table[number | 1 << i] - table[number & ~(1 << i)]).mean() for i in range(3)]
        assert np.allclose(banzhaf(table, p), drawn, atol=0.02)


def test_all_truths_agree_where_contributions_add_up() -> None:
    """A table of sums: whoever joins adds the same to every coalition."""
    worth = np.array([3.0, -1.0, 0.5])
    table = np.array([sum(worth[i] for i in members(s)) for s in range(8)])
    for value in TRUTHS.values():
        assert np.allclose(value(table), worth)
    assert np.allclose(leave_one_out(np.stack([table, 2 * table])), [worth, 2 * worth])


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_shares_keep_signs_and_ranks(order: tuple[int, ...]) -> None:
    value = np.array([4.0, 1.0, -3.0])[list(order)]
    assert np.isclose(np.abs(shares(value)).sum(), 1)
    assert rank_correlation(shares(value), value) == pytest.approx(1)
    assert rank_correlation(np.ones(3) / 3, value) == 0


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(study, "SCENARIOS", ("sizes", "inverted"))
    monkeypatch.setattr(study, "TRAINED", {"agents": 3, "hidden": 8, "batch_size": 10_000})
    return Settings(tmp_path, splits=2, rounds=10, datasets=("planted",), device="cpu", threads=1)


@pytest.mark.slow
def test_a_small_study_has_every_valuation_and_continues(small: Settings) -> None:
    result = study.run(small)
    scenarios = result.tables["scenarios"]
    paid = {f"pay of {name}" for name in study.METHODS}
    assert set(scenarios["valuation"]) == {RELIABILITY, OTHER_TEST, *VALUATIONS, *paid}
    assert set(scenarios["scenario"]) == {"sizes", "inverted"}
    assert scenarios["rank"].between(-1, 1).all()
    utilities = result.raw["utilities"]
    assert len(utilities) == 2 * 2 * 2**3
    first = utilities[utilities["coalition"] == 0]
    assert (first["utility"] == first["utility_again"]).all(), "nobody knows but class frequencies"
    # A second call reads what is stored, and trains nothing: it would stop.
    stopped = Settings(**{**vars(small), "stop": lambda: True})
    pd.testing.assert_frame_equal(study.run(stopped).raw["splits"], result.raw["splits"])
    next((small.out / "runs" / "values-planted-sizes-10").glob("split-*.npz")).unlink()
    with pytest.raises(Stopped):
        study.run(stopped)
    files = result.write(small.out / "values")
    assert {f.name for f in files} >= {"summary.csv", "nearness.png", "pay.png", "utilities.csv"}
