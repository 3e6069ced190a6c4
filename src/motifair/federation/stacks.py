"""Several federations of equal shape in one state: put together, and taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import torch

from motifair.federation.server import Server, ServerState

BY_MOTIF = ("prototypes", "active")  # rows of all federations one after another
BY_FEDERATION = tuple(
    f.name for f in fields(ServerState) if f.name not in (*BY_MOTIF, "round", "memory")
)


def stack_states(states: Sequence[ServerState]) -> ServerState:
    """Put the states of federations that stand at the same round on one axis in front."""
    first = states[0]
    stacked = {name: torch.stack([getattr(s, name) for s in states]) for name in BY_FEDERATION}
    joined = {name: torch.cat([getattr(s, name) for s in states]) for name in BY_MOTIF}
    memory = {name: torch.stack([s.memory[name] for s in states]) for name in first.memory}
    return ServerState(round=first.round, memory=memory, **stacked, **joined)


def unstack_state(server: Server, state: ServerState, f: int) -> ServerState:
    """Take federation `f` out of a stack."""
    owned = slice(sum(server.motifs[:f]), sum(server.motifs[: f + 1]))
    own = {name: getattr(state, name)[f] for name in BY_FEDERATION}
    own |= {name: getattr(state, name)[owned] for name in BY_MOTIF}
    memory = {name: tensor[f] for name, tensor in state.memory.items()}
    return ServerState(round=state.round, memory=memory, **own)
