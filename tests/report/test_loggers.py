"""Loggers against the real TensorBoard and MLflow: what is read back is the history, once."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

import motifair
from motifair.cli import main
from motifair.cli.loggers import make_loggers
from motifair.errors import MotifairError
from motifair.experiments.plan import make_plan
from motifair.experiments.result import Result
from motifair.experiments.run import execute
from motifair.experiments.split_result import SplitResult
from motifair.federation.callbacks import Callback, Pace
from motifair.federation.history import History
from motifair.federation.loop import Stopped
from motifair.report.tracking.logger import Logger, labels, numbers, remembered
from motifair.report.tracking.mlflow import MLflowLogger
from motifair.report.tracking.tensorboard import TensorBoardLogger

OPTIONS = {"rounds": 6, "agents": 3, "hidden": 16, "eval_every": 2}
Points = dict[str, list[tuple[int, float]]]


@pytest.fixture(autouse=True)
def own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow takes seconds to make its tables: once is enough."""
    path = tmp_path_factory.mktemp("tables") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def database(empty_database: Path, tmp_path: Path) -> str:
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


def go(
    out: Path | None, *callbacks: Callback, stop_after: int | None = None, **options: Any
) -> Any:
    """Run, or stop when a method's round has been heard of."""
    plan = make_plan("planted", OPTIONS | options, device="cpu", threads=1)
    heard = Heard()
    return execute(
        plan,
        out,
        callbacks=[heard, *callbacks],
        stop=lambda: stop_after is not None and heard.rounds + 1 >= stop_after,
    )


class Heard(Callback):
    """Knows which round was the last that callbacks heard of."""

    rounds = -99

    def on_round(self, state: Any, history: History) -> None:
        self.rounds = state.round


