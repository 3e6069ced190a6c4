"""The study of members: differences are paired and of the right runs, and gifts are as measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from motifair.evaluation.incentives import SHARES, slope
from motifair.studies.members import (
    ALIKE,
    GIVES,
    PARTS,
    accuracy_table,
    compared,
    giving_table,
    run,
    train,
)
from motifair.studies.study import Settings


def settings(folder: Path) -> Settings:
    options = {"hidden": 8}
    return Settings(
        folder, splits=1, rounds=2, datasets=("planted",), device="cpu", threads=1, options=options
    )


def test_members_are_compared_with_the_better_of_fedavg_and_training_alone() -> None:
    rows = pd.DataFrame(
        {
            "dataset": ["a", "a", "b", "b"], "members": ALIKE, "alone": [0.5, 0.5, 0.8, 0.9],
            "fedavg": [0.6, 0.8, 0.7, 0.7], "motifair": [0.7, 0.7, 0.8, 0.7],
        }
    )  # fmt: skip
    for method in ("fedavg", "motifair"):
        for measure in ("by_test_graphs", "server", "rationality"):
            rows[f"{method}_{measure}"] = rows[method]
    table = accuracy_table(rows).set_index("dataset")
    assert table["better"].to_dict() == {"a": "fedavg", "b": "alone"}
    assert table["members_minus_better"].tolist() == pytest.approx([0.0, -0.1])
    assert table["members_minus_fedavg"].tolist() == pytest.approx([0.0, 0.05])
    # Paired differences of a are −.1 and .1: ± 12.7 · .1 with one degree of freedom.
    assert table.loc["a", "members_minus_fedavg_high"] == pytest.approx(1.27, abs=0.01)
    assert table.loc["b", "rationality"] == pytest.approx(0.75)


def test_slopes_and_the_free_rider_count_once_a_split() -> None:
    rows = pd.DataFrame(
        {
            "dataset": np.repeat(["a", "b"], len(SHARES)), "alone": 0.5, "share": [*SHARES] * 2,
            "accuracy": [*np.linspace(0.4, 0.6, 5), *np.full(5, 0.8)],
            "accuracy_slope": np.repeat([0.2, 0.0], 5), "pay_slope": 1.0,
        }
    )  # fmt: skip
    table = giving_table(rows).set_index("dataset")
    assert table["splits"].to_dict() == {"all": 2, "a": 1, "b": 1}
    assert table["accuracy_slope"].tolist() == pytest.approx([0.1, 0.2, 0.0])
    assert table["free_rider_gain"].tolist() == pytest.approx([0.1, -0.1, 0.3])


def test_the_study_reads_what_its_pieces_trained_and_says_what_they_measured(
    tmp_path: Path,
) -> None:
    chosen = settings(tmp_path)
    for part in PARTS:
        train(chosen, ("planted", part))
    trained = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*.safetensors")}
    result = run(chosen)
    assert trained == {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*.safetensors")}

    for part in (ALIKE, "sizes"):
        runs = compared(chosen, "planted", part).results
        reached = {m: [s.accuracy.mean() for s in r.splits] for m, r in runs.items()}
        row = result.tables["accuracy"].set_index("members").loc[part]
        expected = np.subtract(reached["motifair"], reached["fedavg"]).mean()
        assert row["members_minus_fedavg"] == pytest.approx(expected)
    given = result.raw["given"]
    assert len(given) == len(SHARES)
    for split in compared(chosen, "planted", GIVES).results["motifair"].splits:
        own = given[given["seed"] == split.seed]
        assert split.giving is not None
        assert own["accuracy"].tolist() == list(split.giving.accuracy)
        assert own["accuracy_slope"].iloc[0] == pytest.approx(slope(SHARES, own["accuracy"]))

    written = {path.name for path in result.write(tmp_path / "members")}
    assert {"accuracy.png", "giving.svg", "splits.csv", "given.csv", "README.md"} <= written
