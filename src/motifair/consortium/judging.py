"""Between machines: who judges whose model, and what was said of each.

Before round 1 all members judge each other. Who joins later is judged, and judges, before its first
round: the table of what was said stays whole, so that a newcomer is measured by what its judges
say of the others, also when those who began the run have left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from motifair.consortium.run_state import JoinedMember, RunCheckpoint, needed_tensor
from motifair.consortium.validation import Accepted
from motifair.consortium.wire import Floats
from motifair.errors import MotifairError
from motifair.federation.trial import judged_agents


def roster_of(
    names: Sequence[str], checkpoint: RunCheckpoint | None, joined: Mapping[str, Accepted]
) -> tuple[JoinedMember, ...]:
    """Return the members with these names, as they joined before or do now."""
    known = {j.name: j for j in checkpoint.roster} if checkpoint else {}
    new = {name: JoinedMember.of(a.upload) for name, a in joined.items()}
    return tuple((known | new)[name] for name in names)


def refuse_incomparable(checkpoint: RunCheckpoint, *, judging: bool) -> None:
    """Refuse newcomers to a run whose members were not judged as these would be."""
    if judging != (checkpoint.said is not None):
        raise MotifairError(
            "A new member is worth what its model is beside the others', and in this run "
            f"{'nothing is known of theirs' if judging else 'theirs were judged'}; put back "
            "trial_rounds of the terms with which it began, or let the member join the next run."
        )


def peers_to_judge(names: Sequence[str], new: Collection[str], seed: int) -> dict[str, list[str]]:
    """Return whose models each member judges where some members are new: those that it would judge
    if all were, as far as one of the two is new.

    >>> peers_to_judge(["a", "b", "c"], {"c"}, seed=0)
    {'a': ['c'], 'b': ['c'], 'c': ['a', 'b']}
    """
    peers = {
        judge: [names[k] for k in row if judge in new or names[k] in new]
        for judge, row in zip(names, judged_agents(len(names), seed), strict=True)
    }
    return {judge: judged for judge, judged in peers.items() if judged}


def models_to_judge(
    roster: Sequence[JoinedMember], new: Collection[str], seed: int
) -> dict[str, Floats]:
    """Return the models `(n, D)` that each member is asked about, without their members' names."""
    trial = {j.name: j.trial for j in roster}
    return {
        judge: np.stack([needed_tensor(trial[peer]).numpy() for peer in peers])
        for judge, peers in peers_to_judge(list(trial), new, seed).items()
    }


def said_so_far(
    checkpoint: RunCheckpoint | None,
    names: Sequence[str],
    answers: Mapping[str, Accepted],
    seed: int,
) -> Tensor:
    """Return what members have said of each other's models, `(2, A, A)` as in `Judgement`: what the
    `checkpoint` knows of those who stay, and the `answers` about new ones.
    """
    place = {name: k for k, name in enumerate(names)}
    said = torch.full((2, len(names), len(names)), torch.nan, dtype=torch.float64)
    known = [] if checkpoint is None else [j.name for j in checkpoint.roster]
    if checkpoint is not None and checkpoint.said is not None:
        stayed = [k for k, name in enumerate(known) if name in place]
        now = torch.tensor([place[known[k]] for k in stayed], dtype=torch.int64)
        said[:, now[:, None], now] = checkpoint.said[:, stayed][:, :, stayed]
    new = place.keys() - set(known)
    for judge, peers in peers_to_judge(names, new, seed).items():
        rows = [place[peer] for peer in peers]
        said[:, rows, place[judge]] = needed_tensor(answers[judge].upload.judgement).T
    return said