def tensorboard(folder: Path) -> Points:
    """Return every scalar as TensorBoard reads it."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {
        tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]
    }


def mlflow_runs(uri: str) -> list[Any]:
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("motifair")
    found = client.search_runs([experiment.experiment_id]) if experiment else []
    return sorted(found, key=lambda run: str(run.info.run_name))


def mlflow_points(uri: str, run: Any) -> Points:
    client = MlflowClient(uri)
    histories = {key: client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
    return {key: [(m.step, m.value) for m in found] for key, found in histories.items()}


def expected(split: SplitResult) -> Points:
    """Say what should be logged, straight from the columns of the history."""
    columns, found = split.history.columns, Points()
    rounds = range(len(split.history.global_accuracy))
    for r in rounds:
        found.setdefault("loss", []).append((r + 1, float(np.mean(columns["loss"][r]))))
        if not math.isnan(columns["accuracy"][r, 0]):
            mean = float(np.mean(columns["accuracy"][r]))
            found.setdefault("accuracy", []).append((r + 1, mean))
        if not math.isnan(split.history.global_accuracy[r]):
            point = (r + 1, float(split.history.global_accuracy[r]))
            found.setdefault("global_accuracy", []).append(point)
        for k, name in enumerate(split.names):
            cumulative = float(columns["payoff"][: r + 1, k].sum())
            kept = float(columns["kept"][r, k] / columns["kept"].max())
            for key, value in {
                "value": float(columns["value"][r, k]),
                "cumulative_payoff": cumulative,
                "compensation": float(columns["compensation"][r, k]),
                "kept_share": kept,
            }.items():
                found.setdefault(f"{key}/{name}", []).append((r + 1, value))
    for metric, value in split.metrics().items():
        if math.isfinite(value):
            found[f"final/{metric}"] = [(len(rounds), value)]
    return found


def assert_same(found: Points, wanted: Points) -> None:
    """Compare steps exactly, values within single precision."""
    assert set(found) == set(wanted)
    for tag, points in wanted.items():
        assert [step for step, _ in found[tag]] == [step for step, _ in points], tag
        values = [value for _, value in found[tag]]
        assert values == pytest.approx([v for _, v in points], rel=1e-6, abs=1e-9), tag


def assert_logged(result: Result, folder: Path, uri: str) -> None:
    """Compare both stores with the result: a run for each split, each round once."""
    folders = sorted(folder.iterdir())
    assert len(folders) == len(result.splits)
    runs = mlflow_runs(uri)
    assert len(runs) == len(result.splits)
    for k, split in enumerate(result.splits):
        wanted = expected(split)
        assert_same(tensorboard(folders[k]), wanted)
        logged = mlflow_points(uri, runs[k])
        assert logged.pop("round") == [(r, r) for r in range(1, result.config.rounds + 1)]
        assert_same(logged, wanted)
        assert runs[k].info.status == "FINISHED"


def test_what_is_read_back_is_the_history_of_the_method_in_each_split(
    tmp_path: Path, database: str
) -> None:
    loggers = [TensorBoardLogger(tmp_path / "tb"), MLflowLogger(database, run_name="mine")]
    result = motifair.run(splits=2, threads=1, device="cpu", callbacks=loggers, **OPTIONS)
    assert_logged(result, tmp_path / "tb", database)
    assert [p.name for p in sorted((tmp_path / "tb").iterdir())] == [
        "motifair-split-000",
        "motifair-split-001",
    ]
    assert [run.info.run_name for run in mlflow_runs(database)] == [
        "mine, split 0",
        "mine, split 1",
    ]


def test_splits_side_by_side_are_logged_each_by_itself(tmp_path: Path, database: str) -> None:
    """On a GPU all splits are one stack; a stack on a CPU is heard of in the same way."""
    plan = make_plan("planted", OPTIONS | {"splits": 2}, device="cpu", threads=1)
    loggers = [TensorBoardLogger(tmp_path / "tb"), MLflowLogger(database)]
    result = execute(replace(plan, memory=2**40), callbacks=loggers)
    assert result.environment["layout"]["jobs_in_a_stack"] == 2 * 2  # alone and alone again
    assert result.splits[0].history.side_by_side == 2
    assert_logged(result, tmp_path / "tb", database)


def test_options_are_hyperparameters_and_params(tmp_path: Path, database: str) -> None:
    result = go(None, TensorBoardLogger(tmp_path / "tb"), MLflowLogger(database), beta="inf")
    options = result.config.to_json() | {"split": 0}
    (run,) = mlflow_runs(database)
    assert run.data.params == {name: str(value) for name, value in options.items()}
    assert run.info.run_name == "motifair on planted, split 0"
    events = EventAccumulator(str(tmp_path / "tb" / "motifair-split-000")).Reload()
    raw = events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    stored = HParamsPluginData.FromString(raw).session_start_info.hparams
    assert set(stored) == set(options)
    assert stored["hidden"].number_value == 16
    assert stored["beta"].string_value == "inf"


def test_training_alone_is_logged_where_it_is_the_method(tmp_path: Path, database: str) -> None:
    loggers = (TensorBoardLogger(tmp_path / "tb"), MLflowLogger(database))
    result = go(None, *loggers, method="self-train")
    (folder,) = (tmp_path / "tb").iterdir()
    found = tensorboard(folder)
    losses = result.splits[0].history.columns["loss"].mean(axis=1)
    assert [v for _, v in found["loss"]] == pytest.approx(list(losses), rel=1e-6)
    assert "global_accuracy" not in found
    assert len(mlflow_runs(database)) == 1


def test_an_interrupted_run_goes_on_in_the_same_place(tmp_path: Path, database: str) -> None:
    out, tb = tmp_path / "run", tmp_path / "run" / "tensorboard"
    for stop_after in (2, 4):
        with pytest.raises(Stopped):
            go(out, TensorBoardLogger(tb), MLflowLogger(database), stop_after=stop_after)
        assert [run.info.status for run in mlflow_runs(database)] == ["KILLED"]
        (folder,) = tb.iterdir()
        assert [step for step, _ in tensorboard(folder)["loss"]] == list(range(1, stop_after + 1))
    result = go(out, TensorBoardLogger(tb), MLflowLogger(database))
    assert_logged(result, tb, database)


@pytest.mark.parametrize("ahead", [True, False], ids=["log ahead", "log behind"])
def test_after_a_kill_log_and_checkpoint_may_differ_and_no_round_is_lost_or_doubled(
    ahead: bool, tmp_path: Path, database: str
) -> None:
    out, tb = tmp_path / "run", tmp_path / "run" / "tensorboard"
    state = out / "checkpoint" / "split-000-method.safetensors"
    both = lambda: (TensorBoardLogger(tb), MLflowLogger(database))  # noqa: E731
    with pytest.raises(Stopped):
        go(out, *both(), stop_after=2)
    earlier = state.read_bytes()
    with pytest.raises(Stopped):
        go(out, *(both() if ahead else ()), stop_after=5)
    if ahead:  # five rounds are logged, two are saved
        state.write_bytes(earlier)
        (file, *_) = sorted(tb.glob("*/*"), reverse=True)
        file.write_bytes(file.read_bytes()[:-7])  # and TensorBoard's last record was cut short
    result = go(out, *both())
    assert_logged(result, tb, database)


def test_a_run_that_is_killed_before_its_first_round_still_knows_its_loggers(
    tmp_path: Path, database: str
) -> None:
    out = tmp_path / "run"
    loggers = (TensorBoardLogger(out / "tensorboard"), MLflowLogger(database))
    plan = make_plan("planted", OPTIONS, device="cpu", threads=1)
    with pytest.raises(Stopped):
        execute(plan, out, callbacks=loggers, stop=lambda: True)  # while agents train alone
    assert not (out / "tensorboard").exists()
    assert set(remembered(out)) == {"tensorboard", "mlflow"}
    result = go(out, *make_loggers(["tensorboard"], out, print)[:1], MLflowLogger(database))
    assert_logged(result, out / "tensorboard", database)


def test_a_finished_run_is_logged_when_it_is_given_again_and_only_once(
    tmp_path: Path, database: str
) -> None:
    out, tb = tmp_path / "run", tmp_path / "tb"
    go(out)
    for _ in range(2):
        result = go(out, TensorBoardLogger(tb), MLflowLogger(database))
        assert_logged(result, tb, database)


def test_another_run_gets_another_place(tmp_path: Path, database: str) -> None:
    tb = TensorBoardLogger(tmp_path / "tb")
    logger = MLflowLogger(database)
    for _ in range(2):
        go(None, tb, logger)
    names = sorted(p.name for p in (tmp_path / "tb").iterdir())
    assert names == ["motifair-split-000", "motifair-split-000-2"]
    assert len(mlflow_runs(database)) == 2


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let loggers log every round, however long it takes."""
    monkeypatch.setattr(Pace, "due", lambda self, round: True)


