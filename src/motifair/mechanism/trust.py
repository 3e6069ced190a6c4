"""How far an agent's graphs can be believed: what stands against them, and how many they are.

Evidence that a few honest agents share is the scale: seven tenths of what the second-best agent
shows are enough for full trust. One agent alone cannot set the scale, and honest differences
between agents do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

ENOUGH = 0.7  # part of the second-best evidence that earns full trust
LEAST_WIRING = 0.1  # of a consistency: what a hundred graphs show by chance
RINGS = 4  # the first measures of the wiring
MOST_OF_A_CLASS = 0.9  # of its graphs: with more an agent begins to have the class alone
DIVIDED = 0.5  # evidence of both signs that cancels to less than this part


def trust(evidence: Tensor, least: Tensor | float) -> Tensor:
    """τ_i = clip((e_i + ε) / (0.7·e_(2) + ε), 0, 1) with e_(2) the second-largest, `(..., A)`.

    ε is `least`, evidence that may be chance. Where no two agents have any, all are trusted.

    >>> trust(torch.tensor([4.0, 5.0, 0.5, -1.0]).double(), 0.1).round(decimals=2).tolist()
    [1.0, 1.0, 0.21, 0.0]
    """
    scale = _second(evidence)
    share = (evidence + least) / (ENOUGH * scale + least)
    return share.clamp(min=0, max=1).where(scale > 0, 1.0)


def wiring_trust(wiring: Tensor) -> Tensor:
    """Return how far agents' graphs are wired as real ones are, and not as by chance, `(A,)`.

    `wiring (A, K)` says how consistently each agent's graphs differ from random copies of them in
    some measures, from −1 to 1; the first `RINGS` are numbers of rings. What is real comes from
    the agents: the main direction of their differences, in which no agent counts more than the
    second most unlike chance. Which way is real, most agents say; where they are divided (edges
    that all move to pairs without one leave a dense graph the opposite of what it was), it is the
    way to more rings. An agent that nobody can be compared with is trusted.

    >>> molecules, made_up = [-0.2, 0.0, 0.0, 0.8, 0.5], [0.1, 0.0, 0.0, 0.0, -0.1]
    >>> wiring_trust(torch.tensor([molecules, molecules, made_up])).round(decimals=1).tolist()
    [1.0, 1.0, 0.0]
    """
    if len(wiring) == 1:
        return torch.ones_like(wiring[:, 0])
    length = wiring.norm(dim=1, keepdim=True)
    cap = length.sort(dim=0).values[-2]
    wiring = wiring * (cap / length.clamp(min=1e-12)).clamp(max=1)
    main = torch.linalg.svd(wiring, full_matrices=False).Vh[0]
    along = wiring @ main
    side = along.sum() / along.abs().sum().clamp(min=1e-12)
    rings = main[:RINGS]
    real = side if side.abs() > DIVIDED else (rings * rings.abs()).sum()
    return trust(along if real >= 0 else -along, LEAST_WIRING)


def class_trust(told: Tensor, graphs: Tensor) -> Tensor:
    """Return the trust in agents' classes, from how well their models tell others', `(..., A)`.

    NaN, where nobody could say it, counts as the second-best. A model that learnt nothing from n
    graphs shows about ±1/√n.
    """
    scale = _second(told.nan_to_num(nan=-torch.inf))
    known = told.where(~told.isnan(), scale)
    return trust(known, graphs.double().clamp(min=1).rsqrt())


def distinct_graphs(fingerprints: Sequence[np.ndarray]) -> np.ndarray:
    """Return how many graphs of each agent count, `(A,)`: a graph of h agents 1/h for each of them.

    Copies within an agent count once. So agents with the same graphs count together as one. Graphs
    that most agents hold are common in the field (such as small cliques) and say nothing: the
    part that counts is that of the others.

    >>> distinct_graphs([np.array([1, 2, 2]), np.array([2, 3]), np.array([5]), np.array([6])])
    array([1.5, 1.5, 1. , 1. ])
    """
    own = [np.unique(f, return_counts=True) for f in fingerprints]
    everything, holders = np.unique(np.concatenate([f for f, _ in own]), return_counts=True)
    counted = []
    for graph, copies in own:
        held = holders[np.searchsorted(everything, graph)]
        rare = (held == 1) | (2 * held <= len(own))
        part = (1 / held[rare]).sum() / copies[rare].sum() if rare.any() else 1.0
        counted.append(part * copies.sum())
    return np.array(counted)


def exclusiveness(classes: Sequence[np.ndarray], known: np.ndarray) -> np.ndarray:
    """Return how much one graph of each agent counts, from the class of each of its graphs, `(A,)`.

    A graph of a class that an agent alone has counts as if all agents had as many: without it
    the class would be missing, and without another agent's graph nothing is. From nine tenths of a
    class to all of it the weight rises; other graphs count 1, and so do those of classes that are
    not `known`: to invent a class brings nothing. For agents of unequal size, "all" is (Σn)² / Σn²,
    so that a name without graphs changes nothing.

    >>> agents = [np.array([0, 1]), np.array([0, 1]), np.array([0, 7])]
    >>> exclusiveness(agents, known=np.array([0, 1, 7])).tolist()
    [1.0, 1.0, 2.0]
    """
    named, place = np.unique(np.concatenate(classes), return_inverse=True)
    owner = np.repeat(np.arange(len(classes)), [len(c) for c in classes])
    count = np.zeros((len(classes), len(named)))
    np.add.at(count, (owner, place), 1)
    graphs = count.sum(axis=1)
    everybody = graphs.sum() ** 2 / (graphs**2).sum().clip(min=1)
    largest = count.max(axis=0, initial=0) / count.sum(axis=0)
    alone = ((largest - MOST_OF_A_CLASS) / (1 - MOST_OF_A_CLASS)).clip(0, 1)
    alone = alone * np.isin(named, known)
    counted = (count * (1 + (everybody - 1) * alone)).sum(axis=1)
    weight: np.ndarray = np.where(graphs > 0, counted / graphs.clip(min=1), 1.0)
    return weight


def _second(evidence: Tensor) -> Tensor:
    """Return the second-largest evidence, 0 if nobody else has any, `(..., A) -> (..., 1)`."""
    with_nobody = F.pad(evidence, (1, 0), value=-torch.inf)  # one agent may be alone in a round
    return with_nobody.sort(dim=-1).values[..., -2:-1].clamp(min=0)
