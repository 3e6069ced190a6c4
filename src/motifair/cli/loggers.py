"""`--log`: create the loggers of a run by name."""

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
    names: Sequence[str], out: Path, notify: Callable[[str], None], run_name: str | None = None
) -> list[Logger]:
    """Return the loggers in `names`, and those that an interrupted run in `out` had.

    `notify` is called with the error of a logger that was not asked for, and by loggers that fail.
    `run_name` is the name of the run in MLflow; default its method and dataset.
    """
    for name in names:
        if name not in KINDS:
            raise MotifairError(f"There is no logger '{name}'. {nearest(name, KINDS)}")
    from motifair.report.tracking.logger import remembered

    loggers = [_make(name, out, notify, run_name) for name in dict.fromkeys(names)]
    for name in remembered(out):
        if name not in names:
            try:
                loggers.append(_make(name, out, notify, run_name))
            except MotifairError as error:  # not asked for now: the run continues without
                notify(str(error))
    return loggers


def _make(name: str, out: Path, notify: Callable[[str], None], run_name: str | None) -> Logger:
    if name == "tensorboard":
        from motifair.report.tracking.tensorboard import TensorBoardLogger

        return TensorBoardLogger(out / "tensorboard", tell=notify)
    from motifair.report.tracking.mlflow import MLflowLogger

    place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(out / 'mlflow.db').absolute()}"
    return MLflowLogger(place, run_name=run_name, tell=notify)
