"""Extended runs: equal to runs of so many rounds from the start, to the last bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import motifair
from motifair.errors import MotifairError
from motifair.experiments import extend as extend_module
from motifair.experiments.compare import execute_all
from motifair.experiments.comparison import load_comparison
from motifair.experiments.extend import extend, extend_comparison
from motifair.experiments.plan import write_config
from motifair.experiments.run import execute

QUICK: dict[str, Any] = {"agents": 3, "hidden": 8, "layers": 2, "threads": 1, "device": "cpu"}


def assert_same_files(ours: Path, theirs: Path) -> None:
    """Compare everything that two runs wrote, except when, how long and where."""
    for name in ("agents.csv", "history.csv"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    summaries = [json.loads((run / "summary.json").read_text()) for run in (ours, theirs)]
    for summary in summaries:
        del summary["seconds"], summary["finished"]
    assert summaries[0] == summaries[1]
    options = [json.loads((run / "config.json").read_text()) for run in (ours, theirs)]
    assert options[0] == options[1]
    files = sorted(path.name for path in (theirs / "checkpoint").iterdir())
    assert sorted(path.name for path in (ours / "checkpoint").iterdir()) == files
    for name in files:
        tensors = [load_file(run / "checkpoint" / name) for run in (ours, theirs)]
        assert tensors[0].keys() == tensors[1].keys()
        for key, tensor in tensors[1].items():
            assert np.array_equal(tensors[0][key], tensor, equal_nan=tensor.dtype.kind == "f"), key


@pytest.mark.parametrize(
    "options",
    [
        {"eval_every": 3, "splits": 2, "trial_rounds": 2},
        {"method": "fedavg", "eval_every": 2, "contribution": True},
        {"method": "gcfl+", "eval_every": 4, "incentives": True},
    ],
    ids=["motifair", "contribution", "withheld"],
)
def test_an_extended_run_equals_one_from_the_start(tmp_path: Path, options: dict[str, Any]) -> None:
    motifair.run(out=tmp_path / "run", rounds=4, **options, **QUICK)
    motifair.run(out=tmp_path / "whole", rounds=7, **options, **QUICK)
    execute(extend(tmp_path / "run", 7), tmp_path / "run")
    assert_same_files(tmp_path / "run", tmp_path / "whole")


def test_an_extension_that_is_interrupted_leaves_a_run_that_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    motifair.run(out=run, rounds=2, trial_rounds=1, **QUICK)
    before = (run / "agents.csv").read_bytes()

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(extend_module, "write_config", killed)
        with pytest.raises(KeyboardInterrupt):
            extend(run, 3)
    motifair.run(out=run, rounds=2, trial_rounds=1, **QUICK)  # unfinished, of two rounds
    assert (run / "agents.csv").read_bytes() == before
    extend(run, 3)  # and no further: unfinished, of three
    with pytest.raises(MotifairError, match="is not finished"):
        motifair.load_result(run)
    motifair.run(out=run, rounds=3, trial_rounds=1, **QUICK)
    motifair.run(out=whole, rounds=3, trial_rounds=1, **QUICK)
    assert_same_files(run, whole)


def test_what_cannot_be_extended_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    motifair.run(out=run, rounds=2, **QUICK)
    motifair.run(rounds=2, method="fedavg", **QUICK).save(
        copy
    )  # a result in memory has its models alone
    motifair.compare(out=tmp_path / "two", methods="fedavg,self-train", rounds=2, splits=1, **QUICK)
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    for folder, rounds, reason in (
        (run, 3, "after 2 rounds alone.*judged after 3; run again with 3 rounds"),
        (run, 1, "has 2 rounds; --rounds takes more, not 1"),
        (copy, 3, "without the optimiser's moments.*run again with 3 rounds"),
        (tmp_path / "two" / "fedavg", 3, "part of the comparison or sweep"),
        (tmp_path / "nothing", 3, "holds no run"),
    ):
        with pytest.raises(MotifairError, match=reason):
            extend(folder, rounds)
    with pytest.raises(MotifairError, match=r"or extend it: motifair resume .* --rounds 3"):
        motifair.run(out=run, rounds=3, **QUICK)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == kept


def test_an_extended_comparison_equals_one_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, whole = tmp_path / "ours", tmp_path / "whole"
    options = {"methods": "fedavg,motifair", "splits": 2, "trial_rounds": 1, **QUICK}
    motifair.compare(out=ours, rounds=2, **options)
    motifair.compare(out=whole, rounds=4, **options)
    written: list[Path] = []

    def killed(out: Path, *given: Any) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(out)
        write_config(out, *given)

    with monkeypatch.context() as patched:
        patched.setattr(extend_module, "write_config", killed)
        with pytest.raises(KeyboardInterrupt):
            extend_comparison(ours, 4)
    with pytest.raises(MotifairError, match=rf"continue with: motifair resume {ours}$"):
        load_comparison(ours)
    plans, baseline = extend_comparison(ours)  # the rounds that were wanted
    execute_all(plans, ours, baseline=baseline)
    for name in ("fedavg", "motifair"):
        assert_same_files(ours / name, whole / name)
    for name in ("comparison.csv", "comparison.md", "measures.csv", "comparison.json"):
        assert (ours / name).read_text() == (whole / name).read_text(), name
    with pytest.raises(MotifairError, match="extend all of them: motifair resume"):
        extend(ours / "fedavg", 5)
    with pytest.raises(MotifairError, match="takes more, not 3"):
        extend_comparison(ours, 3)
