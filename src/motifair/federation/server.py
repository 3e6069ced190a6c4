"""The server's side of a round: aggregate, align, value, allocate, settle, prototypes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from motifair.bags import BagSum
from motifair.federation.protocol import Downloads, Uploads
from motifair.mechanism.aggregation import aggregate
from motifair.mechanism.alignment import MOST_AGENTS_EXACT, shapley_alignment
from motifair.mechanism.allocation import sparsify
from motifair.mechanism.diversity import diversity
from motifair.methods import Memory, Method, Seen
from motifair.motifs.prototypes import global_prototypes
from motifair.motifs.vocabulary import MotifIndex


@dataclass(frozen=True)
class ServerState:
    """What the server carries from round to round, in float64.

    The shared part of its model `(D,)`, the agents' values and the sum of their earlier ones
    `(A,)`, the global prototypes `(K, H)` and which of them exist `(K,)`, and what the method
    itself remembers.
    """

    round: int
    weights: Tensor
    value: Tensor
    value_sum: Tensor
    prototypes: Tensor
    active: Tensor
    memory: Memory = field(default_factory=dict)


class Server:
    """Follows a method's recipe. It holds no state of a run: every step maps state to state."""

    def __init__(
        self,
        method: Method,
        graphs: Tensor,
        blocks: tuple[int, ...],
        index: MotifIndex | None,
        hidden: int,
        accuracy: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.accuracy = accuracy
        self.method, self.graphs, self.blocks, self.hidden = method, graphs, blocks, hidden
        device = graphs.device
        self.keys = () if index is None else index.keys
        if index is None:
            self.diversity = torch.full(graphs.shape, torch.nan, dtype=torch.float64, device=device)
            self.motif = self.agent = torch.zeros(0, dtype=torch.int64, device=device)
        else:
            self.diversity = diversity(torch.as_tensor(index.sizes, device=device), len(index.keys))
            self.motif = torch.as_tensor(index.motif, device=device)
            self.owners = BagSum.of(index.owners, device, weighted=False)
            self.agent = torch.as_tensor(index.agent, device=device)

    def start(self, shared: Tensor) -> ServerState:
        """Begin: every agent has value 1/N, and no motif has a prototype yet."""
        agents = len(self.graphs)
        value = torch.full((agents,), 1 / agents, dtype=torch.float64, device=shared.device)
        prototypes = value.new_zeros(len(self.keys), self.hidden)
        return ServerState(
            round=0,
            weights=shared.double(),
            value=value,
            value_sum=torch.zeros_like(value),
            prototypes=prototypes,
            active=torch.zeros(len(self.keys), dtype=torch.bool, device=shared.device),
        )

    def share_prototypes(
        self, local: Tensor | None, value: Tensor, previous: Tensor, active: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Merge the agents' prototypes by value; none uploaded leaves the previous ones."""
        if local is None:
            return previous, active
        return global_prototypes(local.double(), self.owners, self.agent, value, previous, active)

    def see(self, state: ServerState, uploads: Uploads) -> Seen:
        """Put together what a method may look at."""
        sent = uploads.update.double()
        seen = Seen(
            updates=self.method.prepare(sent),
            sent=sent,
            gradients=None if uploads.gradient is None else uploads.gradient.double(),
            gradient_norm=uploads.gradient_norm.double(),
            graphs=self.graphs,
            diversity=self.diversity,
            value=state.value,
            earlier_mean=state.value_sum / max(state.round, 1),
            rounds=state.round,
            memory=state.memory,
            judge=self.judge(state),
        )
        return replace(seen, memory=self.method.remember(seen))

    def judge(self, state: ServerState) -> Callable[[Tensor], Tensor] | None:
        """Return what tells how accurate the server would be with each of some updates added."""
        measure = self.accuracy
        return None if measure is None else lambda updates: measure(state.weights + updates)

    def without_each(self, state: ServerState, uploads: Uploads) -> tuple[Tensor, Tensor]:
        """Return the server's weights had each agent stayed away this round `(A, D)`, the others
        sharing its weight; and the exact Shapley value of each agent's update `(A,)`, up to 12.
        """
        seen = self.see(state, uploads)
        weights = self.method.weigh(seen)
        left = (1 - weights / weights.sum()).clamp(min=1e-12)[:, None]
        weighted = seen.updates * weights[:, None]
        update = (weighted.sum(dim=0) - weighted) / left
        exact = torch.full_like(weights, torch.nan)
        if len(weights) <= MOST_AGENTS_EXACT:
            exact = shapley_alignment(seen.updates, weights)
        return state.weights + self.method.reward_step * update, exact

    def step(
        self, state: ServerState, uploads: Uploads
    ) -> tuple[ServerState, Downloads, dict[str, np.ndarray]]:
        """Take one round: new state, what every agent receives, and what goes into the record."""
        method = self.method
        seen = self.see(state, uploads)
        weights = method.weigh(seen)
        update = aggregate(seen.updates, weights)
        alignment = method.align(seen, weights)
        value = method.valuate(seen, alignment)
        reward, kept = self.reward(seen, update, value)
        payoff, compensation = method.settle(seen, value)
        prototypes, active = self.share_prototypes(
            uploads.prototypes, value, state.prototypes, state.active
        )
        new = ServerState(
            round=state.round + 1,
            weights=state.weights + method.reward_step * (update if update.dim() == 1 else 0),
            value=value,
            value_sum=state.value_sum + value,
            prototypes=prototypes,
            active=active,
            memory=seen.memory,
        )
        record = {
            "value": value,
            "alignment": alignment,
            "diversity": self.diversity,
            "kept": kept,
            "payoff": payoff,
            "compensation": compensation,
            "update_norm": seen.sent.norm(dim=-1),
            "loss": uploads.loss,
            **self.traffic(uploads, kept),
        }
        downloads = Downloads(reward, method.retain(seen, kept), *self.for_agents(new))
        return new, downloads, {k: v.double().cpu().numpy() for k, v in record.items()}

    def traffic(self, uploads: Uploads, kept: Tensor) -> dict[str, Tensor]:
        """Return the bytes each agent sends and receives, numbers of four bytes each.

        A reward with zeros travels as index and value of each component that is left.
        """
        size = uploads.update.shape[1]
        prototypes = torch.zeros_like(kept)
        if uploads.prototypes is not None:
            prototypes = self.hidden * torch.bincount(self.agent, minlength=len(kept))
        vectors = size * (1 if uploads.gradient is None else 2)
        return {
            "uploaded": 4 * (vectors + prototypes),
            "downloaded": 4 * (torch.minimum(2 * kept, torch.full_like(kept, size)) + prototypes),
        }

    def reward(self, seen: Seen, update: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return each agent's part of the update `(A, D)` and its number of components `(A,)`.

        Where every agent has an aggregate of its own, it receives all of it.
        """
        if update.dim() == 2:
            return update, torch.full(value.shape, update.shape[1], device=update.device)
        ratio = self.method.ratio(seen, value)
        reward, kept = sparsify(update, ratio, self.blocks, up=self.method.mask_up)
        return self.method.adjust(seen, value, reward), kept

    def for_agents(self, state: ServerState) -> tuple[Tensor | None, Tensor | None]:
        """Return, entry by entry, the global prototypes of the motifs each agent owns."""
        if not self.method.uses_prototypes:
            return None, None
        return state.prototypes[self.motif], state.active[self.motif]
