"""A member's molecules: the columns of its CSV file stand in the terms."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import motifair
from motifair.cli import main
from motifair.consortium.member_data import prepare_member_data
from motifair.consortium.terms import read_terms
from motifair.graphs.csv_file import Columns
from motifair.graphs.read import read_graphs


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["motifair", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def table(path: Path) -> Path:
    rows = [f"C{'C' * (k % 4)}O,{k % 2},lab-{k % 8 // 4},{k / 7}" for k in range(48)]
    path.write_text("\n".join(["Structure,toxic,lab,weight", *rows]) + "\n")
    return path


def test_the_terms_name_the_columns_that_members_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path / "sample.csv")
    named = ["--smiles", "Structure", "--targets", "toxic"]
    words = ["federation", "init", "--like", path, "--members", "a,b", "--folder", tmp_path / "op"]
    assert call(monkeypatch, *words, *named) == 0
    assert (tmp_path / "op" / "requests").is_dir()
    terms = read_terms(tmp_path / "op" / "federation.toml")
    columns = Columns(terms.config.smiles, terms.config.targets)
    assert columns == Columns("Structure", "toxic")
    graphs = read_graphs(path, columns)
    data = prepare_member_data(terms.config, terms.schema, "a", graphs, 0, terms.fingerprint_key)
    assert terms.config.max_ring == 8
    assert data.motifs == ("bond 6 6/1",)
    assert data.inputs.uses[-1] == "2 classes (0, 1)"


@pytest.mark.parametrize(("target", "task"), [("toxic", "binary"), ("weight", "regression")])
def test_targets_of_a_table_have_scale_or_rates_of_the_members_sums(
    target: str,
    task: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sample, own, said = table(tmp_path / "sample.csv"), tmp_path / "own.csv", tmp_path / "own.json"
    lines = sample.read_text().splitlines()
    own.write_text("\n".join([*lines[:10], *lines[1:30:2]]) + "\n")
    columns = ["--smiles", "Structure"]
    words = ["federation", "init", "--like", sample, "--members", "a,b", "--task", task, *columns]
    words += ["--targets", target, "--folder", tmp_path / "op", "--sums", said]
    sums = ["federation", "sums", "--graphs", own, "--out", said, *columns]
    assert call(monkeypatch, *sums) == 0
    assert call(monkeypatch, *words) == 2
    assert (
        "no sums of targets; write it with: motifair federation sums (of a CSV file with --tar"
        in (capsys.readouterr().err)
    )
    assert call(monkeypatch, *sums, "--targets", target, "--task", task) == 0
    assert call(monkeypatch, *words) == 0
    found = read_terms(tmp_path / "op" / "federation.toml").schema.predicted
    values = pd.read_csv(own)[target]
    if task == "binary":
        assert found.rates == pytest.approx([(values.sum() + 1) / (len(values) + 2)])
    else:
        assert found.mean == pytest.approx([values.mean()])
        assert found.scale == pytest.approx([values.std(ddof=0)])


def test_columns_of_what_is_no_table_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["federation", "init", "--like", tmp_path, "--members", "a,b", "--smiles", "s"]
    assert call(monkeypatch, *words, "--folder", tmp_path / "op") == 2
    assert "--smiles and --targets are for CSV files" in capsys.readouterr().err


def test_molecules_are_predicted_from_a_file_without_classes(tmp_path: Path) -> None:
    path = table(tmp_path / "few.csv")
    options = {"rounds": 1, "hidden": 8, "device": "cpu", "threads": 1, "method": "fedavg"}
    result = motifair.run(path, smiles="Structure", targets="toxic", partition="lab", **options)
    new = tmp_path / "new.csv"
    new.write_text("Structure\nCCO\nCCCO\nnothing\n")
    predicted = result.predict(new, agent="lab-1")
    assert predicted["graph"].tolist() == [0, 1]
