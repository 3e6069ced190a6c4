"""Diversity d_i: the share of the federation's motifs that an agent has."""

from __future__ import annotations

import torch
from torch import Tensor


def diversity(motif: Tensor, agent: Tensor, agents: int, corroboration: int = 1) -> Tensor:
    """E8: d_i = k_i / K, `(A,)`: the share of all agents' motifs that agent i has.

    `agent[e]` has `motif[e]` for each entry e, both numbered from 0. Only motifs of at least
    `corroboration` agents are counted, in k_i and in K: with 1 all of them, as in the paper; with 2
    a motif of a single agent does not count.

    >>> motif, agent = torch.tensor([0, 1, 1, 1, 2, 3]), torch.tensor([0, 0, 1, 2, 2, 2])
    >>> diversity(motif, agent, 3).tolist(), diversity(motif, agent, 3, corroboration=2).tolist()
    ([0.5, 0.25, 0.75], [1.0, 1.0, 1.0])
    """
    counted = (torch.bincount(motif) >= corroboration).double()
    held = torch.bincount(agent, weights=counted[motif], minlength=agents)
    return held / counted.sum().clamp(min=1)
