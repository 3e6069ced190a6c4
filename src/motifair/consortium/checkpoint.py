"""Checkpoints of a deployed run on disk: the last three positions, each in a checked file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motifair.consortium.run_state import JoinedMember, RunCheckpoint, joined_tensors
from motifair.errors import MotifairError
from motifair.federation.belief import GraphSummary
from motifair.federation.server import ServerState
from motifair.federation.tensor_file import DamagedFileError, read_tensors, write_tensors
from motifair.statements.entry import GENESIS, Entry

logger = logging.getLogger(__name__)

FORMAT = "motifair-position-4"
OLDER = "position.safetensors"  # the only position of formats 1 and 2
KEPT = 3
FIX = "an earlier one is used instead, if there is one"
_STATE = tuple(f.name for f in fields(ServerState) if f.name != "memory")


def save_checkpoint(folder: Path, checkpoint: RunCheckpoint) -> None:
    """Write a checkpoint atomically, named by its entry, and delete all but the last three."""
    tensors: dict[str, Tensor] = {
        f"server.{name}": getattr(checkpoint.server, name) for name in _STATE
    }
    for name, task in checkpoint.tasks.items():
        tensors[f"task.{name}"] = torch.from_numpy(np.frombuffer(task, np.uint8).copy())
    roster = [{"name": j.name, "graphs": j.graphs, "motifs": j.motifs} for j in checkpoint.roster]
    tensors |= joined_tensors(checkpoint.roster)
    tensors |= {} if checkpoint.said is None else {"said": checkpoint.said}
    entry = checkpoint.entry
    about = {"format": FORMAT, "roster": json.dumps(roster), "entry": entry.to_json()}
    about |= {"signature": entry.signature, "updates": json.dumps(dict(checkpoint.updates))}
    write_tensors(folder / f"position-{checkpoint.entry.number:06}.safetensors", tensors, about)
    for path in positions(folder)[:-KEPT]:
        path.unlink()


def positions(folder: Path) -> list[Path]:
    """Return the files of the positions of a run, oldest first; refuse those of older versions."""
    if (folder / OLDER).exists():
        raise MotifairError(
            f"{folder / OLDER} was written by an older version of motifair; finish the run with "
            "that version, or start a new one."
        )
    return sorted(folder.glob("position-*.safetensors"))


def good_checkpoints(folder: Path) -> Iterator[RunCheckpoint]:
    """Yield the checkpoints that are not damaged, newest first."""
    for path in reversed(positions(folder)):
        try:
            yield _load(path)
        except DamagedFileError as error:
            logger.warning("%s", error)


def load_checkpoint(folder: Path) -> RunCheckpoint | None:
    """Read the newest good checkpoint of a run; None if there is none."""
    return next(good_checkpoints(folder), None)


def missing_entries(saved: Sequence[RunCheckpoint], entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of saved positions, oldest first, that follow the last one of a ledger.

    Refuse a position that is ahead of the ledger and does not follow: to continue from an older one
    would write a second history.
    """
    number, head = (entries[-1].number, entries[-1].hash) if entries else (-1, GENESIS)
    missing: list[Entry] = []
    for entry in (c.entry for c in saved):
        if (entry.number, entry.previous) == (number + 1, head):
            missing.append(entry)
            number, head = entry.number, entry.hash
        elif entry.number > number:
            raise MotifairError(
                f"The position of entry {entry.number} does not follow the last entry of the "
                f"ledger, {number} ({head[:16]}). The positions and the ledger belong to different "
                "histories: restore the ledger or the positions that the server had before, or "
                "start a new run."
            )
    return missing


def _load(path: Path) -> RunCheckpoint:
    about, tensors = read_tensors(path, FORMAT, FIX)
    if about.get("format") != FORMAT:
        raise MotifairError(f"{path} is not a position of this version; use another folder.")
    roster = tuple(
        JoinedMember(
            j["name"],
            j["graphs"],
            tuple(j["motifs"]),
            _summary(j["name"], tensors),
            tensors[f"trial.{j['name']}"].numpy() if f"trial.{j['name']}" in tensors else None,
        )
        for j in json.loads(about["roster"])
    )
    checkpoint = RunCheckpoint(
        roster,
        ServerState(**{name: tensors[f"server.{name}"] for name in _STATE}, memory={}),
        {j.name: tensors[f"task.{j.name}"].numpy().tobytes() for j in roster},
        replace(Entry.from_json(about["entry"]), signature=about["signature"]),
        {name: tuple(sent) for name, sent in json.loads(about["updates"]).items()},
        tensors.get("said"),
    )
    if checkpoint.digest != checkpoint.entry.position:
        raise DamagedFileError(f"{path} is not the position that its entry names; {FIX}.")
    return checkpoint


def _summary(name: str, tensors: Mapping[str, Tensor]) -> GraphSummary | None:
    if f"fingerprints.{name}" not in tensors:
        return None
    words, wiring = tensors[f"fingerprints.{name}"], tensors[f"wiring.{name}"]
    return GraphSummary(words.numpy(), wiring.numpy())
