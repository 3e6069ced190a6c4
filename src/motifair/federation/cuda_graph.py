"""Rounds recorded as CUDA graphs: hundreds of small kernels take longer to launch than to run."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from motifair.federation.server import Record
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState


class RunRound(Protocol):
    """Runs one round, as `Simulation.round` does."""

    def __call__(
        self, state: FederationState, *, measure: bool = False
    ) -> tuple[FederationState, Record]:
        """Return the state after the round, and its record."""
        ...


def recorded(simulation: Simulation) -> RunRound:
    """Return what runs the rounds of a simulation: recorded on a GPU, as they are on a CPU."""
    return Rounds(simulation) if simulation.device.type == "cuda" else simulation.round


class Rounds:
    """Runs rounds by a recorded CUDA graph, wherever one can be recorded.

    That needs a method that decides nothing on the host (`Method.stacked`). A recorded round
    computes the same as one that is not recorded, in memory that each replay overwrites: a state is
    valid until the next call.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.recordable = simulation.device.type == "cuda" and simulation.recordable
        self.warm = self.own = False
        self.graph: torch.cuda.CUDAGraph | None = None
        self.state: FederationState | None = None
        self.names: list[str] = []
        self.notes = torch.empty(0)

    def __call__(
        self, state: FederationState, *, measure: bool = False
    ) -> tuple[FederationState, Record]:
        """Run one round."""
        if not self.own and self.simulation.trains_own(state.round + 1):
            # From now on own models are trained: that is another program.
            self.own, self.warm, self.graph = True, False, None
        if measure or not self.recordable or not self.warm:
            self.warm = True  # caches are filled, and all shapes are known
            return self.simulation.round(state, measure=measure, own=self.own)
        if self.graph is None:
            self._record(state)
        elif state is not self.state:
            _copy(self.state, state)
        assert self.graph is not None
        assert self.state is not None
        self.graph.replay()
        return self.state, dict(zip(self.names, self.notes.clone().unbind(), strict=True))

    def _record(self, state: FederationState) -> None:
        self.state = _clone(state)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            new, record = self.simulation.round(self.state, own=self.own)
            _copy(self.state, new)
            self.names, self.notes = list(record), torch.stack(list(record.values()))


def _clone(tree: Any) -> Any:
    """Clone every tensor in nested dataclasses and dictionaries."""
    if tree is None:
        return None
    if isinstance(tree, Tensor):
        return tree.clone()
    if isinstance(tree, dict):
        return {name: _clone(part) for name, part in tree.items()}
    return replace(tree, **{f.name: _clone(getattr(tree, f.name)) for f in fields(tree)})


def _copy(target: Any, source: Any) -> None:
    """Overwrite every tensor in `target` with those in `source`, of the same structure."""
    if isinstance(target, Tensor):
        target.copy_(source)
    elif isinstance(target, dict):
        for name, part in target.items():
            _copy(part, source[name])
    elif target is not None:
        for f in fields(target):
            _copy(getattr(target, f.name), getattr(source, f.name))
