"""Graphs given to agents by a column, by scaffold or by a function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import motifair
from motifair.errors import MotifairError
from motifair.graphs.csv_file import Columns
from motifair.graphs.dataset import Dataset, load_dataset
from motifair.graphs.owners import _joined, _ranges, by_column, owned

SMILES = ["CCO", "c1ccccc1", "CCc1ccccc1", "C1CC1", "CC", "CCC", "C1CCCCC1", "OC1CCCCC1"]


def table(folder: Path, times: int = 6) -> Path:
    rows = [
        (text, (i + k) % 2, 1990 + i, f"lab-{i % 3}")
        for k in range(times)
        for i, text in enumerate(SMILES)
    ]
    path = folder / "labs.csv"
    frame = pd.DataFrame(rows, columns=["smiles", "toxic", "year", "lab"])
    frame.to_csv(path, index=False)
    return path


def load(folder: Path) -> Dataset:
    columns = Columns(targets="toxic")
    return load_dataset(str(table(folder)), agents=2, seed=0, columns=columns)


def test_text_has_an_agent_for_each_value(tmp_path: Path) -> None:
    data = by_column(load(tmp_path), "lab", None, ())
    assert data.owners == ("lab-0", "lab-1", "lab-2")
    assert data.table is not None
    assert data.owner is not None
    assert [data.owners[k] for k in data.owner] == data.table.rows["lab"].tolist()


def test_numbers_become_ranges(tmp_path: Path) -> None:
    data = by_column(load(tmp_path), "year", 4, ())
    assert data.owners == ("1990–1991", "1992–1993", "1994–1995", "1996–1997")
    assert data.owner is not None
    assert np.bincount(data.owner).tolist() == [12] * 4


def test_scaffolds_are_in_one_agent_each(tmp_path: Path) -> None:
    data = by_column(load(tmp_path), "scaffold", 3, ())
    assert data.owner is not None
    # No ring (3 molecules), benzene and cyclohexane (2 each), cyclopropane (1), six times.
    assert sorted(np.bincount(data.owner).tolist()) == [12, 18, 18]
    assert len({data.owner[k] for k in (1, 2)}) == len({data.owner[k] for k in (6, 7)}) == 1


@given(st.lists(st.integers(0, 9), min_size=5, max_size=60), st.integers(2, 5))
def test_no_value_has_two_agents_and_no_agent_is_empty(values: list[int], agents: int) -> None:
    series = pd.Series(values)
    if series.nunique() < agents:
        return
    for owner in (_joined(series, agents), _ranges(series, agents)):
        assert set(owner.tolist()) == set(range(agents))
        assert pd.Series(owner).groupby(series).nunique().max() == 1
    order = np.argsort(series.to_numpy(), kind="stable")
    assert (np.diff(_ranges(series, agents)[order]) >= 0).all()


def test_mistakes_of_a_partition_are_one_sentence(tmp_path: Path) -> None:
    data = load(tmp_path)
    for column, agents, sentence in (
        ("yaer", 2, "There is no partition or column 'yaer'. Did you mean year?"),
        ("lab", 4, "partition=lab has 3 different values in labs for 4 agents"),
    ):
        with pytest.raises(MotifairError, match=sentence):
            by_column(data, column, agents, ("iid",))
    embedded = load_dataset("planted", agents=2, seed=0)
    with pytest.raises(MotifairError, match="partition=scaffold is for molecules"):
        by_column(embedded, "scaffold", 2, ())
    with pytest.raises(MotifairError, match="gives 1 owners for the 48 graphs of labs"):
        owned(data, ["a"])
    with pytest.raises(MotifairError, match="to one agent"):
        owned(data, ["a"] * 48)
    with pytest.raises(MotifairError, match="leave --smiles and --targets out"):
        motifair.run(targets="y", rounds=1)


def test_a_missing_value_is_named(tmp_path: Path) -> None:
    path = table(tmp_path)
    path.write_text(path.read_text().replace(",lab-0", ",", 1))
    data = load_dataset(str(path), agents=2, seed=0, columns=Columns(targets="toxic"))
    with pytest.raises(MotifairError, match=r"1 molecules of labs have no 'lab' \(such as 'CCO'"):
        by_column(data, "lab", None, ())


def test_a_member_without_any_label_is_named_not_left_out(tmp_path: Path) -> None:
    path = table(tmp_path)
    frame = pd.read_csv(path)
    frame.loc[frame["lab"] == "lab-1", "toxic"] = float("nan")
    frame.to_csv(path, index=False)
    columns = Columns(targets="toxic", group="lab")
    data = load_dataset(str(path), agents=2, seed=0, columns=columns)
    for agents in (None, 2, 3):
        with pytest.raises(MotifairError, match=r"Agent 'lab-1' of partition=lab has no molecule"):
            by_column(data, "lab", agents, ())
    # Ranges of years are agents whether or not a year is missing in them.
    by_year = load_dataset(
        str(path), agents=2, seed=0, columns=Columns(targets="toxic", group="year")
    )
    assert by_column(by_year, "year", 2, ()).owners == ("1990–1993", "1995–1996")


OPTIONS = {"rounds": 1, "hidden": 8, "device": "cpu", "threads": 1, "method": "fedavg"}


def test_a_run_by_column_is_the_run_by_the_same_function(tmp_path: Path) -> None:
    path, seen = table(tmp_path), []

    def company(data: Dataset) -> list[str]:
        assert data.table is not None
        seen.append(data.table.rows["lab"].tolist())
        return seen[-1]

    named = motifair.run(path, targets="toxic", partition="lab", out=tmp_path / "run", **OPTIONS)
    by_function = motifair.run(path, targets=["toxic"], partition=company, **OPTIONS)
    assert named.splits[0].names == by_function.splits[0].names == ("lab-0", "lab-1", "lab-2")
    assert named.mean == by_function.mean
    assert (named.config.smiles, named.config.agents, named.config.max_ring) == ("smiles", 3, 8)
    assert motifair.run(path, targets="toxic", partition="lab", out=tmp_path / "run", **OPTIONS)
    plan = named.origin.plan
    assert plan.data.owners == ("lab-0", "lab-1", "lab-2")
    assert len(seen) == 1


def test_a_run_by_function_cannot_be_resumed_from_its_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"

    def halves(data: Dataset) -> list[str]:
        return ["a" if k % 4 < 2 else "b" for k in range(len(data.graphs))]

    motifair.run("planted", agents=2, partition=halves, out=out, **OPTIONS)
    from motifair.experiments.plan import read_plan

    with pytest.raises(MotifairError, match="shared out by a function"):
        read_plan(out)
