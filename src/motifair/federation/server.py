"""What the server knows of its agents, and what it carries from round to round.

One server serves one federation, or a stack of equal shape: then its tensors have an axis over
federations in front, written `...` here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from motifair.bag_sum import BagSum
from motifair.federation.protocol import Judgement, Uploads
from motifair.mechanism.allocation import sparsify
from motifair.mechanism.bounds import median, shorten
from motifair.mechanism.diversity import diversity
from motifair.mechanism.judgement import quality
from motifair.methods import Judge, Memory, Method, Seen
from motifair.models import Model
from motifair.motifs.prototypes import global_prototypes
from motifair.motifs.vocabulary import MotifIndex

Record = dict[str, Tensor]


@dataclass(frozen=True)
class ServerState:
    """What the server carries from round to round, in float64.

    Rounds done, the shared part of its model `(..., D)`, the agents' values, the sum of their
    earlier ones, their alignments (NaN where there is none) and what their graphs are worth
    `(..., A)`, the global prototypes `(K, H)` and which of them exist `(K,)` (those of all
    federations one after another), and what the method itself remembers.
    """

    round: Tensor
    weights: Tensor
    value: Tensor
    value_sum: Tensor
    alignment: Tensor
    worth: Tensor
    prototypes: Tensor
    active: Tensor
    memory: Memory = field(default_factory=dict)


class Server:
    """The server of some agents. It holds no state of a run: a round maps state to state."""

    def __init__(
        self,
        method: Method,
        graphs: Tensor,
        blocks: tuple[int, ...],
        indices: Sequence[MotifIndex],
        hidden: int,
        seeds: Tensor,
        accuracy: Callable[[int, Tensor], Tensor] | None = None,
        believed: Tensor | None = None,
        graph_weight: Tensor | None = None,
        judges: Tensor | None = None,
        *,
        bounded: bool = False,
    ) -> None:
        """Serve agents with so many `graphs (..., A)`; `indices` has one for each federation, or
        is empty for a method without motifs; `seeds` are `(...)`. As many graphs count as are
        `believed (..., A)`, by default all, and in what they are worth each with its `graph_weight
        (..., A)`, by default 1. `judges[..., i, j]` is what j counts as a judge of i, by default
        1. If `bounded`, long updates are shortened.
        """
        self.bounded = bounded
        self.believed = graphs.double() if believed is None else believed.double()
        if graph_weight is None:
            graph_weight = torch.ones_like(self.believed)
        self.graph_weight = graph_weight.double()
        each = self.believed.shape[-1]
        alike = self.believed.new_ones(each, each).expand(*self.believed.shape, each)
        self.judges = alike if judges is None else judges.double()
        self.seeds = seeds
        self.accuracy = accuracy
        self.method, self.graphs, self.blocks, self.hidden = method, graphs, blocks, hidden
        # On a GPU the order of a sum, and so its last digit, depends on the shape of a tensor.
        by_shape = graphs.device.type != "cpu"
        self.one_by_one = graphs.dim() > 1 and (by_shape or not method.takes_stacks())
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

    def start(
        self, shared: Tensor, local: Tensor | None = None, judged: Judgement | None = None
    ) -> ServerState:
        """Return the state before the first round: the shared weights `(..., D)`, equal values,
        what the agents' graphs are worth as they were `judged`, and global prototypes from the
        agents' `local (M, H)` ones.
        """
        value = torch.full_like(self.believed, 1 / self.believed.shape[-1])
        prototypes = value.new_zeros(sum(self.motifs), self.hidden)
        active = torch.zeros(len(prototypes), dtype=torch.bool, device=shared.device)
        prototypes, active = self.share_prototypes(local, value, prototypes, active)
        return ServerState(
            round=torch.zeros((), dtype=torch.int64, device=shared.device),
            weights=shared.double(),
            value=value,
            value_sum=torch.zeros_like(value),
            alignment=torch.full_like(value, torch.nan),
            worth=self.worth(judged),
            prototypes=prototypes,
            active=active,
        )

    def worth(self, judged: Judgement | None) -> Tensor:
        """Return what the agents' graphs are worth, in graphs, `(..., A)`."""
        counted = self.believed * self.graph_weight
        if judged is None:
            return counted
        said = (judged.loss, judged.told, self.graphs, self.judges)
        if self.one_by_one:
            return counted * torch.stack([quality(*each) for each in zip(*said, strict=True)])
        return counted * quality(*said)

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
        """Return what a method may look at."""
        sent = self._apart(uploads.update.double())
        return Seen(
            updates=sent,
            sent=sent,
            gradients=None if uploads.gradient is None else self._apart(uploads.gradient.double()),
            gradient_norm=uploads.gradient_norm.double().view_as(self.graphs),
            graphs=self.graphs,
            believed=self.believed,
            worth=state.worth,
            diversity=self.diversity,
            value=state.value,
            alignment=state.alignment,
            earlier_mean=state.value_sum / state.round.clamp(min=1),
            rounds=state.round,
            seed=self.seeds,
            memory=state.memory,
            judge=self.judge(state),
        )

    def bound(self, seen: Seen) -> Seen:
        """Return what agents that are present sent, with no influence by length alone."""
        if not self.bounded:
            return seen
        sent = shorten(seen.sent, self.method.steps(seen.graphs))
        gradients = seen.gradients
        if gradients is not None:  # means over steps, so that their number does not matter
            gradients = shorten(gradients, torch.ones_like(seen.graphs))
        return replace(seen, sent=sent, updates=sent, gradients=gradients)

    def judge(self, state: ServerState) -> Judge | None:
        """Return what gives the server's accuracy with each of some updates added."""
        return None if self.accuracy is None else Judge(self.accuracy, state.weights)

    def models(self, state: ServerState, initial: Tensor) -> Tensor:
        """Return the shared weights that each agent would begin anew from, `(A, D)`.

        The server's, or, where agents have models of their own, `initial` and as much of what the
        server has learnt since as the method rewards their values with; nothing of it where their
        graphs are worth nothing, which a newcomer's value does not show yet.
        """
        agents = len(state.value)
        if self.method.returning == "server":
            return state.weights.expand(agents, -1)
        nothing = torch.zeros(agents, len(state.weights))
        none = torch.zeros(agents)
        seen = self.see(state, Uploads(nothing, nothing, none, None, none))
        ratio = self.method.ratio(seen, state.value.where(state.worth > 0, 0.0))
        learnt = state.weights - initial
        how = {"up": self.method.mask_up, "by_length": self.method.mask_by_length}
        return initial + sparsify(learnt, ratio, self.blocks, **how)[0]

    def traffic(self, uploads: Uploads, kept: Tensor) -> Record:
        """Return the bytes each agent sends and receives, numbers of four bytes each.

        A reward with zeros travels as index and value of each component that is left.
        """
        size = uploads.update.shape[1]
        prototypes = 0 if uploads.prototypes is None else self.prototype_bytes
        vectors = size * (1 if uploads.gradient is None else 2)
        moments = 0 if uploads.moments is None else 4 * uploads.moments.shape[1]
        return {
            "uploaded": torch.full_like(kept, 4 * vectors + moments) + prototypes,
            "downloaded": 4 * (2 * kept).clamp(max=size) + moments + prototypes,
        }

    def common_moments(self, uploads: Uploads, present: Tensor | None) -> Tensor | None:
        """Return the usual second moments of each unit, for each agent, `(A, U)`: the median of
        those `present (..., A)` that have any.
        """
        if uploads.moments is None:
            return None
        sent = self._apart(uploads.moments)
        if present is not None:
            sent = sent.where(present.unsqueeze(-1), 0.0)
        return median(sent.mT).mT.expand_as(sent).flatten(0, -2)

    def for_agents(self, state: ServerState) -> tuple[Tensor | None, Tensor | None]:
        """Return, entry by entry, the global prototypes of the motifs each agent owns."""
        if not self.method.uses_prototypes:
            return None, None
        return state.prototypes[self.motif], state.active[self.motif]

    def _apart(self, rows: Tensor) -> Tensor:
        """Split rows of agents by federation, `(F·A, D) -> (..., A, D)`."""
        return rows.view(*self.graphs.shape, rows.shape[-1])


def masked_blocks(method: Method, model: Model) -> tuple[int, ...]:
    """Return the sizes of the parts of an update that are masked each by itself."""
    shared = model.layout.shared(method.share)
    if method.mask_scope == "layer":
        return model.layout.tensor_sizes(shared)
    return (shared.stop - shared.start,)


def _joined(parts: list[np.ndarray], device: torch.device) -> Tensor:
    return torch.as_tensor(np.concatenate([np.zeros(0, np.int64), *parts]), device=device)
