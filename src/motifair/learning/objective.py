"""What an agent minimises: a sum of terms, each a number for every row of the stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.motifs.prototypes import local_prototypes, prototype_distance


@dataclass(frozen=True)
class Pass:
    """One forward pass over a batch, as the terms of an objective see it."""

    batch: Batch
    weights: Tensor
    received: Tensor
    embedding: Tensor
    log_probabilities: Tensor
    prototypes: Tensor | None
    active: Tensor | None


class Term(Protocol):
    """A term of the objective: `(R,)` from a forward pass."""

    def __call__(self, forward: Pass) -> Tensor:
        """Return the loss of every row."""
        ...


def supervised(forward: Pass) -> Tensor:
    """L_S of E13: mean negative log-likelihood over each agent's graphs, `(R,)`."""
    return (forward.log_probabilities * forward.batch.label_weight).sum(dim=(1, 2))


@dataclass(frozen=True)
class PrototypeTerm:
    """E13: λ Σ_k d(c_{i,k}, c_{N,k}) over the motifs in the batch that have a global prototype.

    `reduce="mean"` divides by their number. The global prototypes are constants.
    """

    weight: float
    distance: str
    reduce: str

    def __call__(self, forward: Pass) -> Tensor:
        """Return the term for every row."""
        assert forward.prototypes is not None
        assert forward.active is not None
        batch = forward.batch
        active = batch.of_motifs(forward.active)
        used = (active & (batch.motif_weight > 0)).to(forward.embedding.dtype)
        local = local_prototypes(forward.embedding, batch)
        reference = batch.of_motifs(forward.prototypes.detach())
        apart = prototype_distance(local, reference, self.distance) * used
        total = _row_sums(apart, batch)
        if self.reduce == "mean":
            total = total / _row_sums(used, batch).clamp(min=1)
        return self.weight * total


@dataclass(frozen=True)
class ProximalTerm:
    """(μ/2)·|w − w_received|² over the shared parameters (FedProx)."""

    weight: float
    shared: slice

    def __call__(self, forward: Pass) -> Tensor:
        """Return the term for every row."""
        moved = (forward.weights - forward.received)[:, self.shared]
        return self.weight / 2 * (moved * moved).sum(dim=1)


def _row_sums(values: Tensor, batch: Batch) -> Tensor:
    """Add up what belongs to the same agent, `(M,) -> (R,)`."""
    return batch.motif_rows(values[:, None])[:, 0]
