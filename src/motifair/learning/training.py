"""Local training of a stack of agents: the only training loop there is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.learning.adam import Adam, Moments, adam_step_
from motifair.learning.loader import Loader
from motifair.learning.objective import Pass, Term
from motifair.learning.randomness import DropoutBits, fold
from motifair.models import Model
from motifair.models.perceptron import ALL, Keep

_DROPOUT = 2  # beside the shuffle of learning/loader.py


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
    adam: Adam
    dropout: DropoutBits

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
        received, weights, moments = weights, weights.clone(), moments.clone()
        taken = torch.zeros(len(weights), dtype=torch.int64, device=weights.device)
        loss_sum: Tensor | int = 0
        gradient_sum: Tensor | int = 0
        last = weights  # overwritten in the first step, in which every row has a batch
        for epoch in range(self.epochs):
            for batch, moving in loader.epoch(keys, epoch):
                leaf = weights.detach().requires_grad_()
                loss = self.loss(
                    leaf, received, batch, fold(keys, _DROPOUT, taken), prototypes, active
                )
                (gradient,) = torch.autograd.grad(loss.sum(), leaf)
                adam_step_(weights, gradient, moments, moving, self.adam)
                here = moving[:, None]
                loss_sum = loss_sum + loss.detach() * moving
                gradient_sum = gradient_sum + gradient * here
                last = torch.where(here, gradient, last)
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
        keep = self._keep(keys, batch)
        embedding = self.model.embed(weights, batch, keep)
        log_probabilities = self.model.classify(weights, embedding, keep)
        forward = Pass(batch, weights, received, embedding, log_probabilities, prototypes, active)
        total = self.terms[0](forward)
        for term in self.terms[1:]:
            total = total + term(forward)
        return total

    def _keep(self, keys: Tensor, batch: Batch) -> list[Keep]:
        """Draw the dropout of one step: for each layer's nodes, and for the graphs."""
        layers, hidden, graphs = self.model.layers, self.model.hidden, batch.target.shape[1]
        if self.dropout.rate == 0:
            return [ALL] * (layers + 1)
        units = [batch.nodes * hidden] * layers + [graphs * hidden]
        return [Keep(bits, self.dropout.scale) for bits in self.dropout(keys, units)]
