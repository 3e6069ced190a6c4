"""The state of a run after a round, as one object and as one checkpoint file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motifair.errors import MotifairError
from motifair.federation.agents import AgentsState
from motifair.federation.history import COLUMNS, History
from motifair.federation.server import ServerState
from motifair.federation.tensor_file import read_tensors, write_tensors
from motifair.learning.adam import Moments

FORMAT, UNCHECKED = "motifair-state-4", "motifair-state-3"
SERVER_TENSORS = tuple(f.name for f in fields(ServerState) if f.name not in ("round", "memory"))


@dataclass(frozen=True)
class FederationState:
    """The agents' and the server's state after some rounds.

    Randomness is keyed by seed, agent and round, so nothing else has to be remembered. `given` has
    the optimiser's moments, one row for each federation, of the updates that a member makes from
    a part of its graphs (`federation/withholding.py`); None if all members give all.
    """

    agents: AgentsState
    server: ServerState
    given: Moments | None = None

    @property
    def round(self) -> int:
        """Rounds done."""
        return int(self.server.round)


def save_state(
    path: Path, state: FederationState, history: History, about: Mapping[str, Any], *, final: bool
) -> None:
    """Write state and history to one checked safetensors file, atomically.

    `about` says whose state it is and must match on loading. A final state is kept for its models
    alone, without the optimiser's moments, and cannot be continued.
    """
    tensors = {f"history.{c}": torch.from_numpy(v) for c, v in history.columns.items()}
    tensors["history.global_accuracy"] = torch.from_numpy(history.global_accuracy)
    tensors |= agent_tensors(state.agents, moments=not final)
    if state.given is not None and not final:
        tensors |= {f"given.{f.name}": getattr(state.given, f.name) for f in fields(Moments)}
    tensors |= {f"server.{name}": getattr(state.server, name) for name in SERVER_TENSORS}
    tensors |= {f"memory.{name}": tensor for name, tensor in state.server.memory.items()}
    metadata = {
        "format": FORMAT,
        "round": str(state.round),
        "names": json.dumps(history.names),
        "side_by_side": str(history.side_by_side),
        "about": json.dumps(about, sort_keys=True),
    }
    write_tensors(path, tensors, metadata)


def load_history(path: Path, about: Callable[[int], Mapping[str, Any]]) -> tuple[int, History]:
    """Read how far a saved state is and its history; refuse one of another run.

    `about` returns what the file must say of itself if it is of a run of so many rounds.
    """
    metadata, tensors = _read(path)
    if metadata.get("format") not in (FORMAT, UNCHECKED):
        raise MotifairError(
            f"{path} was written by another version of motifair; use another out folder, or delete "
            "this one."
        )
    rounds = len(tensors["history.global_accuracy"])
    if metadata["about"] != json.dumps(about(rounds), sort_keys=True):
        raise MotifairError(
            f"{path} belongs to a run with another configuration; use another out folder, "
            "or delete this one."
        )
    history = History(
        json.loads(metadata["names"]),
        rounds,
        side_by_side=int(metadata.get("side_by_side", 1)),
    )
    for column in COLUMNS:
        history.columns[column] = tensors[f"history.{column}"].numpy()
    history.global_accuracy = tensors["history.global_accuracy"].numpy()
    return int(metadata["round"]), history


def can_continue(path: Path) -> bool:
    """Return whether a saved state has all that further rounds need."""
    return "agents.first" in _read(path)[1]


def load_state(path: Path, device: torch.device) -> FederationState:
    """Read the state itself; a final one has no moments and cannot be continued."""
    metadata, tensors = _read(path)
    tensors = {name: t.to(device) for name, t in tensors.items()}
    # States from before graphs had a worth are of methods that do not ask for it.
    tensors.setdefault("server.worth", torch.ones_like(tensors["server.value"]))
    server = ServerState(
        round=torch.tensor(int(metadata["round"]), device=device),
        memory={
            n.removeprefix("memory."): t for n, t in tensors.items() if n.startswith("memory.")
        },
        **{name: tensors[f"server.{name}"] for name in SERVER_TENSORS},
    )
    given = None
    if "given.first" in tensors:
        given = Moments(**{f.name: tensors[f"given.{f.name}"] for f in fields(Moments)})
    return FederationState(read_agents(tensors), server, given)


def agent_tensors(
    state: AgentsState, prefix: str = "agents.", *, moments: bool = True
) -> dict[str, Tensor]:
    """Return the tensors of agents by name, for a file."""
    named = {f"{prefix}weights": state.weights}
    if moments:
        named |= {f"{prefix}{f.name}": getattr(state.moments, f.name) for f in fields(Moments)}
    if state.own is not None:
        named |= agent_tensors(state.own, f"{prefix}own.", moments=moments)
    return named


def read_agents(tensors: Mapping[str, Tensor], prefix: str = "agents.") -> AgentsState:
    """Undo `agent_tensors`; without moments they are as at the start."""
    weights = tensors[f"{prefix}weights"]
    moments = Moments.zero(weights)
    if f"{prefix}first" in tensors:
        moments = Moments(**{f.name: tensors[f"{prefix}{f.name}"] for f in fields(Moments)})
    own = f"{prefix}own."
    return AgentsState(
        weights, moments, read_agents(tensors, own) if f"{own}weights" in tensors else None
    )


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    return read_tensors(path, FORMAT, "delete it to do that part of the run again")
