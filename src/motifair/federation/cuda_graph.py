"""The round as one recorded program: on a CUDA device starting hundreds of small kernels costs
more than running them.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from motifair.federation.server import Record
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState


class Rounds:
    """Takes a simulation from round to round, by a recorded CUDA graph where there can be one.

    That is where a method decides nothing on the host (`Method.stacked`) and agents' batches are
    the same in every round. A recorded round computes the same as one that is not recorded, in
    memory that each replay overwrites: a state is good until the next call.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.recordable = simulation.device.type == "cuda" and simulation.recordable
        self.warm = False
        self.graph: torch.cuda.CUDAGraph | None = None
        self.state: FederationState | None = None
        self.names: list[str] = []
        self.notes = torch.empty(0)

    def __call__(
        self, state: FederationState, *, measure: bool = False
    ) -> tuple[FederationState, Record]:
        """Take one round."""
        if measure or not self.recordable or not self.warm:
            self.warm = True  # what is made only once was made, and all shapes are known
            return self.simulation.round(state, measure=measure)
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
            new, record = self.simulation.round(self.state)
            _copy(self.state, new)
            self.names, self.notes = list(record), torch.stack(list(record.values()))


def _clone(tree: Any) -> Any:
    """Copy every tensor of nested dataclasses and dictionaries."""
    if tree is None:
        return None
    if isinstance(tree, Tensor):
        return tree.clone()
    if isinstance(tree, dict):
        return {name: _clone(part) for name, part in tree.items()}
    return replace(tree, **{f.name: _clone(getattr(tree, f.name)) for f in fields(tree)})


def _copy(target: Any, source: Any) -> None:
    """Overwrite every tensor of one such tree by those of another."""
    if isinstance(target, Tensor):
        target.copy_(source)
    elif isinstance(target, dict):
        for name, part in target.items():
            _copy(part, source[name])
    elif target is not None:
        for f in fields(target):
            _copy(getattr(target, f.name), getattr(source, f.name))
