"""The large dataset: what is run where Twitter's graphs are, and where they are not."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from worlds import small_graphs

from motifair.files import read_json
from motifair.graphs.tu import write_tu
from motifair.studies import scale
from motifair.studies.scale import TWITTER, present
from motifair.studies.study import Settings, StudyResult


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dataset of Twitter's name: sixty graphs are enough to see it used."""
    root = tmp_path_factory.mktemp("data")
    write_tu(small_graphs(80), root / TWITTER)
    return root


@pytest.fixture(scope="module")
def found(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyResult, Path]:
    out = tmp_path_factory.mktemp("scale")
    chosen = Settings(
        out, splits=2, rounds=2, device="cpu", threads=1, data_dir=data,
        options={"agents": 3, "hidden": 16},
    )  # fmt: skip
    return scale.run(chosen), out


def test_twitter_is_used_where_it_is_and_nothing_in_its_place(data: Path) -> None:
    assert present(data) == (TWITTER,)


def test_elsewhere_stand_ins_are_named_as_what_they_are(tmp_path: Path, data_dir: Path) -> None:
    assert present(tmp_path) == ("twitter-like",)
    assert present(data_dir) == ("DBLP_v1", "twitter-like")
    assert not any("not among" in note for note in scale.notes((TWITTER,)))
    assert any("not among" in note for note in scale.notes(("DBLP_v1", "twitter-like")))


def test_our_numbers_stand_beside_the_published_ones(found: tuple[StudyResult, Path]) -> None:
    finding, out = found
    table = finding.tables["scale"].set_index(["method", "metric"])
    assert table.loc[("motifair", "fairness"), "published for Twitter"] == 0.401
    assert table.loc[("gcfl", "personalised_accuracy"), "published for Twitter"] == 0.612
    assert pd.isna(table.loc[("self-train", "global_accuracy"), "published for Twitter"])
    folder = out / "runs" / f"{TWITTER}-seed20000-2x2"
    for method in ("self-train", "gcfl", "cgsv", "motifair"):
        splits = read_json(folder / method / "summary.json")["splits"]
        mean = sum(s["personalised_accuracy"] for s in splits) / 2
        assert table.loc[(method, "personalised_accuracy"), "mean"] == pytest.approx(mean)
    assert set(table["dataset"]) == {TWITTER}
    assert set(table["what it is"]) == {"the paper's dataset"}


def test_the_figure_has_intervals_and_crosses(found: tuple[StudyResult, Path]) -> None:
    for axis in found[0].figures["scale"].axes:
        assert axis.containers
        assert axis.collections
