"""Log a run to MLflow: one MLflow run for each split."""

from __future__ import annotations

import logging
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from motifair.errors import MotifairError
from motifair.files import write_atomic
from motifair.report.tracking.logger import MEMORY, Logger, Numbers, warn

PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
ROUND = "round"  # the last number of each round: a round that has it was logged completely


class MLflowLogger(Logger):
    """Log to a tracking server or database: rounds as metrics, options as params.

    Without `tracking_uri`, to the one that `MLFLOW_TRACKING_URI` names. MLflow runs are named by
    `run_name` (by default method and dataset) and the number of the split.
    """

    kind, title = "mlflow", "MLflow"

    def __init__(
        self,
        tracking_uri: str | None = None,
        experiment: str = "motifair",
        run_name: str | None = None,
        *,
        tell: Callable[[str], None] = warn,
    ) -> None:
        super().__init__(tell)
        # MLflow sends usage data to its developers; only a user can agree to that.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        self.uri, self.experiment, self.run_name = tracking_uri, experiment, run_name
        self.client: Any = None
        self.run: str | None = None
        self.unsure = True
        if not (tracking_uri or "").startswith(
            "sqlite:"
        ):  # the folder of its file may not exist yet
            self._connect()

    def begin(self) -> int:
        """Find or make the MLflow run; return the last round that it has."""
        self._connect()
        with _settings():
            if self.run is None:
                self.run = self._find() or self._make()
            if self._status() != "FINISHED":
                self.client.update_run(self.run, status="RUNNING")
                self._log_params()
            steps = [m.step for m in self.client.get_metric_history(self.run, ROUND)]
        self.unsure = True
        return max(steps, default=0)

    def write(self, rounds: Mapping[int, Numbers]) -> None:
        """Add rounds in one call, which MLflow splits into batches of a thousand numbers."""
        metrics = [
            metric
            for step, numbers in rounds.items()
            for metric in _metrics(step, {**numbers, ROUND: step})
        ]
        with _settings():
            # A call that failed between two batches has logged the first of these numbers.
            logged = bisect_left(metrics, True, key=self._is_missing) if self.unsure else 0
            self.client.log_batch(self.run, metrics=metrics[logged:])
        self.unsure = False

    def finish(self, rounds: int, metrics: Numbers) -> None:
        """Add the metrics that are missing, and mark the run as finished."""
        with _settings():
            if self._status() == "FINISHED":
                return
            logged = self.client.get_run(self.run).data.metrics
            missing = {name: value for name, value in metrics.items() if name not in logged}
            self.client.log_batch(self.run, metrics=_metrics(rounds, missing))
            self.client.set_terminated(self.run, "FINISHED")

    def stop(self) -> None:
        """Mark the run as interrupted."""
        with _settings():
            self.client.set_terminated(self.run, "KILLED")

    def _connect(self) -> None:
        if self.client is not None:
            return
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        try:
            with _settings():
                _make_database(self.uri or "")
                self.client = MlflowClient(self.uri)
        except MlflowException as error:
            raise MotifairError(
                f"MLflow cannot be used ({str(error).strip().splitlines()[0][:200]}); check the "
                "tracking URI."
            ) from error

    def _find(self) -> str | None:
        """Return the MLflow run of an earlier process."""
        from mlflow.exceptions import MlflowException

        known = self.recall()
        if known is None:
            return None
        try:
            self.client.get_run(known)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise MotifairError(
                f"there is no run {known} any more: set MLFLOW_TRACKING_URI as it was, or delete "
                f"{MEMORY} to log to a new one"
            ) from error
        return known

    def _make(self) -> str:
        name = self.run_name
        if self.config is not None:
            name = name or f"{self.config.method} on {self.config.dataset}"
            name = f"{name}, split {self.number}"
        known = self.client.get_experiment_by_name(self.experiment)
        number = known.experiment_id if known else self.client.create_experiment(self.experiment)
        run: str = self.client.create_run(number, run_name=name).info.run_id
        self.remember(run)
        return run

    def _log_params(self) -> None:
        from mlflow.entities import Param

        params = [Param(name, str(value)) for name, value in self.settings().items()]
        self.client.log_batch(self.run, params=params)

    def _status(self) -> str:
        status: str = self.client.get_run(self.run).info.status
        return status

    def _is_missing(self, metric: Any) -> bool:
        history = self.client.get_metric_history(self.run, metric.key)
        return all(m.step != metric.step for m in history)


def _make_database(uri: str) -> None:
    """Make a new SQLite database atomically.

    MLflow takes seconds to make its tables, in small steps; a kill in between would leave a file
    that MLflow cannot open.
    """
    from mlflow import MlflowClient

    def make(temporary: Path) -> None:
        MlflowClient(f"sqlite:///{temporary}")

    path = Path(uri.removeprefix("sqlite:///").partition("?")[0])
    if uri.startswith("sqlite:///") and path.parent.is_dir() and not path.exists():
        write_atomic(path, make)


def _metrics(step: int, numbers: Numbers) -> list[Any]:
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    return [Metric(name, value, now, step) for name, value in numbers.items()]


@contextmanager
def _settings() -> Iterator[None]:
    """Set MLflow's log level to warnings, and let it give up a server after seconds.

    By default it logs every table that it makes, and retries for minutes while training waits.
    """
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    given = {name: value for name, value in PATIENCE.items() if name not in os.environ}
    try:
        os.environ.update(given)
        for logger in loggers:
            logger.setLevel(logging.WARNING)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        for name in given:
            os.environ.pop(name, None)
