"""Training in worker processes that read and write tensors in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from motifair.federation.workers import Workers, portions, shared_rows

MANY = 100  # stacks


class Work(NamedTuple):
    """What agents train from: weights and moments `(A, D)`, steps and keys of the round `(A,)`, and
    the global prototypes of their motifs `(M, H)` with which of them exist `(M,)`.
    """

    weights: Tensor
    first: Tensor
    second: Tensor
    steps: Tensor
    keys: Tensor
    prototypes: Tensor
    active: Tensor


class Done(NamedTuple):
    """What training leaves: the same, the mean loss and the norm of the last gradient
    `(A,)`, the mean gradient (of width 0 unless the method uses it), and local prototypes
    `(M, H)`.
    """

    weights: Tensor
    first: Tensor
    second: Tensor
    steps: Tensor
    loss: Tensor
    gradient_norm: Tensor
    gradient: Tensor
    local: Tensor


class ParallelTraining:
    """Trains the stacks of agents in workers, as `train(k, work)` trains stack k in this process.

    `stacks` and `entries` are the rows of agents and of prototypes of each stack, `sizes` what each
    takes to train, `gradient` the components of the mean gradient that are wanted.
    """

    def __init__(
        self,
        train: Callable[[int, Work], Done],
        stacks: Sequence[slice | Tensor],
        entries: Sequence[slice | Tensor],
        sizes: Sequence[int],
        gradient: slice,
        *,
        threads: int,
    ) -> None:
        self.train, self.stacks, self.entries, self.gradient = train, stacks, entries, gradient
        self.threads = threads
        # One portion for each worker saves scheduling; with very many stacks a few more, in case a
        # worker is slowed down.
        self.portions = portions(sizes, threads * (1 if len(stacks) < MANY else 8))
        self.workers: Workers | None = None

    def __call__(self, work: Work) -> Done:
        """Train all stacks; the workers start with the first call."""
        if self.workers is None:
            self._allocate(work)
            self.workers = Workers(self.threads, self._train)
        for shared, tensor in zip(self.inputs, work, strict=True):
            shared.copy_(tensor)
        self.workers(self.portions)
        return Done(*(shared.clone() for shared in self.outputs))

    def _allocate(self, work: Work) -> None:
        """Allocate shared memory; outputs have the shapes of inputs, a prototype for each motif."""
        rows = work.weights
        number = rows[:, 0]
        like = (*work[:4], number, number, rows[:, self.gradient], work.prototypes)
        self.inputs = Work(*(shared_rows(tensor) for tensor in work))
        self.outputs = Done(*(shared_rows(tensor) for tensor in like))

    def _train(self, k: int) -> None:
        done = self.train(k, self.inputs)
        for name, shared, tensor in zip(Done._fields, self.outputs, done, strict=True):
            shared[self.entries[k] if name == "local" else self.stacks[k]] = tensor

    def close(self) -> None:
        """End the workers, if there are any."""
        if self.workers is not None:
            self.workers.close()
            self.workers = None
