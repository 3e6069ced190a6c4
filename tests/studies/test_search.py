"""The search: every variant beside FedAvg and CFFL, and by what it pays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from motifair.config import make_config
from motifair.experiments.plan import split_data
from motifair.studies import search
from motifair.studies.study import Settings


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names = ["default", "own_weight=0"]
    monkeypatch.setattr(search, "VARIANTS", {n: search.VARIANTS[n] for n in names})
    return names


def test_variants_differ_from_the_profile_in_what_they_name() -> None:
    usual = make_config({}).to_json()
    for name, changed in search.VARIANTS.items():
        for option, value in changed.items():
            assert make_config({option: value}).to_json()[option] != usual[option], (name, option)


def test_tables_say_what_the_runs_say(tmp_path: Path, few: list[str]) -> None:
    small = {"learning_rate": 0.01}
    settings = Settings(
        tmp_path, splits=1, rounds=2, datasets=("planted",), device="cpu", threads=1, options=small
    )
    finding = search.run(settings)
    clean, tiers = finding.tables["search"], finding.tables["search-tiers"]
    assert clean["variant"].tolist() == ["fedavg", "cffl", *few]
    assert tiers["variant"].tolist() == few
    assert clean["global_accuracy"].isna().tolist() == [False, True, *[False] * len(few)]
    reference = clean.set_index("variant").loc["fedavg"]
    for _, row in clean.iterrows():
        for metric in ("personalised_accuracy", "global_accuracy"):
            difference = row[metric] - reference[metric]
            assert row[f"{metric} − fedavg"] == pytest.approx(difference, abs=1e-12, nan_ok=True)
    assert np.allclose(3 * tiers["low"] + 3 * tiers["medium"] + 4 * tiers["high"], 1.0)


def test_the_rank_correlation_is_with_what_is_left_of_the_edges(
    tmp_path: Path, few: list[str]
) -> None:
    settings = Settings(tmp_path, splits=1, rounds=3, device="cpu", threads=1)
    plan = settings.plan("planted", seed=search.PAYOFF_SEARCH, splits=1, perturbation="tiers")
    result = settings.execute("one", {"default": plan}).results["default"]
    payoff = rankdata(result.splits[0].history.columns["payoff"].mean(axis=0))
    quality = rankdata([1 - d.rewired for d in split_data(plan, 0).damage])
    expected = np.corrcoef(payoff, quality)[0, 1]
    assert search.paid(plan, result)["rank correlation"] == pytest.approx(expected)
