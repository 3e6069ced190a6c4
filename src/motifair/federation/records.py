"""Records of rounds on their way from a device into histories."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from motifair.federation.contract import check_round
from motifair.federation.history import History
from motifair.federation.server import Record
from motifair.federation.simulation import Simulation

SECONDS = 0.5  # a GPU computes this long before its records are fetched


class Records:
    """Buffers the records of rounds: fetching each from a GPU would make every round wait."""

    def __init__(self, simulation: Simulation, histories: Sequence[History]) -> None:
        self.method, self.histories = simulation.method, histories
        self.buffered = simulation.device.type != "cpu"
        self.pending: list[tuple[int, Record]] = []
        self.written = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time to write: always on a CPU, twice a second on a GPU."""
        return not self.buffered or time.monotonic() - self.written > SECONDS

    def add(self, round: int, record: Record) -> None:
        """Buffer the record of a round."""
        self.pending.append((round, record))

    def write(self) -> None:
        """Check what is pending, and write it into the histories."""
        for round, record in self.pending:
            values = torch.stack(list(record.values())).cpu().numpy()
            values = values.reshape(len(record), len(self.histories), -1)
            for f, history in enumerate(self.histories):
                row = dict(zip(record, values[:, f], strict=True))
                check_round(self.method, round, history.names, row)
                history.record(round, row)
        self.pending = []
        self.written = time.monotonic()
