"""Motif prototypes: mean embeddings of the graphs that contain a motif."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from motifair.bag_sum import BagSum
from motifair.graphs.batch import Batch
from motifair.kernels import norms, row_sums


def local_prototypes(embedding: Tensor, batch: Batch) -> Tensor:
    """E10: c_{i,k} = mean of f_{ω_i}(G) over the graphs G of D_{i,k}, `(R, G, H) -> (M, H)`.

    The M motifs are those of all R agents in turn. A motif in no graph of the batch gives zeros.
    """
    summed = batch.motifs(embedding.reshape(-1, embedding.shape[-1]))
    return summed * batch.motif_weight[:, None]


def global_prototypes(
    local: Tensor, owners: BagSum, agent: Tensor, value: Tensor, previous: Tensor, active: Tensor
) -> tuple[Tensor, Tensor]:
    """E11: c_{N,k} = Σ_{i∈N_k} ReLU(r_i) c_{i,k} / Σ_{i∈N_k} ReLU(r_i).

    `local (M, H)` has an entry for each agent and motif of its vocabulary, `agent (M,)` is the
    agent of each entry, `owners` sums the entries of each of the K motifs, and `value (A,)` is r.
    Returns the global prototypes `(K, H)`, and which motifs have one `(K,)`. If no owner of a motif
    has a positive value, its `previous` prototype `(K, H)` and its `active (K,)` are kept.

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

    `l2` is the Euclidean distance, as in the paper; `unit` is that of the normalised vectors, which
    does not depend on the scale of sum-pooled embeddings. Distances within rounding error of 0 are
    set to 0, with zero gradient: their direction would be arbitrary.

    >>> prototype_distance(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2), "l2").tolist()
    [5.0]
    """
    if kind == "unit":
        reference = reference / norms(reference).unsqueeze(-1).clamp(min=1e-12)
    distance: Tensor = _Distance.apply(local, reference, kind == "unit")  # type: ignore[no-untyped-call]
    return distance


class _Distance(torch.autograd.Function):
    """|c − r|, or |c/|c| − r|, with a third of the operations of autograd."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, reference: Tensor, unit: bool) -> Tensor:
        length = norms(local).unsqueeze(-1).clamp(min=1e-12)
        placed = local / length if unit else local
        apart = placed - reference
        distance = norms(apart).unsqueeze(-1)
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
            g = (g - placed * row_sums(placed * g).unsqueeze(-1)) / length
        return g, None, None
