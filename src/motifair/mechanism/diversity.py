"""How much of the federation's variety an agent brings: d_i."""

from __future__ import annotations

from torch import Tensor


def diversity(motifs: Tensor, union: int) -> Tensor:
    """E8: d_i = k_i / K, `(..., A) -> (..., A)`; `union` is K, the motifs of all agents together.

    >>> import torch
    >>> diversity(torch.tensor([3, 4]), union=4).tolist()
    [0.75, 1.0]
    """
    return motifs.double() / max(union, 1)
