"""The payoff of a round: reward, penalty, and compensation for late contributions."""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.mechanism.alignment import coalitions, shapley

MOST_AGENTS_EXACT = 14


def compensation(value: Tensor, earlier_mean: Tensor, rounds: int | Tensor) -> Tensor:
    """E4: μ_i^t = max(r_i^t − mean of r_i^1..r_i^{t−1}, 0); 0 in the first round. `(..., A)`.

    `earlier_mean` is the mean, and `rounds` is t−1, the number of rounds it is over.

    >>> compensation(torch.tensor([0.5, 0.125]), torch.tensor([0.25, 0.5]), rounds=5).tolist()
    [0.25, 0.0]
    """
    return (value - earlier_mean).clamp(min=0) * (rounds > 0)


def payoff(value: Tensor, bonus: Tensor, budget: float) -> Tensor:
    """E5: p_i = r_i if r_i < 0 else r_i + μ_i;  payoff_i = B·p_i / Σ_j p_j. `(..., A)`.

    `value` is r, `bonus` is μ, `budget` is B. Since Σ r = 1 and μ ≥ 0, the sum of p is at least 1.

    >>> payoff(torch.tensor([0.75, 0.5, -0.25]), torch.tensor([1.0, 0.0, 9.0]), budget=2.0).tolist()
    [1.75, 0.5, -0.25]
    """
    share = torch.where(value < 0, value, value + bonus)
    return budget * share / share.sum(dim=-1, keepdim=True)


def equal_payoff(graphs: Tensor, budget: float) -> Tensor:
    """Pay every agent B/N, `(..., A) -> (..., A)`."""
    return torch.full_like(graphs, budget / graphs.shape[-1], dtype=torch.float64)


def individual_payoff(graphs: Tensor, budget: float) -> Tensor:
    """Pay in proportion to the value of each agent alone, Φ({i}) = log(1+|D_i|)."""
    share = torch.log1p(graphs.double())
    return budget * share / share.sum(dim=-1, keepdim=True)


def union_payoff(graphs: Tensor, budget: float) -> Tensor:
    """Pay in proportion to Φ(N) − Φ(N∖{i}) with Φ(S) = log(1+Σ_S|D_j|)."""
    total = graphs.double().sum(dim=-1, keepdim=True)
    share = torch.log1p(total) - torch.log1p(total - graphs)
    return budget * share / share.sum(dim=-1, keepdim=True)


def shapley_payoff(graphs: Tensor, budget: float) -> Tensor:
    """Pay in proportion to the Shapley value of Φ(S) = log(1+Σ_S|D_j|).

    It is exact for at most 14 agents, and estimated from random orders for more.

    >>> shapley_payoff(torch.tensor([5, 5]), budget=1.0).tolist()
    [0.5, 0.5]
    """
    agents = graphs.shape[-1]
    if agents > MOST_AGENTS_EXACT:
        one = graphs.reshape(-1, agents).cpu().double()
        share = torch.stack([sampled_shapley(g) for g in one]).view_as(graphs).to(graphs.device)
    else:
        member = coalitions(agents, graphs.device).double()
        share = shapley(torch.log1p(graphs.double() @ member.mT))
    return budget * share / share.sum(dim=-1, keepdim=True)


def sampled_shapley(graphs: Tensor, budget: int = 20_000_000) -> Tensor:
    """Estimate the Shapley values of log(1+Σ_S|D_j|) from random orders.

    Each order is used in all its rotations, so that every agent has every position equally often:
    the first position gains most by far and would dominate the variance. `budget` bounds the number
    of operations. The orders come from a fixed seed, so that estimates are reproducible.

    >>> sampled_shapley(torch.full((20,), 5.0)).std().item() < 1e-6
    True
    """
    agents = len(graphs)
    draws = min(1000, max(4, budget // agents**2))
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros_like(graphs)
    rotation = (torch.arange(agents)[:, None] + torch.arange(agents)) % agents
    for _ in range(draws):
        order = torch.randperm(agents, generator=generator)[rotation]
        reached = torch.log1p(graphs[order].cumsum(dim=1))
        first = torch.zeros(agents, 1, dtype=reached.dtype)
        gain = torch.diff(reached, dim=1, prepend=first)
        total.index_add_(0, order.flatten(), gain.flatten())
    return total / (draws * agents)


SIZE_PAYOFFS = {
    "equal": equal_payoff,
    "individual": individual_payoff,
    "union": union_payoff,
    "shapley": shapley_payoff,
}
