"""The frame of a study: what is written, and what is not made twice."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from motifair.errors import MotifairError
from motifair.federation.loop import Stopped
from motifair.studies import ablation, sweep
from motifair.studies.registry import MODULES, choose_studies, load_study
from motifair.studies.study import Settings, StudyResult, runs_folder


def small(out: Path, data_dir: Path, **changed: object) -> Settings:
    settings: dict[str, object] = {
        "out": out,
        "splits": 2,
        "rounds": 3,
        "datasets": ("MUTAG",),
        "device": "cpu",
        "threads": 1,
        "data_dir": data_dir,
        "options": {"agents": 4, "hidden": 8, "learning_rate": 0.02, "test_fraction": 0.3},
    }
    return Settings(**{**settings, **changed})  # type: ignore[arg-type]


def drawn() -> Figure:
    figure = Figure()
    figure.subplots().plot([0, 1], [0, 1])
    return figure


def times(folder: Path) -> dict[str, int]:
    """When each training and each result was written."""
    kept = (".safetensors", "summary.json", "history.csv", "agents.csv")
    return {
        str(p.relative_to(folder)): p.stat().st_mtime_ns
        for p in folder.rglob("*")
        if p.is_file() and p.name.endswith(kept)
    }


def test_the_same_finding_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    table = pd.DataFrame({"method": ["a"], "mean": [0.1]})
    made = [
        StudyResult("T", {"t": table}, {"f": drawn()}, ["A note."], {"s": table}).write(
            tmp_path / name
        )
        for name in ("first", "second")
    ]
    assert [p.name for p in made[0]] == ["t.csv", "f.png", "f.svg", "s.csv", "README.md"]
    for one, other in zip(*made, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    text = (tmp_path / "first" / "README.md").read_text()
    assert text.startswith("# T\n\nA note.\n\n## t\n")
    assert "![f](f.png)" in text
    assert "[s.csv](s.csv)" in text
    assert "## s" not in text


def test_a_user_may_ask_for_fewer_splits_but_not_for_other_seeds(
    tmp_path: Path, data_dir: Path
) -> None:
    plan = small(tmp_path, data_dir, splits=None).plan("MUTAG", seed=7, splits=5)
    assert (plan.config.seed, plan.config.splits) == (7, 5)
    fewer = small(tmp_path, data_dir).plan("MUTAG", seed=7, splits=5)
    assert (fewer.config.seed, fewer.config.splits) == (7, 2)
    assert runs_folder(fewer) == "MUTAG-seed7-2x3"
    damaged = small(tmp_path, data_dir).plan("MUTAG", seed=7, splits=5, perturbation="tiers")
    assert runs_folder(damaged) == "MUTAG-tiers-seed7-2x3"
    scenario = small(tmp_path, data_dir).plan("MUTAG", seed=7, splits=5, scenario="rewired")
    assert runs_folder(scenario) == "MUTAG-rewired-seed7-2x3"


def test_a_stopped_study_goes_on_to_the_same_tables_and_trains_nothing_twice(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablation, "METHODS", ("motifair", "motifair-diversity"))
    left = ablation.run(small(tmp_path / "left", data_dir)).tables["ablation"]
    rounds_left = [5]

    def stop() -> bool:
        rounds_left[0] -= 1
        return rounds_left[0] < 0

    broken = tmp_path / "broken"
    with pytest.raises(Stopped):
        ablation.run(small(broken, data_dir, stop=stop))
    begun = times(broken)
    assert begun
    again = ablation.run(small(broken, data_dir)).tables["ablation"]
    pd.testing.assert_frame_equal(again, left)
    ended = times(broken)
    assert len(ended) > len(begun)
    pd.testing.assert_frame_equal(ablation.run(small(broken, data_dir)).tables["ablation"], left)
    assert times(broken) == ended


def test_studies_share_the_plain_run_and_the_trainings_alone(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablation, "METHODS", ("motifair", "motifair-diversity"))
    monkeypatch.setattr(sweep, "SWEEPS", {"prototype_weight": (0.0, 0.1)})
    settings = small(tmp_path, data_dir)
    ablation.run(settings)
    before = times(tmp_path)
    sweep.run(settings)
    after = times(tmp_path)
    assert {k: after[k] for k in before} == before
    new = {Path(k).parts[2] for k in after.keys() - before.keys()}
    assert new == {"motifair-prototype_weight=0"}


def test_every_study_can_be_loaded_and_answers_to_its_name() -> None:
    for name in choose_studies("all"):
        study = load_study(name)
        assert study.name == name
        assert study.summary
    assert set(MODULES) == {
        "table2", "perturbed", "tradeoff", "payoff", "ablation", "lambda", "scale",
        "contribution", "datasets", "claims", "manipulation", "values", "axioms",
        "inversion", "influence", "pooled", "members",
    }  # fmt: skip


def test_a_study_whose_package_is_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULES, "claims", "motifair.studies.nowhere")
    with pytest.raises(MotifairError, match=r"claims needs motifair\.studies\.nowhere"):
        load_study("claims")
