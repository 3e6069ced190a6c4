"""Local training of a stack of agents."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.learning.adam import Adam, Moments, adam_step_
from motifair.learning.loader import Loader
from motifair.learning.objective import ForwardPass, Term
from motifair.learning.randomness import DropoutBits, fold
from motifair.models import Model, Noise

_DROPOUT = 2  # counter of the random stream; learning/loader.py uses 1 for shuffling


@dataclass(frozen=True)
class Trained:
    """Result of local training.

    Attributes:
        weights: The trained weights, `(R, D)`.
        moments: The moments of the optimisers.
        loss: Mean loss over the steps, `(R,)`.
        gradient: Mean gradient over the steps, `(R, D)`.
        last_gradient: Gradient of the last step, `(R, D)`.
    """

    weights: Tensor
    moments: Moments
    loss: Tensor
    gradient: Tensor
    last_gradient: Tensor


@dataclass(frozen=True)
class LocalTraining:
    """Settings of local training: model, terms of the objective, epochs, optimiser, dropout."""

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
        """Train R agents for `epochs` epochs.

        Args:
            weights: The weights at the start, `(R, D)`; left unchanged.
            moments: The moments of the optimisers; left unchanged.
            loader: The agents' training graphs.
            keys: The agents' random keys of this round, `(R,)`.
            prototypes: The global prototypes of the agents' motifs, `(M, H)`, or None.
            active: Which motifs have a global prototype, `(M,)`, or None.
        """
        received, weights, moments = weights, weights.clone(), moments.clone()
        taken = torch.zeros(len(weights), dtype=torch.int64, device=weights.device)
        loss_sum = gradient_sum = last = weights  # set in the first step
        steps = 0
        for epoch in range(self.epochs):
            for batch, moving in loader.epoch(keys, epoch):
                leaf = weights.detach().requires_grad_()
                forward = self._forward(
                    leaf, received, batch, fold(keys, _DROPOUT, taken), prototypes, active
                )
                loss = self._objective(forward)
                (gradient,) = torch.autograd.grad(loss.sum(), leaf)
                adam_step_(weights, gradient, moments, moving, self.adam)
                if steps == 0:  # in which every row has a batch
                    loss_sum, gradient_sum, last = loss.detach(), gradient, gradient
                else:
                    here = moving[:, None]
                    loss_sum = loss_sum + loss.detach() * moving
                    gradient_sum = gradient_sum + gradient * here
                    last = torch.where(here, gradient, last)
                steps += 1
                taken = taken + moving  # each agent counts its own steps: they key its dropout
        if steps > 1:
            loss_sum, gradient_sum = loss_sum / taken, gradient_sum / taken[:, None]
        return Trained(weights, moments, loss_sum, gradient_sum, last)

    def _forward(
        self,
        weights: Tensor,
        received: Tensor,
        batch: Batch,
        keys: Tensor,
        prototypes: Tensor | None,
        active: Tensor | None,
    ) -> ForwardPass:
        """Return the forward pass of every agent on one batch, with dropout."""
        embedding, scores = self.model.forward(weights, batch, Noise(keys, self.dropout))
        task = self.model.task
        return ForwardPass(
            batch, weights, received, embedding, scores, prototypes, active, task.kind, task.bits
        )

    def _objective(self, forward: ForwardPass) -> Tensor:
        """Return the sum of the terms of the objective, `(R,)`."""
        total = self.terms[0](forward)
        for term in self.terms[1:]:
            total = total + term(forward)
        return total
