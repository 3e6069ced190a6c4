"""The training objective of an agent: a sum of terms, each `(R,)` for a stack of R agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.motifs.prototypes import local_prototypes, prototype_distance


@dataclass(frozen=True)
class ForwardPass:
    """Inputs and outputs of one forward pass, from which the terms of the objective are computed.

    Attributes:
        batch: The graphs of R agents.
        weights: The current weights, `(R, D)`.
        received: The weights at the start of the round, `(R, D)`.
        embedding: The graph embeddings, `(R, G, H)`.
        log_probabilities: Log-probabilities of the classes, `(R, G, classes)`.
        prototypes: The global prototypes of the agents' motifs, `(M, H)`, if the method uses them.
        active: Which motifs have a global prototype, `(M,)`.
    """

    batch: Batch
    weights: Tensor
    received: Tensor
    embedding: Tensor
    log_probabilities: Tensor
    prototypes: Tensor | None
    active: Tensor | None


class Term(Protocol):
    """A term of the objective, computed from a forward pass."""

    def __call__(self, forward: ForwardPass) -> Tensor:
        """Return the loss of every agent, `(R,)`."""
        ...


def supervised(forward: ForwardPass) -> Tensor:
    """L_S of E13: mean negative log-likelihood over each agent's graphs, `(R,)`."""
    return (forward.log_probabilities * forward.batch.label_weight).sum(dim=(1, 2))


@dataclass(frozen=True)
class PrototypeTerm:
    """E13: λ Σ_k d(c_{i,k}, c_{N,k}) over the motifs in the batch that have a global prototype.

    `weight` is λ, `distance` the kind of `prototype_distance`; `reduce="mean"` divides by the
    number of motifs. The global prototypes are constants.
    """

    weight: float
    distance: str
    reduce: str

    def __call__(self, forward: ForwardPass) -> Tensor:
        """Return the term of every agent, `(R,)`."""
        assert forward.prototypes is not None
        assert forward.active is not None
        batch = forward.batch
        active = batch.select_motifs(forward.active)
        used = (active & (batch.motif_weight > 0)).to(forward.embedding.dtype)
        local = local_prototypes(forward.embedding, batch)
        reference = batch.select_motifs(forward.prototypes.detach())
        distance = prototype_distance(local, reference, self.distance) * used
        total = _row_sums(distance, batch)
        if self.reduce == "mean":
            total = total / _row_sums(used, batch).clamp(min=1)
        return self.weight * total


@dataclass(frozen=True)
class ProximalTerm:
    """(μ/2)·|w − w_received|² over the shared parameters (FedProx); `weight` is μ."""

    weight: float
    shared: slice

    def __call__(self, forward: ForwardPass) -> Tensor:
        """Return the term of every agent, `(R,)`."""
        moved = (forward.weights - forward.received)[:, self.shared]
        return self.weight / 2 * (moved * moved).sum(dim=1)


def _row_sums(values: Tensor, batch: Batch) -> Tensor:
    """Sum values of motifs over the motifs of each agent, `(M,) -> (R,)`."""
    return batch.motif_rows(values[:, None])[:, 0]


def discrimination(forward: ForwardPass) -> Tensor:
    """Return how well predicted probabilities tell each agent's classes apart, `(R,)`.

    The mean over classes of E[p_c | class c] − E[p_c | other classes] (Tjur's coefficient): 0 by
    chance, 1 at best, negative where the classes are swapped. Unlike a loss it does not depend on
    how frequent the classes are. NaN where an agent has graphs of one class only.
    """
    inside = -forward.batch.label_weight
    outside = forward.batch.graph_weight.unsqueeze(-1) - inside
    p, rounding = forward.log_probabilities.detach().exp(), 1e-6
    means = [(w * p).sum(dim=1) / w.sum(dim=1) for w in (inside, outside)]
    both = (inside.sum(dim=1) > rounding) & (outside.sum(dim=1) > rounding)
    told = torch.where(both, means[0] - means[1], 0.0)
    return told.sum(dim=-1) / both.sum(dim=-1)
