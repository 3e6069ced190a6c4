"""Alignment φ_i of an agent's update with those of the federation."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SMALLEST_NORM = 1e-12
MOST_AGENTS_EXACT = 12
ROUNDING = 1e-7


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """cos(a, b) over the last axis; 0 where either vector is 0.

    >>> cosine(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([3.0, 4.0])).tolist()
    [1.0, 0.0]
    """
    return _over_norms((a * b).sum(dim=-1), a.norm(dim=-1), b.norm(dim=-1))


def _over_norms(product: Tensor, norm_a: Tensor, norm_b: Tensor) -> Tensor:
    defined = (norm_a >= SMALLEST_NORM) & (norm_b >= SMALLEST_NORM)
    return torch.where(defined, product / torch.where(defined, norm_a * norm_b, 1.0), 0.0)


def alignment(updates: Tensor, weights: Tensor) -> Tensor:
    """E7: φ_i ≈ cos(u_i, u_N) with u_N = Σ_j a_j u_j, `(..., A, D), (..., A) -> (..., A)`.

    >>> alignment(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([1.0, 0.0])).tolist()
    [1.0, 0.0]
    """
    total = weights.to(updates.dtype).unsqueeze(-2) @ updates
    # As matrix products: for a thousand agents elementwise products take seconds and gigabytes.
    product = (updates @ total.mT).squeeze(-1)
    return _over_norms(product, updates.norm(dim=-1), total.norm(dim=-1))


def alignment_with_others(updates: Tensor, weights: Tensor) -> Tensor:
    """φ_i = cos(u_i, u_N − a_i u_i): E7 with the agent's own update left out of the reference.

    `(..., A, D), (..., A) -> (..., A)`.

    >>> alignment_with_others(torch.eye(2), torch.tensor([0.5, 0.5])).tolist()
    [0.0, 0.0]
    """
    weighted = updates * weights.to(updates.dtype).unsqueeze(-1)
    return cosine(updates, weighted.sum(dim=-2, keepdim=True) - weighted)


def alignment_with_peers(
    vectors: Tensor, gradients: Tensor, votes: Tensor, reach: Tensor
) -> Tensor:
    """φ_i = Σ_j b_j v_ij with v_ij = c_i·cos(u_i, −g_j): does the step of i lower the loss of j?

    Every agent j votes on each other agent with its weight b_j, whatever the norm of its gradient;
    `votes` are b, which sum to 1, and c is `reach`. An agent has no vote on itself: v_jj is the
    mean of its votes on the others. So an agent gains nothing by reporting a gradient that matches
    its own update, nor one that opposes all others, which lowers its own score equally.
    `(..., A, D), (..., A, D), (..., A), (..., A) -> (..., A)`.

    >>> u, one, half = torch.eye(2), torch.ones(2), torch.tensor([0.5, 0.5])
    >>> alignment_with_peers(u, torch.tensor([[-2.0, 0.0], [-3.0, 0.0]]), half, one).tolist()
    [0.5, 0.5]
    >>> alignment_with_peers(u, -u.flip(0), torch.tensor([0.75, 0.25]), half).tolist()
    [0.5, 0.5]
    """
    votes, reach = votes.to(vectors.dtype), reach.to(vectors.dtype)
    step, wish = _directions(vectors), -_directions(gradients)
    on_itself = reach * (step * wish).sum(dim=-1)
    # Sums over all voters and over all agents voted on, each as one matrix product.
    wished, stepped = votes.unsqueeze(-2) @ wish, reach.unsqueeze(-2) @ step
    received = reach * (step @ wished.mT).squeeze(-1) - votes * on_itself
    given = (wish @ stepped.mT).squeeze(-1) - on_itself
    return received + votes * given / max(vectors.shape[-2] - 1, 1)


def reach(updates: Tensor, steps: Tensor) -> Tensor:
    """c_i = min(1, l_i / median of l) with l_i = |u_i| / √steps_i: relative length of an update.

    If only directions counted, an agent would gain by sending a fraction of its update and the rest
    later, to be valued again. An update longer than the median is worth no more. The norm after
    several optimiser `steps` grows about as their root. `(..., A, D), (..., A) -> (..., A)`.

    >>> reach(torch.tensor([[4.0, 3.0], [0.0, 5.0], [20.0, 0.0], [1.0, 0.0]]), torch.ones(4))
    tensor([1.0000, 1.0000, 1.0000, 0.2000])
    """
    length = updates.norm(dim=-1) / steps.to(updates.dtype).clamp(min=1).sqrt()
    median = length.sort(dim=-1).values[..., (length.shape[-1] - 1) // 2, None]
    return torch.clamp(length / median.clamp(min=SMALLEST_NORM), max=1)


def _directions(vectors: Tensor) -> Tensor:
    """Normalise vectors to length 1; those with norm 0 stay 0."""
    norm = vectors.norm(dim=-1, keepdim=True)
    return torch.where(norm >= SMALLEST_NORM, vectors / norm.clamp(min=SMALLEST_NORM), 0.0)


def shapley_alignment(updates: Tensor, weights: Tensor) -> Tensor:
    """E2 with E6: exact Shapley value of ν(S) = cos(Σ_{j∈S} a_j u_j, u_N), shaped as `alignment`.

    All 2^A coalitions are valued with the Gram matrix of the weighted updates, so that D enters in
    one matrix product only. ν(∅) = 0. The values sum to ν(N) = 1.

    >>> shapley_alignment(torch.eye(2).double(), torch.ones(2)).round(decimals=9).tolist()
    [0.5, 0.5]
    """
    agents = updates.shape[-2]
    if agents > MOST_AGENTS_EXACT:
        raise ValueError(f"exact Shapley values are for at most {MOST_AGENTS_EXACT} agents")
    weighted = updates * weights.to(updates.dtype).unsqueeze(-1)
    member = coalitions(agents, updates.device).to(updates.dtype)
    # <u_S, u_N>, |u_S| and |u_N| from inner products of the agents' vectors alone.
    gram = weighted @ weighted.mT
    square = ((member @ gram) * member).sum(dim=-1).clamp(min=0)
    product = gram.sum(dim=-1) @ member.mT
    norm = square.sqrt()
    # A sum that cancels up to rounding error has no direction.
    rounding = ROUNDING * (weighted.norm(dim=-1) @ member.mT)
    points = (norm >= SMALLEST_NORM) & (norm >= rounding)
    defined = points & points[..., -1:]
    value = torch.where(defined, product / torch.where(defined, norm * norm[..., -1:], 1.0), 0.0)
    return shapley(value)


def shapley(game: Tensor) -> Tensor:
    """E2: φ_i = Σ_{S∌i} |S|!(A−|S|−1)!/A! · [ν(S∪{i}) − ν(S)], `(..., 2^A) -> (..., A)`.

    `game[..., s]` is the value of the coalition whose members are the set bits of s.

    >>> shapley(torch.tensor([0.0, 1.0, 1.0, 4.0])).tolist()
    [2.0, 2.0]
    """
    agents = int(math.log2(game.shape[-1]))
    member = coalitions(agents, game.device)
    size = member.sum(dim=-1)
    chance = torch.stack([_chance(agents, s, game) for s in range(agents)])
    values = []
    for i in range(agents):
        without = torch.arange(game.shape[-1] // 2, device=game.device)
        low = without & ((1 << i) - 1)  # insert a zero bit i: coalitions without agent i
        without = ((without - low) << 1) | low
        gain = game[..., without | (1 << i)] - game[..., without]
        values.append((chance[size[without]] * gain).sum(dim=-1))
    return torch.stack(values, dim=-1)


def coalitions(agents: int, device: torch.device) -> Tensor:
    """Return the members of each coalition, 0/1 `(2^A, A)`: bit i of its number is agent i.

    >>> coalitions(2, torch.device("cpu")).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    number = torch.arange(2**agents, device=device)
    return (number[:, None] >> torch.arange(agents, device=device)) & 1


def _chance(agents: int, size: int, like: Tensor) -> Tensor:
    """Return |S|!(A−|S|−1)!/A!, created on the device without a transfer."""
    return like.new_full((), 1 / (agents * math.comb(agents - 1, size)))


ALIGNMENTS = {
    "all": alignment,
    "others": alignment_with_others,
    "shapley": shapley_alignment,
}
