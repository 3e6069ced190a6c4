"""The study of valuations against the truth: its arithmetic, and a small run."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from oracles.games import shapley_by_permutations

from motifair.errors import MotifairError
from motifair.federation.loop import Stopped
from motifair.studies.processes import ahead
from motifair.studies.study import Settings
from motifair.studies.values import against, cell, study
from motifair.studies.values.against import against_truth
from motifair.studies.values.measures import OTHER_TEST, RELIABILITY, rank_correlation, shares
from motifair.studies.values.tables import inverted_pay
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
    for module in (study, cell):
        monkeypatch.setattr(module, "COMPLETE", 1)
        trained = {"agents": 3, "hidden": 8, "batch_size": 10_000}
        monkeypatch.setattr(module, "TRAINED", trained)
    return Settings(tmp_path, splits=2, rounds=10, datasets=("planted",), device="cpu", threads=1)


def test_inverted_labels_are_found_out_by_what_was_paid() -> None:
    roles = ("", "inverted", "")
    paid = np.tile([0.4, 0.0, 0.6], (50, 1))
    paid[:10, 1] = 0.1
    assert inverted_pay(roles, paid) == {"least": 1.0, "in 40": 0.0, "at the end": 0.0}
    paid[:19, 0] = 0.0
    assert inverted_pay(roles, paid)["least"] == 0.0
    paid[-1] = [0.5, 0.1, 0.4]
    assert inverted_pay(roles, paid)["at the end"] == pytest.approx(0.3)
    assert np.isnan(list(inverted_pay(("", "", ""), paid).values())).all()


@pytest.mark.slow
def test_pieces_are_computed_in_processes_that_stop_and_refuse(
    small: Settings, tmp_path: Path
) -> None:
    """In processes nothing is patched: the study's own settings, but for one round."""
    one = replace(small, out=tmp_path / "one", rounds=1, processes=1)
    two, told = replace(one, out=tmp_path / "two", processes=2), []
    pieces = [("planted", "sizes", k) for k in (5, 6)]
    ahead(one, study.compute, pieces)
    assert not (tmp_path / "one").exists()
    with pytest.raises(Stopped):
        ahead(replace(two, stop=lambda: True), study.compute, pieces[:1])
    ahead(replace(two, pieces=lambda done, of: told.append((done, of))), study.compute, pieces)
    assert told[-1] == (2, 2)
    found = sorted((tmp_path / "two").rglob("*.npz"))
    assert [f.name for f in found] == ["split-005.npz", "split-006.npz"]
    for file in found:
        with np.load(file) as stored:
            assert stored["pay of motifair"].sum() == pytest.approx(1)
    with pytest.raises(MotifairError, match="No dataset is called 'nothing'"):
        ahead(two, study.compute, [("nothing", "sizes", 0)])


@pytest.mark.slow
def test_a_small_study_has_every_valuation_and_continues(small: Settings) -> None:
    result = study.run(small)
    scenarios, on_all = result.tables["scenarios"], result.tables["all-scenarios"]
    paid = {f"pay of {name}" for name in study.METHODS}
    assert set(scenarios["valuation"]) == {RELIABILITY, OTHER_TEST, *VALUATIONS, *paid}
    assert set(on_all["valuation"]) == set(study.ON_ALL)
    assert set(result.raw["splits"]["split"]) == {0, 1}
    assert set(scenarios["scenario"]) == {"sizes", "inverted"}
    assert result.tables["inverted"]["splits"].tolist() == [2]
    assert set(result.tables["roles"]["role"]) == {"inverted", "honest"}
    assert scenarios["rank"].between(-1, 1).all()
    utilities = result.raw["utilities"]
    assert len(utilities) == 2 * 2 * 2**3
    first = utilities[utilities["coalition"] == 0]
    assert (first["utility"] == first["utility_again"]).all(), "nobody knows but class frequencies"
    pieces = small.out / "runs" / "values-planted-sizes-10"
    with np.load(pieces / "split-000.npz") as complete, np.load(pieces / "split-001.npz") as rest:
        assert {"retrained", "pay of paper", "pay of motifair"} <= complete.keys()
        assert "retrained" not in rest
    # A second call reads what is stored, and trains nothing: it would stop.
    stopped = Settings(**{**vars(small), "stop": lambda: True})
    pd.testing.assert_frame_equal(study.run(stopped).raw["splits"], result.raw["splits"])
    (pieces / "split-000.npz").unlink()
    with pytest.raises(Stopped):
        study.run(stopped)
    files = result.write(small.out / "values")
    assert {f.name for f in files} >= {"summary.csv", "nearness.png", "pay.png", "utilities.csv"}


def sorted_rows(table: pd.DataFrame) -> pd.DataFrame:
    keys = ["dataset", "scenario", "split", "valuation", "agent", "coalition"]
    return table.sort_values([k for k in keys if k in table], ignore_index=True)


