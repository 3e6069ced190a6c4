"""What each agent contributed to a round: the server's model without it, and Shapley values."""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.federation.protocol import Uploads
from motifair.federation.round import aggregated, prepared
from motifair.federation.server import Server, ServerState
from motifair.mechanism.alignment import MOST_AGENTS_EXACT, shapley_alignment
from motifair.methods import Method, Seen


def without_each(server: Server, state: ServerState, uploads: Uploads) -> tuple[Tensor, Tensor]:
    """Return the server's weights without each agent in this round `(..., A, D)`, the others
    sharing its weight; and the exact Shapley value of each update `(..., A)`, up to 12 agents.
    """
    several = server.graphs.dim() > 1
    seen = server.see(state, uploads)
    each = seen.each() if several else [seen]
    parts = [_without_each(server.method, server.bound(s)) for s in each]
    update, exact = (torch.stack(part) for part in zip(*parts, strict=True))
    if not several:
        update, exact = update[0], exact[0]
    return state.weights.unsqueeze(-2) + server.method.reward_step * update, exact


def _without_each(method: Method, seen: Seen) -> tuple[Tensor, Tensor]:
    seen = prepared(method, seen)
    weights = method.weigh(seen)
    left = (1 - weights / weights.sum()).clamp(min=1e-12)[:, None]
    others = (weights * (1 - torch.eye(len(weights), device=left.device))) / left
    if method.adds_up:
        weighted = seen.updates * weights[:, None]
        update = (weighted.sum(dim=0) - weighted) / left
        update = method.lengthen(update, seen, others)
    else:
        update = torch.stack([aggregated(method, seen, row) for row in others])
    exact = torch.full_like(weights, torch.nan)
    if len(weights) <= MOST_AGENTS_EXACT:
        exact = shapley_alignment(seen.updates, weights)
    return update, exact