@pytest.mark.usefixtures("eager")
def test_a_logger_that_fails_says_so_once_and_catches_up(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    loggers = (
        TensorBoardLogger(tmp_path / "tb", tell=said.append),
        MLflowLogger(database, tell=said.append),
    )
    for kind in (TensorBoardLogger, MLflowLogger):
        monkeypatch.setattr(kind, "write", fails_in(kind.write, {3, 4}))
    result = go(None, *loggers)
    assert len(said) == 2
    assert "TensorBoard failed (No room in round 3); the training goes on" in said[0]
    assert "MLflow failed" in said[1]
    assert_logged(result, tmp_path / "tb", database)


def fails_in(write: Callable[..., None], rounds: set[int]) -> Callable[..., None]:
    """Where one of these rounds is the last, write only those before it, and fail."""

    def attempt(self: Logger, found: dict[int, dict[str, float]]) -> None:
        last = max(found)
        write(self, {r: v for r, v in found.items() if last not in rounds or r < last})
        if last in rounds:
            raise OSError(f"No room in round {last}")

    return attempt


def test_a_store_that_cannot_be_used_at_all_costs_a_warning_not_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(RuntimeWarning, match="Logging to TensorBoard failed") as heard:
        result = go(None, TensorBoardLogger(tmp_path / "file"))
    assert len([w for w in heard if "Logging" in str(w.message)]) == 1
    assert len(result.history) == 18


def test_a_dead_server_is_given_up_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    result = go(None, MLflowLogger("http://127.0.0.1:9", tell=said.append))
    assert len(said) == 1
    assert "127.0.0.1" in said[0]
    assert len(said[0]) < 500
    assert len(result.history) == 18


def test_a_database_is_made_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with half of MLflow's tables could never be opened again."""
    path, said = tmp_path / "new.db", list[str]()
    tables = "mlflow.store.db.utils._upgrade_db"

    def broken(engine: Any) -> None:
        assert [p for p in tmp_path.iterdir() if p.name != "new.db"]  # it has begun, elsewhere
        raise RuntimeError("the lights went out")

    with monkeypatch.context() as dark:
        dark.setattr(tables, broken)
        go(None, MLflowLogger(f"sqlite:///{path}", tell=said.append), rounds=2)
    assert "the lights went out" in said[0]
    assert list(tmp_path.iterdir()) == []
    result = go(None, MLflowLogger(f"sqlite:///{path}"), rounds=2)
    (run,) = mlflow_runs(f"sqlite:///{path}")
    assert run.data.metrics["round"] == result.config.rounds


def test_numbers_go_to_mlflow_in_few_calls(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    log_batch = MlflowClient.log_batch

    def counted(self: Any, run: str, metrics: Any = (), **rest: Any) -> Any:
        calls.append(len(metrics))
        return log_batch(self, run, metrics=metrics, **rest)

    monkeypatch.setattr(MlflowClient, "log_batch", counted)
    monkeypatch.setattr(MlflowClient, "log_metric", None)
    result = go(None, MLflowLogger(database))
    logged = sum(len(points) for points in expected(result.splits[0]).values())
    assert sum(calls) == logged + result.config.rounds
    assert len(calls) <= result.config.rounds + 2


def test_a_round_too_large_for_a_batch_is_cut_and_not_doubled(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlflow.tracking._tracking_service.client.MAX_METRICS_PER_BATCH", 5)
    log_batch, calls = SqlAlchemyStore.log_batch, []

    def fails_once(self: Any, run_id: str, metrics: Any, params: Any, tags: Any) -> Any:
        calls.append(len(metrics))
        if len(calls) == 3:  # options, the first five numbers of round 1, the next
            raise OSError("the network is gone")
        return log_batch(self, run_id, metrics, params, tags)

    monkeypatch.setattr(SqlAlchemyStore, "log_batch", fails_once)
    result = go(None, MLflowLogger(database, tell=lambda words: None))
    assert len(calls) > 10
    assert max(calls) == 5
    (run,) = mlflow_runs(database)
    found = mlflow_points(database, run)
    del found["round"]
    assert_same(found, expected(result.splits[0]))


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow"])
def test_a_missing_package_is_one_sentence_with_the_fix(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motifair.extras.find_spec", lambda name: None)
    make = {"tensorboard": TensorBoardLogger, "mlflow": MLflowLogger}[kind]
    with pytest.raises(MotifairError, match=rf"pip install 'motifair\[{kind}\]'"):
        make(str(tmp_path))


def test_a_tracking_uri_that_mlflow_does_not_know_is_refused() -> None:
    with pytest.raises(MotifairError, match="check the tracking URI"):
        MLflowLogger("carrier-pigeon://roof")


def test_nothing_is_logged_of_what_was_not_measured() -> None:
    history = History(("a", "b"), 2)
    history.record(1, {"loss": np.array([1.0, np.inf]), "kept": np.zeros(2)})
    assert set(numbers(history, 1)) == set()
    history.record(2, {"loss": np.array([1.0, 2.0]), "kept": np.array([4.0, 1.0])})
    assert numbers(history, 2) == {"loss": 1.5, "kept_share/a": 1.0, "kept_share/b": 0.25}


def test_labels_are_distinct_and_harmless() -> None:
    names = ["../up", "/root", "Zürich é", "a:b", "a*b", ""]
    found = labels(names)
    assert len(set(found)) == len(names)
    assert found[2] == "Zürich é"
    assert not any("/" in label or label.startswith(".") for label in found)


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["motifair", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code if isinstance(stopped.value.code, int) else 0


WORDS = ["run", "--rounds", "4", "--agents", "3", "--set", "hidden=16", "--threads", "1", "--quiet"]


def test_the_command_logs_into_the_folder_and_resume_goes_on_unasked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    words = [*WORDS, "--out", str(out), "--log", "tensorboard", "--log", "mlflow"]
    assert call(monkeypatch, *words) == 0
    assert capsys.readouterr().err == ""
    uri = f"sqlite:///{out / 'mlflow.db'}"
    assert_logged(motifair.load_result(out), out / "tensorboard", uri)
    assert mlflow_runs(uri)[0].info.run_name == "run, split 0"
    # As if it had been killed before the method began: all is there to go on with.
    (out / "summary.json").unlink()
    shutil.rmtree(out / "tensorboard")
    assert call(monkeypatch, "resume", str(out), "--quiet") == 0
    assert_logged(motifair.load_result(out), out / "tensorboard", uri)


def test_the_command_logs_to_the_server_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", database)
    out = tmp_path / "run"
    assert call(monkeypatch, *WORDS, "--out", str(out), "--log", "mlflow") == 0
    assert len(mlflow_runs(database)) == 1
    assert not (out / "mlflow.db").exists()
    assert list(json.loads((out / "loggers.json").read_text())) == ["mlflow"]


def test_methods_are_compared_in_one_place_and_each_round_is_there_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database: str
) -> None:
    out = tmp_path / "compared"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", database)
    words = ["compare", "--methods", "fedavg,motifair", "--splits", "1", *WORDS[1:]]
    words += ["--out", str(out), "--log", "tensorboard", "--log", "mlflow"]
    for _ in range(2):  # a comparison that is given again logs nothing twice
        assert call(monkeypatch, *words) == 0
        runs = mlflow_runs(database)
        names = [run.info.run_name for run in runs]
        assert names == ["fedavg on planted, split 0", "motifair on planted, split 0"]
        for method, run in zip(("fedavg", "motifair"), runs, strict=True):
            wanted = expected(motifair.load_result(out / method).splits[0])
            assert_same(tensorboard(out / "tensorboard" / f"{method}-split-000"), wanted)
            logged = mlflow_points(database, run)
            logged.pop("round")
            assert_same(logged, wanted)


def test_an_unknown_logger_is_refused_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *WORDS, "--log", "tensorbord") == 2
    assert "Did you mean tensorboard?" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
