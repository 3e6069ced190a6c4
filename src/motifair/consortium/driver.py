"""The server's driver, called by the engine: one segment of a run's rounds."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch

from motifair.consortium.coordinator import Coordinator
from motifair.consortium.keys import signer
from motifair.consortium.operator_folder import OperatorFolder
from motifair.consortium.privacy import guarantee
from motifair.consortium.rounds import RunDriver, server_model
from motifair.consortium.run_state import RunCheckpoint
from motifair.consortium.store.lease import LedgerUnavailable
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.transports import Transport
from motifair.errors import MotifairError
from motifair.export.model import save_model
from motifair.files import write_atomic
from motifair.statements.entry import Entry
from motifair.statements.signatures import public_text

DRIVER = "motifair.consortium.driver:drive"


def drive(transport: Transport, where: dict[str, Any]) -> None:
    """Run the rounds of one segment; write to segment.json how it ended."""
    torch.set_num_threads(1)
    operator, segment = OperatorFolder(Path(where["office"])), where["segment"]
    folder = operator.run(segment["run"])
    folder.mkdir(parents=True, exist_ok=True)
    note = {"segment": segment["number"], "finished": False, "problem": "", "passing": False}
    try:
        note["finished"] = _drive(transport, operator, segment)
    except MotifairError as error:
        note["problem"], note["passing"] = str(error), isinstance(error, LedgerUnavailable)
    write_atomic(folder / "segment.json", json.dumps(note))


def _drive(transport: Transport, operator: OperatorFolder, segment: dict[str, Any]) -> bool:
    run, key = segment["run"], operator.signing_key()
    coordinator = Coordinator(run, operator.terms, operator.keys(), public_text(key))
    folder = operator.run(run)

    def keep(checkpoint: RunCheckpoint) -> None:
        _export(coordinator, checkpoint, folder / "model")

    with open_ledger(operator.ledger, write=True) as ledger:
        times = RoundTimes(folder / "times.txt")
        run_rounds = RunDriver(transport, coordinator, ledger, folder, times, keep, signer(key))
        return run_rounds(rounds=segment["rounds"])


def _export(coordinator: Coordinator, checkpoint: RunCheckpoint, folder: Path) -> None:
    terms = coordinator.terms
    card = {
        "method": terms.config.method,
        "agent": "server",
        "rounds": checkpoint.round,
        "ledger_head": checkpoint.entry.hash,
        "classes": list(terms.schema.classes),
        "metric": terms.config.metric,
        "privacy": {
            **guarantee(terms.privacy, terms.config.rounds),
            "covers": "what was sent to the server, and so this model",
        },
    }
    weights = server_model(coordinator, checkpoint)
    save_model(folder, weights, coordinator.model, terms.schema.encoding(), card)


class RoundTimes:
    """Writes a line with round and time for each entry."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, entry: Entry) -> None:
        """Record the time of an entry."""
        with self.path.open("a") as file:
            file.write(f"{entry.round} {time.time():.3f}\n")
