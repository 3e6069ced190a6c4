"""The agents' side of a round: train, upload, adopt the reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from motifair.config import Config
from motifair.evaluation.accuracy import constant, outputs, scores
from motifair.evaluation.own_weight import held_back, own_weights
from motifair.federation.parallel import Done, ParallelTraining, Work
from motifair.federation.protocol import Downloads, Uploads
from motifair.graphs.batch import Batch, Shard, collate
from motifair.graphs.graph_set import ranges
from motifair.graphs.task import Task
from motifair.kernels import norms
from motifair.learning.adam import Adam, Moments
from motifair.learning.common_moments import CommonMoments
from motifair.learning.loader import Loader
from motifair.learning.objective import discrimination, equally_sure, mean_loss
from motifair.learning.randomness import DropoutBits, derive_seed, fold
from motifair.learning.training import LocalTraining
from motifair.methods import Method
from motifair.methods.self_train import SelfTrain
from motifair.models import Model
from motifair.motifs.prototypes import local_prototypes

WORST_LOSS = 1e6  # of a model that is judged


@dataclass(frozen=True)
class AgentsState:
    """Weights `(A, D)` and moments of each agent's optimiser; `own` has those of the models that
    agents train alone, for methods that mix both into predictions.
    """

    weights: Tensor
    moments: Moments
    own: AgentsState | None = None

    @classmethod
    def concatenate(cls, states: Sequence[AgentsState]) -> AgentsState:
        """Put the agents of several federations one after another."""
        return cls(
            torch.cat([s.weights for s in states]),
            Moments.concatenate([s.moments for s in states]),
            None if states[0].own is None else cls.concatenate([s.own for s in states if s.own]),
        )

    def rows(self, rows: slice) -> AgentsState:
        """Return the state of some agents."""
        own = None if self.own is None else self.own.rows(rows)
        return AgentsState(self.weights[rows], self.moments.rows(rows), own)


class Agents:
    """Agents as rows, trained in stacks of rows by `threads` workers.

    On a CPU a stack is one row (larger ones only spill the cache), so that an agent computes
    exactly what it would compute alone; on a GPU all rows of about the same size are a stack.
    """

    def __init__(
        self,
        keys: Tensor,
        own_keys: Tensor,
        train: Sequence[Shard],
        test: Sequence[Shard],
        method: Method,
        training: LocalTraining,
        *,
        batch_size: int,
        local_steps: int,
        stacks: Sequence[Sequence[int]],
        threads: int,
        federations: int,
        dtype: torch.dtype,
        tasks: Sequence[Task] | None = None,
    ) -> None:
        """`keys`, `own_keys` `(A,)` seed the random bits of agents' federated and own models;
        `tasks` are what agents predict where they differ in that.
        """
        self.federations = federations
        self.keys, self.method, self.training = keys, method, training
        self.model = training.model
        self.shared = self.model.layout.shared(method.share)
        self.common: CommonMoments | None = None
        if method.shares_moments(self.model.task):
            self.common = CommonMoments(self.model.layout, self.shared, training.adam.beta2)
        device = keys.device

        def loader(shards: list[Shard], layers: int = 0) -> Loader:
            return Loader(shards, batch_size, device, dtype, layers=layers, steps=local_steps)

        # Prototypes are read off the training graphs without dropout, if at all.
        layers = self.model.distinct_layers
        training_layers = layers if method.uses_prototypes else 0
        self.loaders = [loader([train[r] for r in rows], training_layers) for rows in stacks]
        self.tests = [
            collate([test[r] for r in rows], device, dtype, layers=layers) for rows in stacks
        ]
        self.tasks = [None if tasks is None else [tasks[r] for r in rows] for rows in stacks]
        self.stacks = [_places(np.array(rows), device) for rows in stacks]
        count = np.array([s.motifs.shape[1] for s in train])
        first = np.cumsum(count) - count
        entries = [ranges(first[list(rows)], count[list(rows)]) for rows in stacks]
        self.entries = [_places(e, device) for e in entries]
        self.in_order = [r for rows in stacks for r in rows] == list(range(len(train)))
        self.row_order = torch.tensor([r for rows in stacks for r in rows], device=device).argsort()
        self.entry_order = torch.as_tensor(np.concatenate(entries), device=device).argsort()
        self.threads = min(threads, len(stacks))
        self.parallel = self._parallel()
        self.alone: Agents | None = None
        self.held: list[Batch | None] = [None] * len(stacks)
        if not method.own_weight and not method.trial_rounds:
            return
        if method.own_prior == math.inf:
            self.alone = self._training_alone(own_keys, self.loaders)
            return
        parts = [held_back(key, len(s)) for key, s in zip(own_keys, train, strict=True)]
        held, rest = (
            [s.select(p[k].numpy()) for s, p in zip(train, parts, strict=True)] for k in (0, 1)
        )
        self.alone = self._training_alone(
            own_keys, [loader([rest[r] for r in rows]) for rows in stacks]
        )
        self.held = [
            collate([held[r] for r in rows], device, dtype, layers=layers)
            if any(len(held[r]) for r in rows)
            else None
            for rows in stacks
        ]

    def _training_alone(self, keys: Tensor, loaders: list[Loader]) -> Agents:
        """Return the same agents training alone with other random bits, on what `loaders` have."""
        alone = copy(self)
        alone.alone, alone.common, alone.keys, alone.loaders = None, None, keys, loaders
        alone.method = SelfTrain().bind(self.method.config)
        alone.shared = self.model.layout.shared(alone.method.share)
        alone.training = replace(self.training, terms=alone.method.terms(alone.shared))
        alone.parallel = alone._parallel()
        return alone

    def _parallel(self) -> ParallelTraining | None:
        """Return what trains the stacks in worker processes, None where one is enough."""
        if self.threads == 1:
            return None
        sizes = [loader.full.nodes for loader in self.loaders]
        width = self.shared if self.method.uses_gradients else slice(0, 0)
        return ParallelTraining(
            self._train, self.stacks, self.entries, sizes, width, threads=self.threads
        )

    def start(self, rows: Tensor, own: AgentsState | None) -> AgentsState:
        """Return the first state, from initial weights `(A, D)` and agents' `own` models."""
        weights = rows.clone()
        return AgentsState(weights, Moments.zero(weights), own if self.method.own_weight else None)

    def train_alone(
        self, initial: Tensor, rounds: int, notify: Callable[[], None] = lambda: None
    ) -> AgentsState | None:
        """Return the agents' own models after so many rounds alone, from initial weights `(A, D)`;
        None if they have none. `notify` is called after each round.
        """
        if self.alone is None:
            return None
        state = AgentsState(initial.clone(), Moments.zero(initial))
        for number in range(1, rounds + 1):
            round = torch.tensor(number, device=initial.device)
            state, _ = self.alone.train(state, round, None, None)
            notify()
        return state

    def train(
        self,
        state: AgentsState,
        round: Tensor,
        prototypes: Tensor | None,
        active: Tensor | None,
        *,
        own: bool = True,
    ) -> tuple[AgentsState, Uploads]:
        """Train all agents in a round (counted from 1), and their `own` models; the given state is
        left as it was.
        """
        nothing = state.weights[:0]
        work = Work(
            state.weights,
            state.moments.first,
            state.moments.second,
            state.moments.steps,
            fold(self.keys, round),
            nothing if prototypes is None else prototypes.to(state.weights.dtype),
            nothing if active is None else active,
        )
        done = self._train_all(work) if self.parallel is None else self.parallel(work)
        alone = state.own if self.method.own_weight else None
        if own and alone is not None and self.alone is not None:
            alone, _ = self.alone.train(alone, round, None, None)
        trained = AgentsState(done.weights, Moments(done.first, done.second, done.steps), alone)
        made = (trained.weights - state.weights)[:, self.shared]
        update = self._limited(made)
        if update is not made:
            trained.weights[:, self.shared] = state.weights[:, self.shared] + update
        return trained, Uploads(
            update=update,
            gradient=done.gradient if self.method.uses_gradients else None,
            gradient_norm=done.gradient_norm,
            prototypes=done.local if self.method.uses_prototypes else None,
            loss=done.loss,
            moments=None if self.common is None else self.common.means(trained.moments),
        )

    def _limited(self, made: Tensor) -> Tensor:
        """Let the method limit updates, federation by federation unless it takes stacks."""
        if self.federations == 1 or self.method.takes_stacks():
            return self.method.limit(made)
        return torch.cat([self.method.limit(part) for part in made.chunk(self.federations)])

    def _train_all(self, work: Work) -> Done:
        parts = [self._train(k, work) for k in range(len(self.stacks))]
        columns = {f: [getattr(p, f) for p in parts] for f in Done._fields}
        local = columns.pop("local")
        return Done(
            **{f: self._rows(c) for f, c in columns.items()},
            local=self._in_order(local) if self.method.uses_prototypes else local[0],
        )

    def _train(self, k: int, work: Work) -> Done:
        """Train the agents of one stack."""
        rows, entries = self.stacks[k], self.entries[k]
        with_prototypes = self.method.uses_prototypes
        done = self.training(
            work.weights[rows],
            Moments(work.first[rows], work.second[rows], work.steps[rows]),
            self.loaders[k],
            work.keys[rows],
            work.prototypes[entries] if with_prototypes else None,
            work.active[entries] if with_prototypes else None,
        )
        gradient = done.gradient[:, self.shared]
        return Done(
            done.weights,
            done.moments.first,
            done.moments.second,
            done.moments.steps,
            done.loss,
            norms(done.last_gradient[:, self.shared]),
            gradient if self.method.uses_gradients else gradient[:, :0],
            self._local(k, done.weights) if with_prototypes else done.weights[:0],
        )

    def close(self) -> None:
        """End the workers, if there are any."""
        if self.alone is not None:
            self.alone.close()
        if self.parallel is not None:
            self.parallel.close()

    def adopt(self, before: AgentsState, trained: AgentsState, downloads: Downloads) -> AgentsState:
        """Return w_old + κ·Δ + s·reward on the shared parameters.

        Personal parameters keep their trained values; the optimiser's moments stay, or have the
        common means.
        """
        old = before.weights[:, self.shared]
        own = trained.weights[:, self.shared]
        # lerp is exact at both ends: κ = 0 returns to the old weights, κ = 1 keeps the trained.
        kept = torch.lerp(old, own, downloads.retained.to(old.dtype)[:, None])
        weights = trained.weights.clone()
        weights[:, self.shared] = kept + self.method.reward_step * downloads.reward.to(old.dtype)
        moments = self.with_common(trained.moments, downloads.moments)
        return replace(trained, weights=weights, moments=moments)

    def with_common(self, moments: Moments, common: Tensor | None) -> Moments:
        """Return moments with the `common (A, U)` means of units, or as they are without any."""
        if self.common is None or common is None:
            return moments
        return self.common.scaled(moments, common.to(moments.second.dtype))

    def prototypes(self, state: AgentsState) -> Tensor:
        """Return the local prototypes of all agents, `(M, H)`."""
        rows = [state.weights[stack] for stack in self.stacks]
        return self._in_order([self._local(k, weights) for k, weights in enumerate(rows)])

    def evaluate(self, state: AgentsState) -> tuple[Tensor, Tensor]:
        """Return each agent's score on its own test graphs (its accuracy, unless another metric
        was chosen), and whether it predicts the same for all of them, `(A,)` each.
        """
        reached, same = [], []
        each = zip(self.stacks, self.tests, self.tasks, self._own_weights(state), strict=True)
        for stack, test, tasks, weight in each:
            own = None if state.own is None else state.own.weights[stack]
            predicted = outputs(self.model, state.weights[stack], test, own, weight)
            reached.append(scores(self.model.task, predicted, test, tasks))
            same.append(constant(self.model.task, predicted, test))
        return self._rows(reached), self._rows(same)

    def own_weights(self, state: AgentsState) -> Tensor:
        """Return the weight of each agent's own model in what it predicts, `(A,)`."""
        return self._rows(self._own_weights(state))

    def _own_weights(self, state: AgentsState) -> list[Tensor]:
        """Return the weights of own models, stack by stack, `(R,)` each."""
        chosen, usual, prior = [], self.method.own_weight, self.method.own_prior
        for stack, held in zip(self.stacks, self.held, strict=True):
            weights = state.weights[stack]
            if held is None or state.own is None:
                chosen.append(weights.new_full((len(weights),), usual))
            else:
                own = state.own.weights[stack]
                chosen.append(own_weights(self.model, weights, own, held, usual, prior))
        return chosen

    @torch.no_grad()
    def judge(
        self, models: Sequence[Tensor], *, as_they_are: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Return the losses of some models for each agent, `(A, D)` each, on its training graphs,
        and how well they tell their classes apart, `(n, A)` each: made equally sure, unless they
        are judged `as_they_are`.
        """
        losses, told, kind = [], [], self.model.task.kind
        for stack, loader in zip(self.stacks, self.loaders, strict=True):
            full = loader.full
            scores = [self.model.forward(m[stack], full)[1] for m in models]
            scores = scores if as_they_are else equally_sure(kind, scores, full)
            losses.append(torch.stack([mean_loss(kind, s, full) for s in scores], dim=1))
            told.append(torch.stack([discrimination(kind, s, full) for s in scores], dim=1))
        loss = self._rows(losses).double().T
        usable = loss < WORST_LOSS  # a model may be anything, and overflow
        return loss.where(usable, WORST_LOSS), self._rows(told).double().T.where(usable, 0.0)

    @torch.no_grad()
    def _local(self, k: int, weights: Tensor) -> Tensor:
        full = self.loaders[k].full
        embedding = self.model.embed(weights, full)
        return local_prototypes(embedding, full)

    def _rows(self, parts: Sequence[Tensor]) -> Tensor:
        """Concatenate rows of the stacks in the order of agents."""
        joined = torch.cat(list(parts))
        return joined if self.in_order else joined[self.row_order]

    def _in_order(self, parts: Sequence[Tensor]) -> Tensor:
        """Concatenate prototypes of the stacks in the order of agents."""
        joined = torch.cat(list(parts))
        return joined if self.in_order else joined[self.entry_order]


def own_seed(seed: int) -> int:
    """Return the seed of the models that agents train alone in a federation with this seed.

    It is neither the federation's nor that of a training alone that results are compared with:
    accuracies that share random bits are alike for that reason alone.
    """
    return derive_seed(seed, "own")


def local_training(
    config: Config, method: Method, model: Model, device: torch.device
) -> LocalTraining:
    """Return how agents train, as the configuration says."""
    return LocalTraining(
        model=model,
        terms=method.terms(model.layout.shared(method.share)),
        epochs=config.local_epochs,
        adam=Adam(config.learning_rate, config.weight_decay),
        dropout=DropoutBits(config.dropout, device),
    )


def _places(numbers: np.ndarray, device: torch.device) -> slice | Tensor:
    """Return numbers as an index: a slice, which copies nothing, where they follow each other."""
    first = int(numbers[0]) if len(numbers) else 0
    if np.array_equal(numbers, np.arange(first, first + len(numbers))):
        return slice(first, first + len(numbers))
    return torch.as_tensor(numbers, device=device)


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
