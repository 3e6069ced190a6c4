"""Comparisons: the same splits and baselines for all, honest statistics, every output."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import motifair
from motifair.errors import MotifairError
from motifair.evaluation.statistics import holm, mean_ranks, paired_difference
from motifair.experiments.published import NAMES, published
from motifair.methods import METHODS, Method, all_methods

QUICK = {"rounds": 3, "agents": 4, "hidden": 16, "threads": 1, "device": "cpu", "splits": 2}


def test_all_methods_are_compared_on_the_same_splits_and_baselines(
    data_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "compared"
    found = motifair.compare("MUTAG", data_dir=data_dir, out=out, **QUICK)
    assert list(found.results) == list(METHODS)
    alone = [s.alone for s in found.results["fedavg"].splits]
    for result in found.results.values():
        assert np.array_equal(alone, [s.alone for s in result.splits])
    for name in ("comparison.csv", "comparison.md", "comparison.tex", "comparison.json"):
        assert (out / name).stat().st_size > 200
    frame = pd.read_csv(out / "comparison.csv")
    assert len(frame) == 3 * len(METHODS)
    baseline = frame[frame.method == "fedavg"]
    assert (baseline["difference"] == 0).all()
    assert baseline["p_holm"].isna().all()
    ranks = frame[frame.metric == "personalised_accuracy"]["rank"]
    assert ranks.sum() == pytest.approx(len(METHODS) * (len(METHODS) + 1) / 2)


def test_a_comparison_goes_on_where_it_was_and_trains_nobody_alone_twice(tmp_path: Path) -> None:
    out = tmp_path / "compared"
    first = motifair.compare(methods="fedavg,motifair", out=out, **QUICK)
    alone = sorted((out / "baselines" / "checkpoint").iterdir())
    assert len(alone) == 4
    assert not list((out / "motifair" / "checkpoint").glob("*alone*"))
    before = [p.stat().st_mtime_ns for p in alone]
    again = motifair.compare(methods=["fedavg", "motifair", "cgsv"], out=out, **QUICK)
    assert [p.stat().st_mtime_ns for p in alone] == before
    pd.testing.assert_frame_equal(
        first.results["motifair"].to_frame(), again.results["motifair"].to_frame()
    )
    single = motifair.run(method="motifair", **QUICK)
    pd.testing.assert_frame_equal(single.to_frame(), again.results["motifair"].to_frame())


def test_an_option_goes_to_the_methods_that_use_it(tmp_path: Path) -> None:
    found = motifair.compare(methods="fedavg,motifair", beta=7.0, **{**QUICK, "splits": 1})
    assert found.results["motifair"].config.beta == 7.0
    assert found.results["fedavg"].config.beta == 1.0
    with pytest.raises(MotifairError, match="None of fedavg, fedprox uses beta"):
        motifair.compare(methods="fedavg,fedprox", beta=7.0, **QUICK)


def test_a_comparison_takes_a_configuration_and_leaves_its_method_out() -> None:
    config = motifair.Config(method="cgsv", rounds=2, agents=3, hidden=8, learning_rate=0.01)
    found = motifair.compare(config, methods="fedavg,self-train", device="cpu", threads=1)
    assert [r.config.learning_rate for r in found.results.values()] == [0.01, 0.01]
    again = motifair.compare(
        found.results["fedavg"].config, methods="fedavg,self-train", device="cpu", threads=1
    )
    pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())
    with pytest.raises(MotifairError, match="takes methods, not method"):
        motifair.compare(method="fedavg", **QUICK)


def test_an_option_that_a_method_would_ignore_is_refused() -> None:
    for method, option in (
        ("gcfl", {"contribution": True}),
        ("self-train", {"contribution": True}),
        ("motifair-alignment", {"alignment_against": "others"}),
        ("cffl", {"beta": 3.0}),
    ):
        with pytest.raises(MotifairError, match="does not use"):
            motifair.run(method=method, **option, **QUICK)  # type: ignore[arg-type]
    both = motifair.compare(methods="fedavg,gcfl", contribution=True, **{**QUICK, "splits": 1})
    measured = {m: r.splits[0].history.columns["contribution"] for m, r in both.results.items()}
    assert np.isfinite(measured["fedavg"][-1]).all()
    assert np.isnan(measured["gcfl"]).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"methods": "fedavg"}, "at least two"),
        ({"methods": "fedavg,fedavgg"}, "Did you mean fedavg"),
        ({"methods": "motifair,cgsv", "baseline": "fedavg"}, "is not among the methods"),
    ],
)
def test_a_mistaken_comparison_is_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(MotifairError, match=sentence):
        motifair.compare(**options, **QUICK)  # type: ignore[arg-type]


def test_different_published_datasets_keep_inputs_and_classes_of_their_own(data_dir: Path) -> None:
    with pytest.raises(MotifairError, match="use a method that shares convolutions"):
        motifair.run("MUTAG,PROTEINS", method="fedavg", share="all", data_dir=data_dir)
    options = {k: v for k, v in QUICK.items() if k != "agents"}
    comparison = motifair.compare(
        ["MUTAG", "PROTEINS"], methods="fedavg,gcfl,fedstar", data_dir=data_dir, **options
    )
    for result in comparison.results.values():
        assert result.splits[0].names == ("MUTAG", "PROTEINS")
        assert result.inputs["uses"][0] == "MUTAG: node labels (7), 2 classes (-1, 1)"


class Generous(Method):
    """Everybody is paid by the length of its update."""

    name = "generous"
    summary = "pays by update length"

    def settle(self, seen, value):  # type: ignore[no-untyped-def]
        length = seen.sent.norm(dim=1)
        return self.config.budget * length / length.sum(), torch.zeros_like(value)


def test_a_method_may_be_given_as_a_class_but_not_under_a_name_of_ours() -> None:
    result = motifair.run(method=Generous, budget=2.0, **{**QUICK, "splits": 1})
    assert result.config.method == "generous"
    payoff = result.splits[0].history.columns["payoff"]
    norm = result.splits[0].history.columns["update_norm"]
    assert np.allclose(payoff, 2 * norm / norm.sum(axis=1, keepdims=True))
    with pytest.raises(MotifairError, match="give yours another name"):
        motifair.run(method=type("Other", (Method,), {"name": "fedavg"}), **QUICK)


def test_a_method_of_an_installed_package_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kindness.py").write_text(
        "from motifair.methods import Method\n\n\n"
        "class Kind(Method):\n    name = 'kind'\n    summary = 'averages kindly'\n"
    )
    info = tmp_path / "kindness-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kindness\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[motifair.methods]\nkind = kindness:Kind\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert all_methods()["kind"].summary == "averages kindly"
    assert motifair.run(method="kind", **{**QUICK, "splits": 1}).config.method == "kind"


@pytest.mark.parametrize(("against", "vectors"), [("all", 1), ("peers", 2), ("peers-by-value", 2)])
def test_traffic_counts_sparse_rewards_as_they_are_sent(against: str, vectors: int) -> None:
    options = {"rounds": 2, "agents": 4, "hidden": 16, "threads": 1, "device": "cpu", "beta": 0.5}
    result = motifair.run(**options, alignment_against=against)
    columns = result.splits[0].history.columns
    size = columns["kept"].max()
    # Where others judge by their gradients, these are uploaded beside updates.
    prototypes = columns["uploaded"] - 4 * vectors * size
    assert (prototypes > 0).all()
    expected = 4 * np.minimum(2 * columns["kept"], size) + prototypes
    assert np.allclose(columns["downloaded"], expected)
    alone = motifair.run(method="self-train", rounds=1, agents=4, threads=1, device="cpu")
    assert (alone.splits[0].history.columns["uploaded"] == 0).all()


def test_paired_differences_use_only_splits_where_both_are_defined() -> None:
    found = paired_difference([0.9, math.nan, 0.8, 0.7], [0.8, 0.5, math.nan, 0.6])
    assert found.pairs == 2
    assert found.mean == pytest.approx(0.1)
    assert paired_difference([0.5, 0.6], [0.5, 0.6]).p == 1.0
    assert math.isnan(paired_difference([math.nan], [0.1]).mean)
    rng = np.random.default_rng(1)
    base = rng.normal(size=40)
    clear = paired_difference(base + 1 + 0.1 * rng.normal(size=40), base)
    assert clear.p < 1e-6
    assert clear.low < 1.0 < clear.high


def test_holm_never_lowers_a_p_value_and_keeps_their_order() -> None:
    raw = [0.001, 0.2, math.nan, 0.04, 0.03]
    corrected = holm(raw)
    assert math.isnan(corrected[2])
    kept = [(a, b) for a, b in zip(raw, corrected, strict=True) if a == a]
    assert all(b >= a for a, b in kept)
    assert [b for _, b in sorted(kept)] == sorted(b for _, b in kept)
    assert corrected[0] == pytest.approx(0.004)


def test_ranks_share_ties_and_leave_out_the_undefined() -> None:
    ranks = mean_ranks([[0.5, math.nan], [0.5, 0.1], [0.9, 0.2]])
    assert ranks == [2.5, 2.25, 1.0]
    assert math.isnan(mean_ranks([[math.nan], [0.1]])[0])


def test_published_figures_stand_beside_ours_where_there_are_any() -> None:
    assert published("PROTEINS", "motifair", "fairness") == 0.787
    assert published("IMDB-BINARY", "cgsv", "personalised_accuracy") > 0
    assert math.isnan(published("PROTEINS", "gcfl", "global_accuracy"))
    assert math.isnan(published("MUTAG", "fedavg", "fairness"))
    controls = {"random-rewards", "fedavg-own", "fedavg-own-stretched", "star-alone"}
    assert set(NAMES) == set(METHODS) - controls - {"cffl-lyu"}
