"""What the server knows when members of a run come or go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from motifair.consortium.run_state import JoinedMember, RunCheckpoint
from motifair.federation.server import Server, ServerState
from motifair.mechanism.judgement import quality
from motifair.mechanism.value import quantised
from motifair.motifs.vocabulary import MotifIndex


def carry_over(
    checkpoint: RunCheckpoint,
    roster: Sequence[JoinedMember],
    before: Server,
    after: Server,
    said: Tensor | None,
) -> ServerState:
    """Return the server's state for a new roster; the servers are of the old one and of the new,
    `said` is what members say of each other's models, newcomers' included.

    A new member starts with the value 1/N; the values of the others are scaled to add up to the
    rest. Motifs of former members alone are dropped.
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
        worth=_worth(checkpoint, roster, before, after, said),
        prototypes=prototypes,
        active=active,
    )


def _worth(
    checkpoint: RunCheckpoint,
    roster: Sequence[JoinedMember],
    before: Server,
    after: Server,
    said: Tensor | None,
) -> Tensor:
    """Return what graphs of a new roster are worth.

    Who stays is worth what it was found to be: nobody gains or loses by whom it lets in, and what
    was said of it before anybody had learnt from the others counts. Newcomers are judged by those
    who stay, so that no number of them speaks for each other; where fewer than two stay, which is
    no yardstick, by all, as before round 1.
    """
    counted, found = after.worth(None), torch.ones_like(after.believed)
    past = checkpoint.server.worth / before.worth(None).clamp(min=1e-12)
    known = dict(zip((j.name for j in checkpoint.roster), past, strict=True))
    stayed = torch.tensor([j.name in known for j in roster])
    if said is not None:
        judges = after.judges * stayed if stayed.sum() > 1 else after.judges
        found = quality(said[0], said[1], after.graphs, judges)
    return counted * torch.stack([known.get(j.name, q) for j, q in zip(roster, found, strict=True)])
