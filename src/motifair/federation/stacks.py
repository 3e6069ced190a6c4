"""Several federations of equal shape in one state: put together, and taken apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from motifair.federation.server import Server, ServerState


def stack_states(states: Sequence[ServerState]) -> ServerState:
    """Put the states of federations that stand at the same round on one axis in front."""
    first = states[0]
    return ServerState(
        round=first.round,
        weights=torch.stack([s.weights for s in states]),
        value=torch.stack([s.value for s in states]),
        value_sum=torch.stack([s.value_sum for s in states]),
        alignment=torch.stack([s.alignment for s in states]),
        worth=torch.stack([s.worth for s in states]),
        prototypes=torch.cat([s.prototypes for s in states]),
        active=torch.cat([s.active for s in states]),
        memory={name: torch.stack([s.memory[name] for s in states]) for name in first.memory},
    )


def unstack_state(server: Server, state: ServerState, f: int) -> ServerState:
    """Take federation `f` out of a stack."""
    owned = slice(sum(server.motifs[:f]), sum(server.motifs[: f + 1]))
    return ServerState(
        round=state.round,
        weights=state.weights[f],
        value=state.value[f],
        value_sum=state.value_sum[f],
        alignment=state.alignment[f],
        worth=state.worth[f],
        prototypes=state.prototypes[owned],
        active=state.active[owned],
        memory={name: tensor[f] for name, tensor in state.memory.items()},
    )
