"""What valuations may look at: one run of federated averaging, and graphs that agents hold back.

Each agent holds back a fifth of its training graphs. The run records inner products of updates and
gradients, and the losses on held-back graphs of models rebuilt from the updates of every coalition.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from motifair.config import Config
from motifair.federation.agents import local_training
from motifair.graphs.batch import Batch, Shard, collate, repeat
from motifair.learning.adam import Moments
from motifair.learning.loader import Loader
from motifair.learning.objective import mean_loss
from motifair.learning.randomness import fold, stream_keys
from motifair.mechanism.alignment import coalitions
from motifair.methods import make_method
from motifair.models import Model

WINDOW = 10  # rounds from which a coalition's model is rebuilt


class Observation:
    """A run of federated averaging, agent by agent.

    Attributes:
        updates: Inner products of the updates of each round, `(T, A, A)`.
        gradients: Those of updates and gradients, ⟨u_i, g_j⟩, `(T, A, A)`.
        after: Those of updates and the gradients after the round, `(T, A, A)`.
        lengths: Norms of the gradients, `(T, A)`.
        rebuilt: Losses of every coalition's model, rebuilt from the updates of each window, on
            each agent's held-back graphs, `(T / WINDOW, 2^A, A)`.
    """

    def __init__(
        self,
        config: Config,
        model: Model,
        names: Sequence[str],
        train: Sequence[Shard],
        held: Sequence[Shard],
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        self.model, self.agents = model, len(train)
        self.training = local_training(config, make_method(config), model, device)
        self.keys = stream_keys(seed, names, device)
        self.loader = Loader(train, max(map(len, train)), device, torch.float32)
        self.held = [collate([s], device, torch.float32) for s in held]
        graphs = torch.tensor([len(s) for s in train], device=device, dtype=torch.float64)
        member = coalitions(self.agents, device) * graphs
        self.share = member / member.sum(dim=1, keepdim=True).clamp(min=1)
        self.weights = model.layout.initial(seed, torch.float32).to(device)
        self.moments = Moments.zero(self.weights.repeat(self.agents, 1))
        self._run(config.rounds)

    def _run(self, rounds: int) -> None:
        updates, gradients, after, lengths, rebuilt = [], [], [], [], []
        start, moved = self.weights, torch.zeros_like(self.moments.first, dtype=torch.float64)
        previous = moved
        for number in range(1, rounds + 2):
            u, g = (x.double() for x in self._train(number))
            if number > 1:
                after.append(previous @ g.T)
            if number > rounds:
                break
            updates.append(u @ u.T)
            gradients.append(u @ g.T)
            lengths.append(g.norm(dim=1))
            previous, moved = u, moved + u
            self.weights = (self.weights.double() + self.share[-1] @ u).float()
            if number % WINDOW == 0:
                rebuilt.append(self._losses((start.double() + self.share @ moved).float()))
                start, moved = self.weights, torch.zeros_like(moved)
        self.updates, self.gradients = _array(updates), _array(gradients)
        self.after, self.lengths = _array(after), _array(lengths)
        self.rebuilt = _array(rebuilt)

    def _train(self, number: int) -> tuple[Tensor, Tensor]:
        """Return the updates and gradients of all agents, `(A, D)`, from the common model."""
        rows = self.weights.repeat(self.agents, 1)
        keys = fold(self.keys, torch.tensor(number, device=self.keys.device))
        done = self.training(rows, self.moments, self.loader, keys, None, None)
        self.moments = done.moments
        return done.weights - rows, done.gradient

    @torch.no_grad()
    def _losses(self, models: Tensor) -> Tensor:
        """Return the losses of some models on each agent's held-back graphs, `(n, A)`."""

        def loss(one: Batch) -> Tensor:
            batch = repeat(one, len(models))
            _, scores = self.model.forward(models, batch)
            return mean_loss(self.model.task.kind, scores, batch)

        return torch.stack([loss(one) for one in self.held], dim=1)


def _array(parts: Sequence[Tensor]) -> np.ndarray:
    return torch.stack(list(parts)).cpu().numpy() if parts else np.zeros(0)
