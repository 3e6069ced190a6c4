"""The plan, folder and final models of a result, for reports and predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from motifair.errors import MotifairError
from motifair.experiments.jobs import checkpoint_path
from motifair.experiments.plan import Plan, read_plan
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
from motifair.files import file_errors, read_json, write_atomic
from motifair.learning.adam import Moments


@dataclass(frozen=True)
class Origin:
    """The folder of a run, or its plan and the final state of each split in memory."""

    folder: Path | None = None
    known_plan: Plan | None = None
    states: Mapping[int, FederationState] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        if self.known_plan is not None:
            return self.known_plan
        if self.folder is None:
            raise MotifairError(
                "This result was not made by motifair.run, so it has no plan; use one that was."
            )
        return read_plan(self.folder)

    @property
    def environment(self) -> Mapping[str, Any]:
        """Device, threads and data folder of the run, as `config.json` has them."""
        if self.known_plan is not None:
            return self.known_plan.environment()
        if self.folder is not None:
            stored: dict[str, Any] = read_json(self.folder / "config.json")["environment"]
            return stored
        return {"device": "cpu", "threads": 1, "memory": 0, "data_dir": None}

    def save_models(self, out: Path, histories: Sequence[History]) -> None:
        """Write or copy the final states that exist to the folder of a result."""
        if self.folder is not None and self.folder.resolve() == out.resolve():
            return
        with file_errors():
            (out / "checkpoint").mkdir(exist_ok=True)
        for split, history in enumerate(histories):
            path = checkpoint_path(out, split, "method")
            if split in self.states:
                about = self.plan.about(self.plan.config.seed + split, "method")
                save_state(path, self.states[split], history, about, final=True)
            elif self.folder is not None:
                source = checkpoint_path(self.folder, split, "method")
                if source.exists():
                    write_atomic(path, source.read_bytes())

    def final_state(self, split: int) -> FederationState:
        """Return the state of a split after the last round; refuse if its models were not kept."""
        if split in self.states:
            return self.states[split]
        if self.folder is None:
            raise MotifairError(
                "This result has not kept its models; run again with out= and a folder, and use "
                "that result."
            )
        path = checkpoint_path(self.folder, split, "method")
        if not path.exists():
            raise MotifairError(
                f"{self.folder} has no models ({path.name} is missing); run again into another "
                "folder."
            )
        return finished(self.plan, self.folder, split)[0]


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
