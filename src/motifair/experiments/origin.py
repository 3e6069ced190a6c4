"""Where a result comes from: its plan, folder and final models, for reports and predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motifair.errors import MotifairError
from motifair.federation.history import History
from motifair.files import read_json

if TYPE_CHECKING:  # what trains needs torch; who reads a result does not
    from motifair.experiments.plan import Plan
    from motifair.federation.state import FederationState


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
        from motifair.experiments.plan import read_plan

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
        from motifair.experiments.final_states import save_models

        save_models(self, out, histories)

    def final_state(self, split: int) -> FederationState:
        """Return the state of a split after the last round; refuse if its models were not kept."""
        if split in self.states:
            return self.states[split]
        if self.folder is None:
            raise MotifairError(
                "This result has not kept its models; run again with out= and a folder, and use "
                "that result."
            )
        from motifair.experiments.final_states import read_final_state

        return read_final_state(self.plan, self.folder, split)
