"""The agents' side of a round: train, upload, adopt the reward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from motifair.evaluation.accuracy import accuracy
from motifair.federation.protocol import Downloads, Uploads
from motifair.graphs.batch import Shard, collate
from motifair.learning.adam import Moments
from motifair.learning.randomness import fold, stream_keys
from motifair.learning.training import Loader, LocalTraining, Trained
from motifair.methods import Method
from motifair.motifs.prototypes import local_prototypes

T = TypeVar("T")


@dataclass(frozen=True)
class AgentsState:
    """Weights `(A, D)` and the moments of each agent's optimiser."""

    weights: Tensor
    moments: Moments


class Agents:
    """Agents as rows, trained in stacks of `stack` rows by `threads` workers.

    On a CPU a stack is one row (larger ones only spill the cache), so that an agent computes
    exactly what it would compute alone; on a GPU it is all rows.
    """

    def __init__(
        self,
        names: Sequence[str],
        train: Sequence[Shard],
        test: Sequence[Shard],
        method: Method,
        training: LocalTraining,
        *,
        batch_size: int,
        seed: int,
        stack: int,
        threads: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.names, self.method, self.training = tuple(names), method, training
        self.model = training.model
        self.shared = self.model.layout.shared(method.share)
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
        self.keys = stream_keys(seed, names, device)
        self.stacks = [slice(a, a + stack) for a in range(0, len(names), stack)]
        self.loaders = [Loader(train[s], batch_size, device, dtype) for s in self.stacks]
        self.tests = [collate(test[s], device, dtype) for s in self.stacks]
        entries = torch.tensor([0] + [s.motifs.shape[1] for s in train]).cumsum(0).tolist()
        self.entries = [
            slice(entries[s.start], entries[min(s.stop, len(names))]) for s in self.stacks
        ]

    def start(self, row: Tensor) -> AgentsState:
        """Give every agent the same initial weights `(D,)`."""
        weights = row.expand(len(self.names), -1).clone()
        return AgentsState(weights, Moments.zero(weights))

    def train(
        self, state: AgentsState, round: int, prototypes: Tensor | None, active: Tensor | None
    ) -> tuple[AgentsState, Uploads]:
        """Train all agents in a round (counted from 1); the given state is left as it was."""

        def work(k: int) -> tuple[Trained, Tensor | None]:
            rows, entries = self.stacks[k], self.entries[k]
            done = self.training(
                state.weights[rows],
                state.moments.rows(rows),
                self.loaders[k],
                fold(self.keys[rows], round),
                None if prototypes is None else prototypes[entries].to(state.weights.dtype),
                None if active is None else active[entries],
            )
            local = self._local(k, done.weights) if self.method.uses_prototypes else None
            return done, local

        done, local = zip(*self._map(work), strict=True)
        trained = AgentsState(
            torch.cat([d.weights for d in done]),
            Moments(
                torch.cat([d.moments.first for d in done]),
                torch.cat([d.moments.second for d in done]),
                torch.cat([d.moments.steps for d in done]),
            ),
        )
        gradient = torch.cat([d.gradient for d in done])[:, self.shared]
        made = (trained.weights - state.weights)[:, self.shared]
        update = self.method.limit(made)
        if update is not made:
            trained.weights[:, self.shared] = state.weights[:, self.shared] + update
        return trained, Uploads(
            update=update,
            gradient=gradient if self.method.uses_gradients else None,
            gradient_norm=torch.cat([d.last_gradient[:, self.shared].norm(dim=1) for d in done]),
            prototypes=torch.cat(local) if self.method.uses_prototypes else None,
            loss=torch.cat([d.loss for d in done]),
        )

    def adopt(self, before: AgentsState, trained: AgentsState, downloads: Downloads) -> AgentsState:
        """Return w_old + κ·Δ + s·reward on the shared parameters.

        Personal parameters keep their trained values; the optimiser's moments stay.
        """
        old = before.weights[:, self.shared]
        own = trained.weights[:, self.shared]
        # lerp is exact at both ends: κ = 0 goes back to the old weights, κ = 1 keeps the trained.
        kept = torch.lerp(old, own, downloads.retained.to(old.dtype)[:, None])
        weights = trained.weights.clone()
        weights[:, self.shared] = kept + self.method.reward_step * downloads.reward.to(old.dtype)
        return AgentsState(weights, trained.moments)

    def prototypes(self, state: AgentsState) -> Tensor:
        """Return the local prototypes of all agents, `(M, H)`."""
        return torch.cat(list(self._map(lambda k: self._local(k, state.weights[self.stacks[k]]))))

    def accuracy(self, state: AgentsState) -> Tensor:
        """Return each agent's accuracy on its own test graphs, `(A,)`."""

        def work(k: int) -> Tensor:
            return accuracy(self.model, state.weights[self.stacks[k]], self.tests[k])

        return torch.cat(list(self._map(work)))

    @torch.no_grad()
    def _local(self, k: int, weights: Tensor) -> Tensor:
        full = self.loaders[k].full
        embedding = self.model.embed(self.model.layout.unpack(weights), full)
        return local_prototypes(embedding, full)

    def _map(self, work: Callable[[int], T]) -> list[T]:
        """Work on all stacks, in parallel where there are several workers."""
        numbers = range(len(self.stacks))
        if self.threads == 1 or len(numbers) == 1:
            return [work(k) for k in numbers]
        return list(self.pool.map(work, numbers))
