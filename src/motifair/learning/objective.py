"""The training objective of an agent: a sum of terms, each `(R,)` for a stack of R agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.graphs.task import BINARY, CLASSES
from motifair.kernels import column_sums, row_sums
from motifair.motifs.prototypes import local_prototypes, prototype_distance

ROUNDING = 1e-6
SURE = 0.5  # log-probability of the likeliest class above the classes' mean: odds of e to 1 of two


@dataclass(frozen=True)
class ForwardPass:
    """Inputs and outputs of one forward pass, from which the terms of the objective are computed.

    Attributes:
        batch: The graphs of R agents.
        weights: The current weights, `(R, D)`.
        received: The weights at the start of the round, `(R, D)`.
        embedding: The graph embeddings, `(R, G, H)`, or None if the model has none.
        scores: What the model says of each graph, `(R, G, outputs)`: log-probabilities of classes,
            logits of binary tasks, or standardised numbers.
        prototypes: The global prototypes of the agents' motifs, `(M, H)`, if the method uses them.
        active: Which motifs have a global prototype, `(M,)`.
        kind: The kind of task.
        bits: What there is to learn of an answer (`Task.bits`).
    """

    batch: Batch
    weights: Tensor
    received: Tensor
    embedding: Tensor | None
    scores: Tensor
    prototypes: Tensor | None
    active: Tensor | None
    kind: str = CLASSES
    bits: float = 1.0


class Term(Protocol):
    """A term of the objective, computed from a forward pass."""

    def __call__(self, forward: ForwardPass) -> Tensor:
        """Return the loss of every agent, `(R,)`."""
        ...


def supervised(forward: ForwardPass) -> Tensor:
    """L_S of E13: mean loss over each agent's graphs, `(R,)`."""
    return mean_loss(forward.kind, forward.scores, forward.batch)


def mean_loss(kind: str, scores: Tensor, batch: Batch) -> Tensor:
    """Return each agent's mean loss, `(R, G, outputs) -> (R,)`.

    Negative log-likelihood of classes; cross-entropy of binary tasks, or squared error of
    standardised numbers, over the labels that are known.
    """
    if kind == CLASSES:
        return row_sums(scores * batch.label_weight)
    if kind == BINARY:
        loss = F.softplus(scores) - batch.target * scores
    else:
        loss = (scores - batch.target).square()
    return row_sums(loss * batch.label_weight)


@dataclass(frozen=True)
class PrototypeTerm:
    """E13: λ Σ_k d(c_{i,k}, c_{N,k}) over the motifs in the batch that have a global prototype.

    `weight` is λ, `distance` the kind of `prototype_distance`; `reduce="mean"` divides by the
    number of motifs. The global prototypes are constants. λ is that for answers of one bit: the
    loss of rare answers is small whatever is predicted, and the term would decide alone.
    """

    weight: float
    distance: str
    reduce: str

    def __call__(self, forward: ForwardPass) -> Tensor:
        """Return the term of every agent, `(R,)`."""
        assert forward.prototypes is not None
        assert forward.active is not None
        assert forward.embedding is not None
        batch = forward.batch
        active = batch.select_motifs(forward.active)
        used = (active & (batch.motif_weight > 0)).to(forward.embedding.dtype)
        local = local_prototypes(forward.embedding, batch)
        reference = batch.select_motifs(forward.prototypes.detach())
        distance = prototype_distance(local, reference, self.distance) * used
        total = _row_sums(distance, batch)
        if self.reduce == "mean":
            total = total / _row_sums(used, batch).clamp(min=1)
        return self.weight * forward.bits * total


@dataclass(frozen=True)
class ProximalTerm:
    """(μ/2)·|w − w_received|² over the shared parameters (FedProx); `weight` is μ."""

    weight: float
    shared: slice

    def __call__(self, forward: ForwardPass) -> Tensor:
        """Return the term of every agent, `(R,)`."""
        moved = (forward.weights - forward.received)[:, self.shared]
        return self.weight / 2 * row_sums(moved * moved)


def _row_sums(values: Tensor, batch: Batch) -> Tensor:
    """Sum values of motifs over the motifs of each agent, `(M,) -> (R,)`."""
    return batch.motif_rows(values[:, None])[:, 0]


def equally_sure(kind: str, scores: Sequence[Tensor], batch: Batch) -> list[Tensor]:
    """Return the scores of several models as if each were as sure of an agent's median graph,
    `(R, G, C)` each.

    How sure a model is of its classes, all log-odds multiplied by one number, is luck of the
    training and can be set at will; which graphs it is surer of than of others cannot. They are as
    sure as the median of these models, and at most `SURE`: models that have hardly learnt anything
    stay unsure. Scores of binary tasks and numbers stay as they are: there the size says how
    frequent answers are, or how large numbers.
    """
    if kind != CLASSES:
        return list(scores)
    above = [s - s.mean(dim=-1, keepdim=True) for s in scores]
    known = batch.graph_weight > 0
    sure = [a.amax(dim=-1).where(known, torch.nan).nanmedian(dim=-1).values for a in above]
    usual = torch.stack(sure).nanmedian(dim=0).values.clamp(max=SURE)
    scale = [usual / s.clamp(min=ROUNDING) for s in sure]
    return [
        torch.log_softmax(a * by[:, None, None], dim=-1) for a, by in zip(above, scale, strict=True)
    ]


def discrimination(kind: str, scores: Tensor, batch: Batch) -> Tensor:
    """Return how well predictions tell each agent's targets apart, `(R,)`.

    Of classes it is the mean over classes of E[p_c | class c] − E[p_c | other classes] (Tjur's
    coefficient): 0 by chance, 1 at best, negative where the classes are swapped. Unlike a loss it
    does not depend on how frequent the classes are. NaN where an agent has graphs of one class
    only. Of binary tasks and numbers it is the mean of `_slopes`.
    """
    if kind != CLASSES:
        return _slopes(kind, scores, batch)
    inside = -batch.label_weight
    outside = batch.graph_weight.unsqueeze(-1) - inside
    p, rounding = scores.exp(), ROUNDING
    total = [column_sums(w) for w in (inside, outside)]
    means = [column_sums(w * p) / t for w, t in zip((inside, outside), total, strict=True)]
    both = (total[0] > rounding) & (total[1] > rounding)
    told = torch.where(both, means[0] - means[1], 0.0)
    return row_sums(told) / both.sum(dim=-1)


def _slopes(kind: str, scores: Tensor, batch: Batch) -> Tensor:
    """Return the mean over targets of the slope of predictions on targets, from −1 to 1, `(R,)`.

    cov(p, y) / var(y) over the known labels, which for a binary task is Tjur's coefficient. NaN
    where no target of an agent varies.
    """
    y, weight = batch.target, batch.label_weight
    p = scores.sigmoid() if kind == BINARY else scores
    share = weight / column_sums(weight).unsqueeze(1).clamp(min=ROUNDING**2)
    difference = y - column_sums(share * y).unsqueeze(1)
    variance = column_sums(share * difference.square())
    varies = variance > ROUNDING
    slope = column_sums(share * difference * p) / variance.clamp(min=ROUNDING)
    told = torch.where(varies, slope.clamp(-1, 1), 0.0)
    return row_sums(told) / varies.sum(dim=-1)
