"""The server's side of a round: aggregate, align, value, allocate, settle, prototypes.

One server serves one federation, or a stack of them that go side by side: then all it holds has
an axis over federations in front, written `...` here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from motifair.bag_sum import BagSum
from motifair.federation.contract import shaped
from motifair.federation.protocol import Downloads, Uploads
from motifair.mechanism.aggregation import aggregate
from motifair.mechanism.alignment import MOST_AGENTS_EXACT, shapley_alignment
from motifair.mechanism.allocation import sparsify
from motifair.mechanism.diversity import diversity
from motifair.mechanism.value import quantised
from motifair.methods import Memory, Method, Seen
from motifair.models import Model
from motifair.motifs.prototypes import global_prototypes
from motifair.motifs.vocabulary import MotifIndex

Record = dict[str, Tensor]


@dataclass(frozen=True)
class ServerState:
    """What the server carries from round to round, in float64.

    The rounds done, the shared part of its model `(..., D)`, the agents' values, the sum of their
    earlier ones and their alignments `(..., A)` (NaN for who has none yet), the global prototypes
    `(K, H)` and which of them exist `(K,)` (those of all federations one after another), and what
    the method itself remembers.
    """

    round: Tensor
    weights: Tensor
    value: Tensor
    value_sum: Tensor
    alignment: Tensor
    prototypes: Tensor
    active: Tensor
    memory: Memory = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """What a method decided in a round: the sum of the updates, φ, values, rewards and how many
    components each has, the share of its own step an agent keeps, payoff and compensation.
    """

    update: Tensor
    alignment: Tensor
    value: Tensor
    reward: Tensor
    kept: Tensor
    retained: Tensor
    payoff: Tensor
    compensation: Tensor
    memory: Memory


class Server:
    """Follows a method's recipe. It holds no state of a run: every step maps state to state."""

    def __init__(
        self,
        method: Method,
        graphs: Tensor,
        blocks: tuple[int, ...],
        indices: Sequence[MotifIndex],
        hidden: int,
        seeds: Tensor,
        accuracy: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Serve agents with so many `graphs (..., A)`; `indices` has one for each federation, or
        is empty for a method without motifs; `seeds` are `(...)`.
        """
        self.seeds = seeds
        self.accuracy = accuracy
        self.method, self.graphs, self.blocks, self.hidden = method, graphs, blocks, hidden
        self.apart = graphs.dim() > 1 and not method.takes_stacks()
        device, agents = graphs.device, graphs.shape[-1]
        self.motifs = [len(i.keys) for i in indices]
        self.diversity = torch.full_like(graphs, torch.nan, dtype=torch.float64)
        motif = [i.motif + sum(self.motifs[:f]) for f, i in enumerate(indices)]
        agent = [i.agent + agents * f for f, i in enumerate(indices)]
        self.motif = _joined(motif, device)
        self.agent = _joined(agent, device)
        self.prototype_bytes = torch.zeros_like(graphs)
        if indices:
            sizes = [torch.as_tensor(i.sizes, device=device) for i in indices]
            needed = method.config.corroboration
            variety = [
                diversity(torch.as_tensor(i.motif), torch.as_tensor(i.agent), agents, needed)
                for i in indices
            ]
            self.diversity = torch.stack(variety).to(device).view_as(graphs)
            self.prototype_bytes = 4 * hidden * torch.stack(sizes).view_as(graphs)
            owners = sparse.csr_array(sparse.block_diag([i.owners for i in indices], "csr"))
            self.owners = BagSum.of(owners, device)

    def start(self, shared: Tensor) -> ServerState:
        """Begin with the shared weights `(..., D)`: every agent has value 1/N, and no motif has a
        prototype yet.
        """
        agents = self.graphs.shape[-1]
        value = torch.full_like(self.graphs, 1 / agents, dtype=torch.float64)
        prototypes = value.new_zeros(sum(self.motifs), self.hidden)
        return ServerState(
            round=torch.zeros((), dtype=torch.int64, device=shared.device),
            weights=shared.double(),
            value=value,
            value_sum=torch.zeros_like(value),
            alignment=torch.full_like(value, torch.nan),
            prototypes=prototypes,
            active=torch.zeros(len(prototypes), dtype=torch.bool, device=shared.device),
        )

    def share_prototypes(
        self, local: Tensor | None, value: Tensor, previous: Tensor, active: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Merge the agents' prototypes by value; none uploaded leaves the previous ones."""
        if local is None:
            return previous, active
        return global_prototypes(
            local.double(), self.owners, self.agent, value.flatten(), previous, active
        )

    def see(self, state: ServerState, uploads: Uploads) -> Seen:
        """Put together what a method may look at."""
        sent = self._apart(uploads.update.double())
        return Seen(
            updates=sent,
            sent=sent,
            gradients=None if uploads.gradient is None else self._apart(uploads.gradient.double()),
            gradient_norm=uploads.gradient_norm.double().view_as(self.graphs),
            graphs=self.graphs,
            diversity=self.diversity,
            value=state.value,
            alignment=state.alignment,
            earlier_mean=state.value_sum / state.round.clamp(min=1),
            rounds=state.round,
            seed=self.seeds,
            memory=state.memory,
            judge=self.judge(state),
        )

    def judge(self, state: ServerState) -> Callable[[Tensor], Tensor] | None:
        """Return what tells how accurate the server would be with each of some updates added."""
        measure = self.accuracy
        if measure is None:
            return None
        here = state.weights.unsqueeze(-2)
        return lambda updates: measure(here + updates)

    def without_each(self, state: ServerState, uploads: Uploads) -> tuple[Tensor, Tensor]:
        """Return the server's weights had each agent stayed away this round `(..., A, D)`, the
        others sharing its weight; and the exact Shapley value of each agent's update `(..., A)`,
        up to 12.
        """
        several = self.graphs.dim() > 1
        seen = self.see(state, uploads)
        found = [self._without_each(s) for s in (seen.each() if several else [seen])]
        update, exact = (torch.stack(part) for part in zip(*found, strict=True))
        if not several:
            update, exact = update[0], exact[0]
        return state.weights.unsqueeze(-2) + self.method.reward_step * update, exact

    def _without_each(self, seen: Seen) -> tuple[Tensor, Tensor]:
        seen = self._prepared(seen)
        weights = self.method.weigh(seen)
        left = (1 - weights / weights.sum()).clamp(min=1e-12)[:, None]
        weighted = seen.updates * weights[:, None]
        update = (weighted.sum(dim=0) - weighted) / left
        others = (weights * (1 - torch.eye(len(weights), device=left.device))) / left
        update = self.method.lengthen(update, seen, others)
        exact = torch.full_like(weights, torch.nan)
        if len(weights) <= MOST_AGENTS_EXACT:
            exact = shapley_alignment(seen.updates, weights)
        return update, exact

    def step(
        self, state: ServerState, uploads: Uploads, present: Tensor | None = None
    ) -> tuple[ServerState, Downloads, Record]:
        """Take one round: new state, what every agent receives, and what goes into the record.

        Where not all are `present (A,)`, rows of the others mean nothing: see `among`.
        """
        seen, kind = self.see(state, uploads), uploads.update.dtype
        if present is not None:
            d = self.among(seen, present, kind)
        elif self.apart:
            d = _together([self.decide(part, kind) for part in seen.each()])
        else:
            d = self.decide(seen, kind)
        heard = d.value if present is None else d.value.where(present, 0.0)
        kept_alignment = torch.where(torch.isnan(d.alignment), state.alignment, d.alignment)
        prototypes, active = self.share_prototypes(
            uploads.prototypes, heard, state.prototypes, state.active
        )
        one = d.update.dim() == state.weights.dim()  # and not one for each agent
        new = ServerState(
            round=state.round + 1,
            weights=state.weights + self.method.reward_step * d.update if one else state.weights,
            value=d.value,
            value_sum=state.value_sum + d.value,
            alignment=kept_alignment,
            prototypes=prototypes,
            active=active,
            memory=d.memory,
        )
        record = {
            "value": d.value,
            "alignment": d.alignment,
            "diversity": self.diversity,
            "kept": d.kept,
            "payoff": d.payoff,
            "compensation": d.compensation,
            "update_norm": seen.sent.norm(dim=-1),
            "loss": uploads.loss.view_as(self.graphs),
            **self.traffic(uploads, d.kept),
        }
        reward = d.reward.flatten(0, -2)
        downloads = Downloads(reward, d.retained.flatten(), *self.for_agents(new))
        return new, downloads, {k: v.double() for k, v in record.items()}

    def decide(self, seen: Seen, kind: torch.dtype) -> Decision:
        """Ask the method, question by question.

        The aggregate is rounded to the type in which it travels: components that are as good as
        equal in magnitude are then exactly equal, and their order does not hang on the last digit.
        """
        method, seen = self.method, self._prepared(seen)
        each = tuple(seen.graphs.shape)
        weights = shaped(method, "weigh", method.weigh(seen), each, (*each, each[-1]))
        update = aggregate(seen.updates, weights)
        if update.dim() < seen.updates.dim():
            update = method.lengthen(update, seen, weights)
        update = update.to(kind).double()
        alignment = shaped(method, "align", method.align(seen, weights), each)
        value = quantised(shaped(method, "valuate", method.valuate(seen, alignment), each))
        reward, kept = self.reward(seen, update, value)
        payoff, compensation = (
            shaped(method, "settle", part, each) for part in method.settle(seen, value)
        )
        retained = shaped(method, "retain", method.retain(seen, kept), each)
        # A reward that is not finite is NaN components long, which `check_round` finds.
        kept = kept.where((reward.sum(dim=-1) + retained).isfinite(), torch.nan)
        return Decision(
            update, alignment, value, reward, kept, retained, payoff, compensation, seen.memory
        )

    def among(self, seen: Seen, present: Tensor, kind: torch.dtype) -> Decision:
        """Decide a round in which some agents are absent: for the present, as if there were no
        others, except that they share among them only what the others' values leave of 1.

        Of an absent agent there is no evidence: it keeps its value, and receives nothing.
        """
        own = {
            f.name: getattr(seen, f.name)[present]
            for f in fields(seen)
            if isinstance(getattr(seen, f.name), Tensor) and getattr(seen, f.name).dim() > 0
        }
        rest = own["value"].sum()
        d = self.decide(replace(seen, **own | {"value": own["value"] / rest}), kind)
        nobody = torch.zeros_like(seen.value)

        def spread(found: Tensor, absent: Tensor) -> Tensor:
            whole = absent.to(found.dtype).clone()
            whole[present] = found
            return whole

        return replace(
            d,
            alignment=spread(d.alignment, torch.full_like(nobody, torch.nan)),
            value=spread(quantised(d.value * rest), seen.value),
            reward=spread(d.reward, torch.zeros_like(seen.sent)),
            kept=spread(d.kept, nobody),
            retained=spread(d.retained, nobody + 1),
            payoff=spread(d.payoff, nobody),
            compensation=spread(d.compensation, nobody),
        )

    def traffic(self, uploads: Uploads, kept: Tensor) -> Record:
        """Return the bytes each agent sends and receives, numbers of four bytes each.

        A reward with zeros travels as index and value of each component that is left.
        """
        size = uploads.update.shape[1]
        prototypes = 0 if uploads.prototypes is None else self.prototype_bytes
        vectors = size * (1 if uploads.gradient is None else 2)
        return {
            "uploaded": torch.full_like(kept, 4 * vectors) + prototypes,
            "downloaded": 4 * (2 * kept).clamp(max=size) + prototypes,
        }

    def reward(self, seen: Seen, update: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return each agent's part of the update `(..., A, D)`, and of how many components it is.

        Where every agent has an aggregate of its own, it receives all of it.
        """
        each = tuple(seen.graphs.shape)
        if update.dim() == seen.updates.dim():
            return update, torch.full_like(seen.value, update.shape[-1])
        ratio = shaped(self.method, "ratio", self.method.ratio(seen, value), each)
        reward, kept = sparsify(update, ratio, self.blocks, up=self.method.mask_up)
        reward = self.method.adjust(seen, value, reward)
        return reward, kept.double().where(ratio.isfinite(), torch.nan)

    def for_agents(self, state: ServerState) -> tuple[Tensor | None, Tensor | None]:
        """Return, entry by entry, the global prototypes of the motifs each agent owns."""
        if not self.method.uses_prototypes:
            return None, None
        return state.prototypes[self.motif], state.active[self.motif]

    def part(self, state: ServerState, f: int) -> ServerState:
        """Take one federation out of a stack."""
        owned = slice(sum(self.motifs[:f]), sum(self.motifs[: f + 1]))
        return ServerState(
            round=state.round,
            weights=state.weights[f],
            value=state.value[f],
            value_sum=state.value_sum[f],
            alignment=state.alignment[f],
            prototypes=state.prototypes[owned],
            active=state.active[owned],
            memory={name: tensor[f] for name, tensor in state.memory.items()},
        )

    def _prepared(self, seen: Seen) -> Seen:
        seen = replace(seen, updates=self.method.prepare(seen.sent))
        return replace(seen, memory=self.method.remember(seen))

    def _apart(self, rows: Tensor) -> Tensor:
        """Give rows of agents their federations back, `(F·A, D) -> (..., A, D)`."""
        return rows.view(*self.graphs.shape, rows.shape[-1])


def masked_blocks(method: Method, model: Model) -> tuple[int, ...]:
    """Return the sizes of the parts of an update that are masked each by itself."""
    shared = model.layout.shared(method.share)
    if method.mask_scope == "layer":
        return model.layout.tensor_sizes(shared)
    return (shared.stop - shared.start,)


def stack_states(states: Sequence[ServerState]) -> ServerState:
    """Put the states of federations that stand at the same round side by side."""
    first = states[0]
    return ServerState(
        round=first.round,
        weights=torch.stack([s.weights for s in states]),
        value=torch.stack([s.value for s in states]),
        value_sum=torch.stack([s.value_sum for s in states]),
        alignment=torch.stack([s.alignment for s in states]),
        prototypes=torch.cat([s.prototypes for s in states]),
        active=torch.cat([s.active for s in states]),
        memory={name: torch.stack([s.memory[name] for s in states]) for name in first.memory},
    )


def _together(found: Sequence[Decision]) -> Decision:
    """Stack what a method decided for one federation after another."""
    tensors = {
        f.name: torch.stack([getattr(d, f.name) for d in found])
        for f in fields(Decision)
        if f.name != "memory"
    }
    names = found[0].memory
    memory = {name: torch.stack([d.memory[name] for d in found]) for name in names}
    return Decision(**tensors, memory=memory)


def _joined(parts: list[np.ndarray], device: torch.device) -> Tensor:
    return torch.as_tensor(np.concatenate([np.zeros(0, np.int64), *parts]), device=device)
