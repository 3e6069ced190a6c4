"""Log a run to TensorBoard: one folder of event files for each split."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from motifair.report.tracking.logger import Logger, Numbers, warn


class TensorBoardLogger(Logger):
    """Log to `folder`: rounds as scalars, options as hyperparameters, a subfolder for each split.

    A process that continues a run logs it again from the first round, with a `purge_step` that
    hides what was logged before: no round is there twice, and none is missing.
    """

    kind, title = "tensorboard", "TensorBoard"

    def __init__(self, folder: str | Path, *, tell: Callable[[str], None] = warn) -> None:
        super().__init__(tell)
        self.folder = Path(folder)
        self.place: Path | None = None
        self.writer: Any

    def begin(self) -> int:
        """Start a new event file in the split's folder."""
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from torch.utils.tensorboard import SummaryWriter

        place = self.place = self.place or self._find()
        # TensorBoard reads files in the order of their names, which begin with the second.
        times = [int(f.name.split(".")[3]) for f in place.glob("events.out.tfevents.*")]
        time.sleep(min(1, max(0, max(times, default=0) + 1 - time.time())))
        self.writer = SummaryWriter(str(place), purge_step=1)
        if self.config is not None:
            self.writer.file_writer.add_summary(hparams_pb(self.settings()))
        return 0

    def write(self, rounds: Mapping[int, Numbers]) -> None:
        """Add the numbers of each round as one record: `add_scalar` takes 0.1 ms for each."""
        for step, numbers in rounds.items():
            self.writer.file_writer.add_summary(_scalars(numbers), step)
        self.writer.flush()

    def finish(self, rounds: int, metrics: Numbers) -> None:
        """Add the metrics in a record of their own, and close the file."""
        self.write({rounds: metrics})
        self.stop()

    def stop(self) -> None:
        """Close the file."""
        self.writer.close()

    def _find(self) -> Path:
        """Return the folder where this split was logged before, or a new one."""
        if self.config is None:
            return self.folder
        if (known := self.recall()) is not None and self.out is not None:
            return self.out / known  # an absolute path stays as it is
        name = f"{self.config.method}-split-{self.number:03d}"
        place, again = self.folder / name, 1
        while place.exists():  # of another run: TensorBoard would draw both as one
            again += 1
            place = self.folder / f"{name}-{again}"
        inside = self.out is not None and place.is_relative_to(self.out)
        self.remember(str(place.relative_to(self.out) if inside and self.out else place.absolute()))
        return place


def _scalars(numbers: Numbers) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=k, simple_value=v) for k, v in numbers.items()])
