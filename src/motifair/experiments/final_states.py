"""The models of a run after its last round: kept in memory, written to its folder, read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from motifair.errors import MotifairError
from motifair.experiments.jobs import checkpoint_path
from motifair.experiments.origin import Origin
from motifair.experiments.plan import Plan
from motifair.federation.agents import AgentsState
from motifair.federation.callbacks import Callback
from motifair.federation.history import History
from motifair.federation.state import (
    SERVER_TENSORS,
    FederationState,
    load_history,
    load_state,
    save_state,
)
from motifair.files import file_errors, write_atomic
from motifair.learning.adam import Moments


def save_models(origin: Origin, out: Path, histories: Sequence[History]) -> None:
    """Write or copy the final states that exist to the folder of a result."""
    if origin.folder is not None and origin.folder.resolve() == out.resolve():
        return
    with file_errors():
        (out / "checkpoint").mkdir(exist_ok=True)
    for split, history in enumerate(histories):
        path = checkpoint_path(out, split, "method")
        if split in origin.states:
            about = origin.plan.about(origin.plan.config.seed + split, "method")
            save_state(path, origin.states[split], history, about, final=True)
        elif origin.folder is not None:
            source = checkpoint_path(origin.folder, split, "method")
            if source.exists():
                write_atomic(path, source.read_bytes())


def read_final_state(plan: Plan, folder: Path, split: int) -> FederationState:
    """Return the state of a split after the last round; refuse if its models are not there."""
    path = checkpoint_path(folder, split, "method")
    if not path.exists():
        raise MotifairError(
            f"{folder} has no models ({path.name} is missing); run again into another folder."
        )
    return finished(plan, folder, split)[0]


def finished(plan: Plan, folder: Path, split: int) -> tuple[FederationState, History]:
    """Return the final state and history of the method on a split; refuse an unfinished one."""
    path = checkpoint_path(folder, split, "method")
    about = partial(plan.about, plan.config.seed + split, "method")
    done, history = load_history(path, about) if path.exists() else (0, None)
    if history is None or done < plan.config.rounds:
        raise MotifairError(
            f"Split {split} is at round {done} of {plan.config.rounds}; finish the run "
            "with motifair resume first."
        )
    return load_state(path, torch.device("cpu")), history


class KeepFinalState(Callback):
    """Keep the final models of a split in memory."""

    def __init__(self) -> None:
        self.state: FederationState | None = None

    def on_end(self, state: FederationState, history: History) -> None:
        """Copy the state to the host, without the optimiser's moments."""
        server = state.server
        tensors = {name: getattr(server, name).cpu().clone() for name in SERVER_TENSORS}
        memory = {name: tensor.cpu().clone() for name, tensor in server.memory.items()}
        self.state = FederationState(
            _without_moments(state.agents),
            replace(server, round=server.round.cpu(), memory=memory, **tensors),
        )


def _without_moments(agents: AgentsState) -> AgentsState:
    weights = agents.weights.detach().cpu().clone()
    own = None if agents.own is None else _without_moments(agents.own)
    return AgentsState(weights, Moments.zero(weights[:0]), own)
