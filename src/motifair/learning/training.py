"""Local training of a stack of agents: the only training loop there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from motifair.graphs.batch import Batch, Shard, collate
from motifair.learning.adam import Moments, adam_step
from motifair.learning.objective import Pass, Term
from motifair.learning.randomness import DropoutMasks, fold, order
from motifair.models import Model

_SHUFFLE, _DROPOUT = 1, 2
_NOTHING = np.zeros(0, dtype=np.int64)


class Loader:
    """The training graphs of a stack of agents, batch after batch.

    An agent whose graphs fit one batch is collated once. Others are shuffled in every epoch, by
    their own keys. In a stack an agent that has run out of batches gets empty ones.
    """

    def __init__(
        self, shards: Sequence[Shard], batch_size: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.shards, self.batch_size = tuple(shards), batch_size
        self.device, self.dtype = device, dtype
        self.full = collate(shards, device, dtype)
        self.single = all(len(s) <= batch_size for s in shards)
        self._all = torch.ones(len(shards), dtype=torch.bool, device=device)

    def epoch(self, keys: Tensor, epoch: int) -> Iterator[tuple[Batch, Tensor]]:
        """Yield batches and which rows have something in them."""
        if self.single:
            yield self.full, self._all
            return
        keys = fold(keys, _SHUFFLE, epoch)
        orders = [
            (order(k, len(s)).cpu().numpy() if len(s) > self.batch_size else None)
            for k, s in zip(keys, self.shards, strict=True)
        ]
        longest = max(len(s) for s in self.shards)
        for start in range(0, longest, self.batch_size):
            parts = [
                s.select(o[start : start + self.batch_size])
                if o is not None
                else (s if start == 0 else s.select(_NOTHING))
                for s, o in zip(self.shards, orders, strict=True)
            ]
            moving = torch.tensor([len(p) > 0 for p in parts], device=self.device)
            yield collate(parts, self.device, self.dtype), moving


@dataclass(frozen=True)
class Trained:
    """What local training leaves: new weights and moments, the mean loss `(R,)`, and the mean and
    the last gradient over its steps `(R, D)`.
    """

    weights: Tensor
    moments: Moments
    loss: Tensor
    gradient: Tensor
    last_gradient: Tensor


@dataclass(frozen=True)
class LocalTraining:
    """How agents train: model, terms of the objective, and the optimiser's settings."""

    model: Model
    terms: tuple[Term, ...]
    epochs: int
    learning_rate: float
    weight_decay: float
    masks: DropoutMasks

    def __call__(
        self,
        weights: Tensor,
        moments: Moments,
        loader: Loader,
        keys: Tensor,
        prototypes: Tensor | None,
        active: Tensor | None,
    ) -> Trained:
        """Train rows `(R, D)` for some epochs; `keys` `(R,)` are the agents' keys of this round."""
        received = weights
        loss_sum = torch.zeros(len(weights), dtype=weights.dtype, device=weights.device)
        gradient_sum = last = torch.zeros_like(weights)
        taken = torch.zeros(len(weights), dtype=torch.int64, device=weights.device)
        for epoch in range(self.epochs):
            for batch, moving in loader.epoch(keys, epoch):
                leaf = weights.detach().requires_grad_()
                loss = self.loss(
                    leaf, received, batch, fold(keys, _DROPOUT, taken), prototypes, active
                )
                (gradient,) = torch.autograd.grad(loss.sum(), leaf)
                weights, moments = adam_step(
                    weights,
                    gradient,
                    moments,
                    moving,
                    learning_rate=self.learning_rate,
                    weight_decay=self.weight_decay,
                )
                loss_sum += loss.detach() * moving
                gradient_sum = gradient_sum + gradient * moving[:, None]
                last = torch.where(moving[:, None], gradient, last)
                taken = taken + moving  # each agent counts its own steps: they key its dropout
        mean = gradient_sum / taken[:, None]
        return Trained(weights, moments, loss_sum / taken, mean, last)

    def loss(
        self,
        weights: Tensor,
        received: Tensor,
        batch: Batch,
        keys: Tensor,
        prototypes: Tensor | None,
        active: Tensor | None,
    ) -> Tensor:
        """Return the objective of every row on one batch, in training mode."""
        p = self.model.layout.unpack(weights)
        masks = self._masks(keys, batch)
        embedding = self.model.embed(p, batch, masks)
        log_probabilities = self.model.classify(p, embedding, masks)
        forward = Pass(batch, weights, received, embedding, log_probabilities, prototypes, active)
        total = self.terms[0](forward)
        for term in self.terms[1:]:
            total = total + term(forward)
        return total

    def _masks(self, keys: Tensor, batch: Batch) -> list[Tensor]:
        """Draw the dropout masks of one step: one for each layer's nodes, one for the graphs."""
        if self.masks.rate == 0:
            return []
        layers, hidden = self.model.layers, self.model.hidden
        return [
            *self.masks(keys, range(layers), batch.nodes, hidden),
            *self.masks(keys, range(layers, layers + 1), batch.target.shape[1], hidden),
        ]
