"""A run in TensorBoard: a folder of event files for each split."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from motifair.report.loggers import FINAL, Logger, Numbers, warn


class TensorBoardLogger(Logger):
    """Logs to `folder`: rounds as scalars, options as hyperparameters; each split has a folder.

    A round is one record of an event file, so after a kill it is there as a whole or not at all.
    Files are written without TensorBoard's threads, which workers that are forked would not have.
    """

    kind, title = "tensorboard", "TensorBoard"

    def __init__(self, folder: str | Path, *, tell: Callable[[str], None] = warn) -> None:
        super().__init__(tell)
        self.folder = Path(folder)
        self.place: Path | None = None
        self.file, self.finished = self.folder, False

    def begin(self) -> int:
        """Find or make the split's folder, and start a new file in it."""
        place = self.place = self.place or self._find()
        place.mkdir(parents=True, exist_ok=True)
        logged, self.finished, empty = _read(place)
        # A file that a kill cut short cannot be added to: what follows would not be read.
        self.file = place / f"events.out.tfevents.{time.time_ns()}.motifair"
        self._add([_event(file_version="brain.Event:2")])
        if empty and self.config is not None:
            from tensorboard.plugins.hparams.summary_v2 import hparams_pb

            self._add([_event(summary=hparams_pb(self.settings()))])
        return logged

    def write(self, rounds: Mapping[int, Numbers]) -> None:
        """Add a record for each round."""
        self._add(_scalars(step, found) for step, found in rounds.items())

    def finish(self, rounds: int, metrics: Numbers) -> None:
        """Add the metrics in a record of their own, where there is none yet."""
        if not self.finished:
            self._add([_scalars(rounds, metrics)])
            self.finished = True

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

    def _add(self, events: Iterable[Any]) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        with self.file.open("ab") as opened:
            records = RecordWriter(opened)
            for event in events:
                records.write(event.SerializeToString())


def _event(**content: Any) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event

    return Event(wall_time=time.time(), **content)


def _scalars(step: int, found: Numbers) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary

    values = [Summary.Value(tag=tag, simple_value=value) for tag, value in found.items()]
    return _event(step=step, summary=Summary(value=values))


def _read(place: Path) -> tuple[int, bool, bool]:
    """Return the last round in a folder, whether the metrics are there, and whether nothing is."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    last, finished, empty = 0, False, True
    for file in sorted(place.glob("*tfevents*")):
        for event in EventFileLoader(str(file)).Load():
            tags = [value.tag for value in event.summary.value]
            empty = empty and not tags
            finished = finished or any(tag.startswith(FINAL) for tag in tags)
            last = max(last, event.step)
    return last, finished, empty
