"""`--log`: loggers of a run by name, and where they write."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from motifair.errors import MotifairError, nearest

if TYPE_CHECKING:
    from motifair.report.tracking.logger import Logger

KINDS = ("tensorboard", "mlflow")


def make_loggers(
    names: Sequence[str], out: Path, tell: Callable[[str], None], run_name: str | None = None
) -> list[Logger]:
    """Return the loggers that are asked for, and those an interrupted run in `out` had.

    `run_name` is the run's in MLflow; without it runs are named by method and dataset.
    """
    for name in names:
        if name not in KINDS:
            raise MotifairError(f"There is no logger '{name}'. {nearest(name, KINDS)}")
    from motifair.report.tracking.logger import remembered

    found = [_make(name, out, tell, run_name) for name in dict.fromkeys(names)]
    for name in remembered(out):
        if name not in names:
            try:
                found.append(_make(name, out, tell, run_name))
            except MotifairError as error:  # it was not asked for now: the run goes on without
                tell(str(error))
    return found


def _make(name: str, out: Path, tell: Callable[[str], None], run_name: str | None) -> Logger:
    if name == "tensorboard":
        from motifair.report.tracking.tensorboard import TensorBoardLogger

        return TensorBoardLogger(out / "tensorboard", tell=tell)
    from motifair.report.tracking.mlflow import MLflowLogger

    place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(out / 'mlflow.db').absolute()}"
    return MLflowLogger(place, run_name=run_name, tell=tell)
