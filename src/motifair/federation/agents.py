"""The agents' side of a round: train, upload, adopt the reward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from motifair.evaluation.accuracy import accuracy
from motifair.federation.protocol import Downloads, Uploads
from motifair.graphs.batch import Shard, collate
from motifair.graphs.graph_set import ranges
from motifair.learning.adam import Moments
from motifair.learning.loader import Loader
from motifair.learning.randomness import fold
from motifair.learning.training import LocalTraining, Trained
from motifair.methods import Method
from motifair.motifs.prototypes import local_prototypes

T = TypeVar("T")


@dataclass(frozen=True)
class AgentsState:
    """Weights `(A, D)` and the moments of each agent's optimiser."""

    weights: Tensor
    moments: Moments

    @classmethod
    def concatenate(cls, states: Sequence[AgentsState]) -> AgentsState:
        """Put the agents of several federations one after another."""
        return cls(
            torch.cat([s.weights for s in states]),
            Moments(
                torch.cat([s.moments.first for s in states]),
                torch.cat([s.moments.second for s in states]),
                torch.cat([s.moments.steps for s in states]),
            ),
        )


class Agents:
    """Agents as rows, trained in stacks of rows by `threads` workers.

    On a CPU a stack is one row (larger ones only spill the cache), so that an agent computes
    exactly what it would compute alone; on a GPU all rows of about the same size are a stack.
    """

    def __init__(
        self,
        keys: Tensor,
        train: Sequence[Shard],
        test: Sequence[Shard],
        method: Method,
        training: LocalTraining,
        *,
        batch_size: int,
        stacks: Sequence[Sequence[int]],
        threads: int,
        dtype: torch.dtype,
    ) -> None:
        self.keys, self.method, self.training = keys, method, training
        self.model = training.model
        self.shared = self.model.layout.shared(method.share)
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
        device = keys.device
        # Prototypes are read off the training graphs without dropout, if at all.
        still = self.model.still_layers
        training_still = still if method.uses_prototypes else 0
        self.loaders = [
            Loader([train[r] for r in rows], batch_size, device, dtype, layers=training_still)
            for rows in stacks
        ]
        self.tests = [
            collate([test[r] for r in rows], device, dtype, layers=still) for rows in stacks
        ]
        self.stacks = [torch.tensor(rows, device=device) for rows in stacks]
        count = np.array([s.motifs.shape[1] for s in train])
        first = np.cumsum(count) - count
        entries = [ranges(first[list(rows)], count[list(rows)]) for rows in stacks]
        self.entries = [torch.as_tensor(e, device=device) for e in entries]
        self.in_order = [r for rows in stacks for r in rows] == list(range(len(train)))
        self.row_order = torch.argsort(torch.cat(self.stacks))
        self.entry_order = torch.argsort(torch.cat(self.entries))

    @property
    def same_batches(self) -> bool:
        """Whether every agent trains on all its graphs at once, in every round."""
        return all(loader.stack is None for loader in self.loaders)

    def start(self, rows: Tensor) -> AgentsState:
        """Give agents their initial weights `(A, D)`."""
        weights = rows.clone()
        return AgentsState(weights, Moments.zero(weights))

    def train(
        self, state: AgentsState, round: Tensor, prototypes: Tensor | None, active: Tensor | None
    ) -> tuple[AgentsState, Uploads]:
        """Train all agents in a round (counted from 1); the given state is left as it was."""
        keys = fold(self.keys, round)

        def work(k: int) -> tuple[Trained, Tensor | None]:
            rows, entries = self.stacks[k], self.entries[k]
            done = self.training(
                state.weights[rows],
                state.moments.rows(rows),
                self.loaders[k],
                keys[rows],
                None if prototypes is None else prototypes[entries].to(state.weights.dtype),
                None if active is None else active[entries],
            )
            local = self._local(k, done.weights) if self.method.uses_prototypes else None
            return done, local

        done, local = zip(*self._map(work), strict=True)
        trained = AgentsState(
            self._rows([d.weights for d in done]),
            Moments(
                self._rows([d.moments.first for d in done]),
                self._rows([d.moments.second for d in done]),
                self._rows([d.moments.steps for d in done]),
            ),
        )
        gradient = None
        if self.method.uses_gradients:
            gradient = self._rows([d.gradient[:, self.shared] for d in done])
        made = (trained.weights - state.weights)[:, self.shared]
        update = self.method.limit(made)
        if update is not made:
            trained.weights[:, self.shared] = state.weights[:, self.shared] + update
        return trained, Uploads(
            update=update,
            gradient=gradient,
            gradient_norm=self._rows([d.last_gradient[:, self.shared].norm(dim=1) for d in done]),
            prototypes=self._in_order(local) if self.method.uses_prototypes else None,
            loss=self._rows([d.loss for d in done]),
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
        return self._in_order(self._map(lambda k: self._local(k, state.weights[self.stacks[k]])))

    def accuracy(self, state: AgentsState) -> Tensor:
        """Return each agent's accuracy on its own test graphs, `(A,)`."""

        def work(k: int) -> Tensor:
            return accuracy(self.model, state.weights[self.stacks[k]], self.tests[k])

        return self._rows(self._map(work))

    @torch.no_grad()
    def _local(self, k: int, weights: Tensor) -> Tensor:
        full = self.loaders[k].full
        embedding = self.model.embed(weights, full)
        return local_prototypes(embedding, full)

    def _rows(self, parts: Sequence[Tensor]) -> Tensor:
        """Put what belongs to the agents of each stack in the order of agents."""
        joined = torch.cat(list(parts))
        return joined if self.in_order else joined[self.row_order]

    def _in_order(self, parts: Sequence[Tensor]) -> Tensor:
        """Put prototypes in the order of agents."""
        joined = torch.cat(list(parts))
        return joined if self.in_order else joined[self.entry_order]

    def _map(self, work: Callable[[int], T]) -> list[T]:
        """Work on all stacks, in parallel where there are several workers."""
        numbers = range(len(self.stacks))
        if self.threads == 1 or len(numbers) == 1:
            return [work(k) for k in numbers]
        return list(self.pool.map(work, numbers))


def similar_sizes(sizes: Sequence[int], *, most: int, overhead: int) -> list[list[int]]:
    """Share rows out to stacks of similar size, largest first, so that little of them is padding.

    A stack ends before its padding exceeds a tenth of what is in it, unless that is less than
    `overhead` (what a further stack costs, as a size), and before it is `most` in size.

    >>> similar_sizes([10, 90, 11, 100], most=1000, overhead=0)
    [[3, 1], [2, 0]]
    """
    stacks: list[list[int]] = []
    inside = largest = 0
    for row in sorted(range(len(sizes)), key=lambda r: -sizes[r]):
        size = sizes[row]
        padded = largest * (len(stacks[-1]) + 1) if stacks else 0
        padding = padded - inside - size
        if not stacks or padding > max(0.1 * (inside + size), overhead) or padded > most:
            stacks.append([])
            inside, largest = 0, size
        stacks[-1].append(row)
        inside += size
    return stacks
