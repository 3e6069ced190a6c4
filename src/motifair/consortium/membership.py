"""What the server knows when members of a run come or go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from motifair.consortium.run_state import JoinedMember, RunCheckpoint
from motifair.federation.server import Server, ServerState
from motifair.mechanism.value import quantised
from motifair.motifs.vocabulary import MotifIndex


def carry_over(
    checkpoint: RunCheckpoint, roster: Sequence[JoinedMember], before: Server, after: Server
) -> ServerState:
    """Return the server's state for a new roster; the servers are of the old one and of the new.

    A new member starts with the value 1/N; the values of the others are scaled to add up to the
    rest. Nobody judges it: its graphs are worth what the typical member's are. Motifs of former
    members alone are dropped.
    """
    old, fresh = checkpoint.server, after.start(checkpoint.server.weights)
    values = {j.name: float(v) for j, v in zip(checkpoint.roster, old.value, strict=True)}
    aligned = {j.name: float(v) for j, v in zip(checkpoint.roster, old.alignment, strict=True)}
    kept = sum(values.get(j.name, 0.0) for j in roster)
    newcomers = sum(j.name not in values for j in roster)
    rest = 1 - newcomers / len(roster)
    value = [
        values[j.name] * rest / kept if j.name in values and kept > 0 else 1 / len(roster)
        for j in roster
    ]
    prototypes, active = fresh.prototypes, fresh.active
    if after.method.uses_motifs:
        known = MotifIndex.of([j.motifs for j in checkpoint.roster]).keys
        place = {key: k for k, key in enumerate(known)}
        keys = MotifIndex.of([j.motifs for j in roster]).keys
        new_rows = torch.tensor(
            [k for k, key in enumerate(keys) if key in place], dtype=torch.int64
        )
        old_rows = torch.tensor([place[k] for k in keys if k in place], dtype=torch.int64)
        prototypes[new_rows], active[new_rows] = old.prototypes[old_rows], old.active[old_rows]
    return replace(
        fresh,
        round=old.round,
        weights=old.weights,
        value=quantised(torch.tensor(value, dtype=torch.float64)),
        alignment=torch.tensor(
            [aligned.get(j.name, torch.nan) for j in roster], dtype=torch.float64
        ),
        worth=_worth(checkpoint, roster, before.worth(None), fresh.worth),
        prototypes=prototypes,
        active=active,
    )


def _worth(
    checkpoint: RunCheckpoint, roster: Sequence[JoinedMember], counted: Tensor, unjudged: Tensor
) -> Tensor:
    """Return what graphs of a new roster are worth, from what they are worth `unjudged`; `counted`
    is that of the old roster.
    """
    quality = checkpoint.server.worth / counted.clamp(min=1e-12)
    known = {j.name: q for j, q in zip(checkpoint.roster, quality, strict=True)}
    typical = quality.median()
    return unjudged * torch.stack([known.get(j.name, typical) for j in roster])
