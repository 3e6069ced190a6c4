"""How updates become one: weights over agents, and the weighted sum."""

from __future__ import annotations

from torch import Tensor


def size_weights(graphs: Tensor) -> Tensor:
    """E1: a_i = |D_i| / |D|, `(..., A) -> (..., A)`.

    >>> import torch
    >>> size_weights(torch.tensor([30, 10])).tolist()
    [0.75, 0.25]
    """
    return graphs.double() / graphs.double().sum(dim=-1, keepdim=True)


def value_weights(value: Tensor) -> Tensor:
    """E12: a_i = ReLU(r_i) / Σ_j ReLU(r_j), `(..., A) -> (..., A)`.

    >>> import torch
    >>> value_weights(torch.tensor([0.6, -0.2, 0.6])).tolist()
    [0.5, 0.0, 0.5]
    """
    positive = value.clamp(min=0)
    return positive / positive.sum(dim=-1, keepdim=True)


def aggregate(updates: Tensor, weights: Tensor) -> Tensor:
    """E1, E12: u_N = Σ_i a_i u_i, `(..., A, D), (..., A) -> (..., D)`.

    With a weight for each pair of agents `(..., A, A)` every agent has an aggregate of its own
    `(..., A, D)`: row i holds the weights in agent i's.

    >>> import torch
    >>> aggregate(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0.5, 0.5])).tolist()
    [0.5, 1.0]
    """
    if weights.dim() == updates.dim():
        return weights.to(updates.dtype) @ updates
    return (weights.to(updates.dtype).unsqueeze(-2) @ updates).squeeze(-2)