@pytest.mark.slow
def test_known_truth_is_not_trained_again(
    small: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = study.run(small)
    folder = tmp_path / "values"
    whole.write(folder)
    again = replace(small, out=tmp_path / "again", truth=folder)
    with monkeypatch.context() as patched:
        patched.delattr(cell, "train_truth")
        patched.delattr(cell, "observe")
        result = study.run(again)
    assert "not trained again" in result.notes[-1]
    assert set(result.raw) == {"splits", "agents"}
    for name in result.raw:
        table = whole.raw[name].query("valuation != 'pay of motifair, batches'")
        first, second = sorted_rows(table), sorted_rows(result.raw[name])
        pd.testing.assert_frame_equal(first, second, rtol=2e-3, check_dtype=False)
    # A method that is given measures the same.
    with monkeypatch.context() as patched:
        patched.setattr(cell, "ROUNDS", 10)
        patched.setattr(against, "ROUNDS", 10)
        given = against_truth(["motifair"], folder, scenarios=["inverted"], splits=2, threads=1)
    paid = result.raw["agents"].query("valuation == 'pay of motifair' and scenario == 'inverted'")
    again_paid = given.query("valuation == 'pay of motifair'")[paid.columns]
    pd.testing.assert_frame_equal(sorted_rows(again_paid), sorted_rows(paid))
    assert set(given["valuation"]) == set(whole.tables["summary"]["valuation"]) - {
        "pay of motifair, batches"
    }
    # What was paid is stored: a second call trains nothing, and would stop.
    stopped = replace(again, stop=lambda: True)
    pd.testing.assert_frame_equal(study.run(stopped).raw["splits"], result.raw["splits"])
    wrong = folder / "utilities.csv"
    table = pd.read_csv(wrong)
    table["utility"] *= np.where(table["coalition"] == 0, 1.01, 1)
    table.to_csv(wrong, index=False)
    for settings in (again, replace(again, out=tmp_path / "new")):
        with pytest.raises(MotifairError, match=r"split 0 in .* is of other graphs"):
            study.run(settings)
    assert not (tmp_path / "new").exists()


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    """Results of a study of three agents on one split of one scenario."""
    folder = tmp_path / "truth"
    folder.mkdir()
    about = {"dataset": "planted", "scenario": "sizes", "split": 0}
    game_ = {"coalition": range(8), "utility": -0.7, "utility_again": -0.7, "rounds": 10}
    pd.DataFrame({**about, **game_}).to_csv(folder / "utilities.csv", index=False)
    valued = pd.DataFrame({**about, "valuation": ["size"]})
    valued.assign(rank=0.5).to_csv(folder / "splits.csv", index=False)
    valued.assign(role="", agent=0, share=1.0).to_csv(folder / "agents.csv", index=False)
    return folder


@pytest.mark.parametrize(
    ("damage", "changed", "sentence"),
    [
        (
            "splits.csv",
            {},
            "has no splits.csv; name a folder with results of `motifair paper values`",
        ),
        ("rounds", {}, "does not say after how many rounds; make it anew"),
        (
            "",
            {"splits": 2},
            "has no truth of planted, sizes, split 1; name other datasets or scenarios",
        ),
        ("", {"splits": 1, "rounds": 9}, "planted, sizes, split 0 in .* is of 10 rounds, not 9"),
    ],
)
def test_truth_of_something_else_is_refused_before_anything_is_trained(
    small: Settings,
    truth: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: str,
    changed: dict[str, int],
    sentence: str,
) -> None:
    monkeypatch.setattr(study, "SCENARIOS", ("sizes",))
    if damage == "rounds":
        table = pd.read_csv(truth / "utilities.csv")
        table.drop(columns=damage).to_csv(truth / "utilities.csv", index=False)
    elif damage:
        (truth / damage).unlink()
    out = small.out / "out"
    with pytest.raises(MotifairError, match=sentence):
        study.run(replace(small, out=out, truth=truth, **changed))
    assert not out.exists()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"rounds": 3}, "with rounds as it is there; leave rounds out"),
        ({"batch_size": 3}, "with batch_size as it is there"),
        ({"datasets": "planted, MUTAG"}, "has no truth of MUTAG; it has planted"),
        ({"methods": []}, "Name at least one method"),
        ({"splits": 0}, "at least one of the splits"),
        ({"scenarios": ["twins"]}, "has no truth of planted, twins, split 0"),
        ({"truth": "nowhere"}, "nowhere has no utilities.csv"),
        ({"methods": "motifair,fedavgg"}, "Did you mean fedavg"),
        ({"beta": 3.0}, "is of 10 rounds, not 100"),
    ],
)
def test_methods_are_compared_with_truth_that_is_there(
    truth: Path, asked: dict[str, object], sentence: str
) -> None:
    with pytest.raises(MotifairError, match=sentence):
        against_truth(**{"methods": ["motifair"], "truth": truth, **asked})
