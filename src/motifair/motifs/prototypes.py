"""Motif prototypes: what graphs with a motif look like to a model, on average."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from motifair.bag_sum import BagSum
from motifair.graphs.batch import Batch


def local_prototypes(embedding: Tensor, batch: Batch) -> Tensor:
    """E10: c_{i,k} = mean of f_{ω_i}(G) over the graphs G of D_{i,k}.

    `embedding` is `(R, G, H)`; the result `(M, H)` has the motifs of all R agents one after
    another. A motif in no graph of the batch gives zeros.
    """
    summed = batch.motifs(embedding.reshape(-1, embedding.shape[-1]))
    return summed * batch.motif_weight[:, None]


def global_prototypes(
    local: Tensor, owners: BagSum, agent: Tensor, value: Tensor, previous: Tensor, active: Tensor
) -> tuple[Tensor, Tensor]:
    """E11: c_{N,k} = Σ_{i∈N_k} ReLU(r_i) c_{i,k} / Σ_{i∈N_k} ReLU(r_i).

    `local (M, H)` with the agent of each entry `(M,)`, `owners` that adds up the entries of each
    motif (M → K), and `value (A,)` give `(K, H)` and which motifs have a prototype `(K,)`. Where
    no owner has a positive value the previous prototype stays.

    >>> from scipy import sparse
    >>> owners = BagSum.of(sparse.csr_array([[1, 1, 0], [0, 0, 1]]))
    >>> c, active = global_prototypes(
    ...     torch.tensor([[0.0], [4.0], [9.0]]), owners, torch.tensor([0, 1, 1]),
    ...     torch.tensor([3.0, 1.0]), torch.zeros(2, 1), torch.tensor([False, False]))
    >>> c.flatten().tolist(), active.tolist()
    ([1.0, 9.0], [True, True])
    """
    weight = value.clamp(min=0)[agent].to(local.dtype)[:, None]
    total = owners(weight)
    fresh = total > 0
    mean = owners(local * weight) / torch.where(fresh, total, 1.0)
    return torch.where(fresh, mean, previous), active | fresh[:, 0]


def prototype_distance(local: Tensor, reference: Tensor, kind: str) -> Tensor:
    """d(c_{i,k}, c_{N,k}) of E13 for every motif, `(M, H) -> (M,)`.

    `l2` is the Euclidean distance as in the paper; `unit` the same between directions, which does
    not depend on the scale of sum-pooled embeddings. Distances within rounding of 0 are 0 and have
    no gradient: it would be a whole step in an arbitrary direction.

    >>> prototype_distance(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2), "l2").tolist()
    [5.0]
    """
    if kind == "unit":
        reference = F.normalize(reference, dim=-1)
    distance: Tensor = _Distance.apply(local, reference, kind == "unit")  # type: ignore[no-untyped-call]
    return distance


class _Distance(torch.autograd.Function):
    """|c − r|, or |c/|c| − r|, in a third of the steps that autograd takes."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, reference: Tensor, unit: bool) -> Tensor:
        length = torch.linalg.vector_norm(local, dim=-1, keepdim=True).clamp(min=1e-12)
        placed = local / length if unit else local
        apart = placed - reference
        distance = torch.linalg.vector_norm(apart, dim=-1, keepdim=True)
        rounding = 100 * torch.finfo(local.dtype).eps * (1.0 if unit else length)
        real = distance > rounding
        direction = torch.where(real, apart / distance.clamp(min=1e-30), 0.0)
        ctx.unit = unit
        ctx.save_for_backward(direction, placed, length)
        return torch.where(real, distance, 0.0)[:, 0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        direction, placed, length = ctx.saved_tensors
        g = gradient[:, None] * direction
        if ctx.unit:
            g = (g - placed * (placed * g).sum(dim=-1, keepdim=True)) / length
        return g, None, None
