"""Checkpoints of a deployed run on disk: one file, written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from motifair.consortium.coordinator import JoinedMember, RunCheckpoint
from motifair.errors import MotifairError
from motifair.federation.belief import GraphSummary
from motifair.federation.server import ServerState
from motifair.files import write_atomic
from motifair.statements.entry import Entry

FORMAT = "motifair-position-2"
OLDER = ("motifair-position-1",)
_STATE = tuple(f.name for f in fields(ServerState) if f.name != "memory")


def save_checkpoint(path: Path, checkpoint: RunCheckpoint) -> None:
    """Write a checkpoint atomically."""
    tensors: dict[str, Tensor] = {
        f"server.{name}": getattr(checkpoint.server, name).clone().contiguous() for name in _STATE
    }
    for name, task in checkpoint.tasks.items():
        tensors[f"task.{name}"] = torch.from_numpy(np.frombuffer(task, np.uint8).copy())
    roster = []
    for j in checkpoint.roster:
        roster.append({"name": j.name, "graphs": j.graphs, "motifs": j.motifs})
        if j.summary is not None:
            tensors[f"fingerprints.{j.name}"] = torch.from_numpy(j.summary.fingerprints)
            tensors[f"wiring.{j.name}"] = torch.from_numpy(j.summary.wiring)
    about = {
        "format": FORMAT,
        "roster": json.dumps(roster),
        "entry": checkpoint.entry.to_json(),
    }
    write_atomic(path, lambda temporary: save_file(tensors, temporary, about))


def load_checkpoint(path: Path) -> RunCheckpoint | None:
    """Read a checkpoint; None if there is none yet."""
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise MotifairError(f"{path} is damaged; restore it from a backup.") from error
    if about.get("format") in OLDER:
        raise MotifairError(
            f"{path} was written by an older version of motifair; finish the run with that "
            "version, or start a new one."
        )
    if about.get("format") != FORMAT:
        raise MotifairError(f"{path} is not a checkpoint of a run; use another folder.")
    roster = tuple(
        JoinedMember(j["name"], j["graphs"], tuple(j["motifs"]), _summary(j["name"], tensors))
        for j in json.loads(about["roster"])
    )
    return RunCheckpoint(
        roster,
        ServerState(**{name: tensors[f"server.{name}"] for name in _STATE}),
        {j.name: tensors[f"task.{j.name}"].numpy().tobytes() for j in roster},
        Entry.from_json(about["entry"]),
    )


def _summary(name: str, tensors: Mapping[str, Tensor]) -> GraphSummary | None:
    if f"fingerprints.{name}" not in tensors:
        return None
    words, wiring = tensors[f"fingerprints.{name}"], tensors[f"wiring.{name}"]
    return GraphSummary(words.numpy(), wiring.numpy())
