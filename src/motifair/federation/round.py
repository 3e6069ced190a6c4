"""Algorithm 1 of the paper: one round of a federation, in the paper's order.

`run_round` is the whole round, for agents in this process: simulations, and studies of cheats.
`serve_round` is the server's part of it; between machines the coordinator calls it with the
uploads it received. `decide` is what the method decides in it, hook by hook.

Every tensor may have an axis over federations in front, written `...`; a reader of the algorithm
can ignore it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from motifair.federation.agents import Agents
from motifair.federation.contract import shaped, two_shaped
from motifair.federation.decision import Decision, decide_among, stack_decisions
from motifair.federation.protocol import Downloads, Uploads
from motifair.federation.server import Record, Server, ServerState
from motifair.federation.side_by_side import side_by_side
from motifair.federation.state import FederationState
from motifair.kernels import norms
from motifair.mechanism.allocation import sparsify
from motifair.mechanism.value import quantised
from motifair.methods import Method, Seen


@dataclass(frozen=True)
class Round:
    """A round that was run: the state after it, what was sent both ways, and its record."""

    state: FederationState
    uploads: Uploads
    downloads: Downloads
    record: Record


Send = Callable[[Uploads], tuple[Uploads, Tensor | None]]
"""Turns what agents computed into what they send, and says who is present `(..., A)`; None: all."""


def send_all(uploads: Uploads) -> tuple[Uploads, Tensor | None]:
    """Send what was computed, everybody being present: how honest agents behave."""
    return uploads, None


def run_round(
    agents: Agents,
    server: Server,
    state: FederationState,
    send: Send = send_all,
    *,
    own: bool = True,
) -> Round:
    """Run one round: agents train and upload, the server decides, agents adopt their rewards.

    `own` is whether they also train their own models, of which the server sees nothing.
    """
    number = state.server.round + 1
    # 1. Each agent trains on its graphs, drawn towards the global prototypes (E13).
    common = server.for_agents(state.server)
    trained, computed = agents.train(state.agents, number, *common, own=own)
    uploads, present = send(computed)
    # 2. to 9. The server aggregates, values, rewards and pays.
    after, downloads, record = serve_round(server, state.server, uploads, present)
    # 10. Each agent adds its reward to its weights.
    adopted = agents.adopt(state.agents, trained, downloads)
    return Round(FederationState(adopted, after), uploads, downloads, record)


def serve_round(
    server: Server, state: ServerState, uploads: Uploads, present: Tensor | None = None
) -> tuple[ServerState, Downloads, Record]:
    """Run the server's part: return its new state, what each agent receives, and the record.

    `present (..., A)` says who sent something, None that all did; rows of the others are ignored.
    """
    # 2. See what the method may look at, bound it, and 3. to 8. let the method decide.
    seen = server.see(state, uploads)
    d = _decide(server, seen, present, uploads.update.dtype)
    # 9. Merge the prototypes of the agents that are present, by value (E10, E11).
    value = d.value if present is None else d.value.where(present, 0.0)
    prototypes, active = server.share_prototypes(
        uploads.prototypes, value, state.prototypes, state.active
    )
    one_update = d.update.dim() == state.weights.dim()  # not one for each agent
    weights = state.weights + server.method.reward_step * d.update if one_update else state.weights
    new = ServerState(
        round=state.round + 1,
        weights=weights,
        value=d.value,
        value_sum=state.value_sum + d.value,
        alignment=torch.where(torch.isnan(d.alignment), state.alignment, d.alignment),
        worth=state.worth,
        prototypes=prototypes,
        active=active,
        memory=d.memory,
    )
    record = {
        "value": d.value,
        "alignment": d.alignment,
        "diversity": server.diversity,
        "kept": d.kept,
        "payoff": d.payoff,
        "compensation": d.compensation,
        "update_norm": norms(seen.sent),
        "loss": uploads.loss.view_as(server.graphs),
        **server.traffic(uploads, d.kept),
    }
    downloads = Downloads(
        d.reward.flatten(0, -2),
        d.retained.flatten(),
        *server.for_agents(new),
        server.common_moments(uploads, present),
    )
    return new, downloads, {name: column.double() for name, column in record.items()}


def decide(method: Method, seen: Seen, blocks: tuple[int, ...], dtype: torch.dtype) -> Decision:
    """Ask the method's hooks in the order of the paper, checking the shape of each answer.

    The aggregate is rounded to the `dtype` in which it travels: components that are equal up to
    rounding are then exactly equal, and their rank does not depend on the last digit.
    """
    each = tuple(seen.graphs.shape)
    seen = prepared(method, seen)
    # 3. The weight of each agent's update (E1, E12).
    weights = shaped(method, "weigh", method.weigh(seen), each, (*each, each[-1]))
    # 4. Their sum u_N (E12), or one for each agent where weights are (A, A).
    update = aggregated(method, seen, weights).to(dtype).double()
    # 5. How well each update agrees with the others (E6, E7).
    alignment = shaped(method, "align", method.align(seen, weights), each)
    # 6. The value of each agent (E8, E9).
    value = quantised(shaped(method, "valuate", method.valuate(seen, alignment), each))
    # 7. The part of u_N that each agent's value buys (E3).
    reward, kept = _allocate(method, seen, update, value, blocks)
    retained = shaped(method, "retain", method.retain(seen, kept), each)
    # 8. Payoffs and compensations (E4, E5).
    payoff, compensation = two_shaped(method, "settle", method.settle(seen, value), each)
    # A reward that is not finite is NaN components long, which `check_round` finds.
    kept = kept.where((reward.sum(dim=-1) + retained).isfinite(), torch.nan)
    return Decision(
        update, alignment, value, reward, kept, retained, payoff, compensation, seen.memory
    )


def prepared(method: Method, seen: Seen) -> Seen:
    """Let the method prepare the updates, and remember what it wants to."""
    shape = tuple(seen.sent.shape)
    seen = replace(seen, updates=shaped(method, "prepare", method.prepare(seen.sent), shape))
    return replace(seen, memory=method.remember(seen))


def aggregated(method: Method, seen: Seen, weights: Tensor) -> Tensor:
    """Return u_N as the server moves by it, `(..., D)`, or `(..., A, D)` for weights `(A, A)`."""
    whole = tuple(seen.updates.shape)
    if weights.dim() == seen.graphs.dim():
        shape = (*whole[:-2], whole[-1])
        update = shaped(method, "aggregate", method.aggregate(seen.updates, weights), shape)
        return shaped(method, "lengthen", method.lengthen(update, seen, weights), shape)
    return shaped(method, "aggregate", method.aggregate(seen.updates, weights), whole)


def _allocate(
    method: Method, seen: Seen, update: Tensor, value: Tensor, blocks: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Return each agent's part of the update `(..., A, D)`, and of how many components it is.

    Where every agent has an aggregate of its own, it receives all of it.
    """
    if update.dim() == seen.updates.dim():
        return update, torch.full_like(seen.value, update.shape[-1])
    ratio = shaped(method, "ratio", method.ratio(seen, value), tuple(seen.graphs.shape))
    reward, kept = sparsify(
        update, ratio, blocks, up=method.mask_up, by_length=method.mask_by_length
    )
    reward = method.adjust(seen, value, reward)
    return reward, kept.double().where(ratio.isfinite(), torch.nan)


def _decide(server: Server, seen: Seen, present: Tensor | None, dtype: torch.dtype) -> Decision:
    """Decide for those present, for each federation of a stack, or for all at once.

    In a stack `present` is `(F, A)`.
    """

    def ask(part: Seen) -> Decision:
        return decide(server.method, server.bound(part), server.blocks, dtype)

    if present is not None and present.dim() > 1:
        each = zip(seen.each(), present, strict=True)
        return stack_decisions([decide_among(ask, part, here) for part, here in each])
    if present is not None:
        return decide_among(ask, seen, present)
    if server.one_by_one:
        return stack_decisions(side_by_side(ask, seen.each()))
    return ask(seen)
