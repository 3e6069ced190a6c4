"""How far an agent's graphs can be believed: what stands against them, and how many they are.

Evidence that a few honest agents share is the scale: seven tenths of what the second-best agent
shows are enough for full trust. One agent alone cannot set the scale, and honest differences
between agents do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

ENOUGH = 0.7  # part of the second-best evidence that earns full trust
CHANCE = 0.25  # of 1/√n: classes told apart by a model that learnt nothing
LEAST_WIRING = 0.1  # of a consistency: what a hundred graphs show by chance
RINGS = 4  # the first measures of the wiring
MOST_OF_A_CLASS = 0.9  # of its graphs: with more an agent begins to have the class alone
SMALLEST = 1e-9  # relative: what sums of weights are rounded by
HALF = 0.5  # of an agent's graphs: who holds more of them is no stranger
DIVIDED = 0.5  # evidence of both signs that cancels to less than this part


def trust(evidence: Tensor, least: Tensor | float, presence: Tensor | None = None) -> Tensor:
    """τ_i = clip((e_i + ε) / (0.7·e_(2) + ε), 0, 1) with e_(2) the second-largest, `(..., A)`.

    ε is `least`, evidence that may be chance. Where no two agents have any, all are trusted. Agents
    count by their `presence`, by default 1: then e_(2) is what more than one agent shows.

    >>> trust(torch.tensor([4.0, 5.0, 0.5, -1.0]).double(), 0.1).round(decimals=2).tolist()
    [1.0, 1.0, 0.21, 0.0]
    """
    here = torch.ones_like(evidence) if presence is None else presence
    scale = from_the_top(evidence, here, torch.ones_like(here[..., :1])).clamp(min=0)
    share = (evidence + least) / (ENOUGH * scale + least)
    return share.clamp(min=0, max=1).where(scale > 0, 1.0)


def wiring_trust(wiring: Tensor, owners: Tensor | None = None) -> Tensor:
    """Return how far agents' graphs are wired as real ones are, and not as by chance, `(A,)`.

    `wiring (A, K)` says how consistently each agent's graphs differ from random copies of them in
    some measures, from −1 to 1; the first `RINGS` are numbers of rings. What is real comes from
    the agents, one name of each of the `owners (A,)`, by default all: the main direction of their
    differences, in which nobody counts more than the second most unlike chance. Which way is real,
    most of them say; where they are divided (edges that all move to pairs without one leave a dense
    graph the opposite of what it was), it is the way to more rings. Who has nobody to be compared
    with is trusted.

    >>> molecules, made_up = [-0.2, 0.0, 0.0, 0.8, 0.5], [0.1, 0.0, 0.0, 0.0, -0.1]
    >>> wiring_trust(torch.tensor([molecules, molecules, made_up])).round(decimals=1).tolist()
    [1.0, 1.0, 0.0]
    """
    owners = torch.ones_like(wiring[:, 0], dtype=torch.bool) if owners is None else owners
    if owners.sum() == 1:
        return torch.ones_like(wiring[:, 0])
    length = wiring.norm(dim=1, keepdim=True)
    cap = length[owners].sort(dim=0).values[-2]
    wiring = wiring * (cap / length.clamp(min=1e-12)).clamp(max=1)
    main = torch.linalg.svd(wiring[owners], full_matrices=False).Vh[0]
    along = wiring @ main
    side = along[owners].sum() / along[owners].abs().sum().clamp(min=1e-12)
    rings = main[:RINGS]
    real = side if side.abs() > DIVIDED else (rings * rings.abs()).sum()
    return trust(along if real >= 0 else -along, LEAST_WIRING, owners.to(along.dtype))


def class_trust(told: Tensor, graphs: Tensor, presence: Tensor) -> Tensor:
    """Return the trust in agents' classes, from how well their models tell others', `(..., A)`.

    NaN, where nobody could say it, counts as full trust. What may be chance is a quarter of 1/√n,
    n being the agent's graphs, or the median's where it has fewer: to divide them among names
    brings no trust.
    """
    known, n = ~told.isnan(), graphs.double()
    usual = n.quantile(0.5, dim=-1, keepdim=True)
    least = CHANCE * torch.maximum(n, usual).clamp(min=1).rsqrt()
    earned = trust(told.where(known, -torch.inf), least, presence * known)
    return earned.where(known, 1.0)


def owners(fingerprints: Sequence[np.ndarray]) -> np.ndarray:
    """Return the owner of each agent, as the number of its first name, `(A,)`: names each of which
    holds more than half of the other's different graphs are one owner's.

    >>> owners([np.array([1, 2, 3]), np.array([4, 5]), np.array([1, 2, 9])]).tolist()
    [0, 1, 0]
    """
    alike, _ = _alike(_held(fingerprints))
    same = np.minimum(alike, alike.T) > HALF
    np.fill_diagonal(same, True)
    first: np.ndarray = same.argmax(axis=1)
    return first


def first_names(owner: np.ndarray) -> np.ndarray:
    """Return which agents are the first names of their owners, `(A,)`."""
    first: np.ndarray = owner == np.arange(len(owner))
    return first


def distinct_graphs(fingerprints: Sequence[np.ndarray]) -> np.ndarray:
    """Return how many graphs of each agent count, `(A,)`.

        n_i · min(1, c_i / c) / (1 + Σ_j p_ij) / (1 + Σ_k p_ik),  p_ij = (o_ij − o)₊ / (1 − o)

    c_i is the part of an agent's graphs that are no copies of another of its own, o_ij the part of
    them that agent j holds, too; j are the first names of other `owners`, k the other names of its
    own. So copies bring nothing, and names with the same graphs count together exactly as one. In
    some fields graphs are alike by chance (such as small cliques): graphs that most owners hold
    are left out of both, c is that of the agent at the end of the best third, and o twice what a
    third of all pairs of owners exceed.

    >>> distinct_graphs([np.array([1, 2, 2]), np.array([3, 4]), np.array([3, 4]), np.array([5])])
    array([2., 1., 1., 1.])
    """
    agents, owner = len(fingerprints), owners(fingerprints)
    first = first_names(owner)
    copies = _rare_graphs(fingerprints, first)
    alike, own = _alike(copies)
    pairs = alike[np.ix_(first, first)][~np.eye(first.sum(), dtype=bool)]
    chance = 2 * np.quantile(pairs, 2 / 3) if len(pairs) else 0.0
    beyond = ((alike - chance) / max(1 - chance, SMALLEST)).clip(0, 1)
    same = owner == owner[:, None]
    others = 1 + beyond.sum(axis=1, where=first & ~same)
    names = others * (1 + beyond.sum(axis=1, where=same & ~np.eye(agents, dtype=bool)))
    once = np.where(own > 0, own / copies.sum(axis=1).clip(min=1), 1.0)
    share = 1 / names
    third = share.sum(keepdims=True) / 3
    usual = from_the_top(*map(torch.from_numpy, (once, share, third))).item()
    usual = usual if agents > 1 else 1.0  # one agent alone is no measure of itself
    counted: np.ndarray = (once / usual).clip(max=1) / names * [len(f) for f in fingerprints]
    return counted


def judging(fingerprints: Sequence[np.ndarray]) -> np.ndarray:
    """Return how much each agent j counts as a judge of i's model, `(A, A)`.

    It counts by its graphs, at most as the median: under several names, with parts of its graphs or
    the same ones under each, as much as under one. It does not judge a model that learnt from its
    own graphs: of an agent of whose graphs it holds more than half, or that holds so many of its.

    >>> graphs = [np.array([1, 2]), np.array([1, 2]), np.array([3, 4]), np.array([5, 6])]
    >>> judging(graphs).round(2).tolist()
    [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.5, 0.5, 0.0, 1.0], [0.5, 0.5, 1.0, 0.0]]
    """
    counted, owner = distinct_graphs(fingerprints), owners(fingerprints)
    first = first_names(owner)
    usual = np.median(np.bincount(owner, counted)[first[: owner.max() + 1]])
    presence = (counted / usual).clip(max=1) if usual > 0 else np.ones(len(counted))
    alike, _ = _alike(_rare_graphs(fingerprints, first))
    strangers = np.maximum(alike, alike.T) <= HALF
    np.fill_diagonal(strangers, False)
    judges: np.ndarray = presence * strangers
    return judges


def _alike(copies: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of each agent's different graphs that each agent holds, and their number."""
    holds = (copies > 0).astype(float)
    both = (holds @ holds.T).toarray()
    own = both.diagonal()
    return both / own.clip(min=1)[:, None], own


def _rare_graphs(fingerprints: Sequence[np.ndarray], first: np.ndarray) -> sparse.csr_array:
    """Return how often each agent holds each graph, `(A, graphs)`, of all graphs that at most one
    or at most half of the owners hold, by the `first` name of each.
    """
    copies = _held(fingerprints)
    holders = np.bincount(copies[first].indices, minlength=copies.shape[1])
    return copies[:, np.flatnonzero((holders <= 1) | (2 * holders <= first.sum()))]


def _held(fingerprints: Sequence[np.ndarray]) -> sparse.csr_array:
    """Return how often each agent holds each graph, `(A, graphs)`."""
    everything, graph = np.unique(np.concatenate(fingerprints), return_inverse=True)
    agent = np.repeat(np.arange(len(fingerprints)), [len(f) for f in fingerprints])
    shape = (len(fingerprints), len(everything))
    return sparse.csr_array((np.ones(len(graph)), (agent, graph)), shape=shape)


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


def from_the_top(values: Tensor, weights: Tensor, much: Tensor) -> Tensor:
    """Return the largest value such that more than so `much` weight has it or more, `(..., 1)`.

    It is −∞ where all `(..., A)` together have no more.

    >>> values, weights = torch.tensor([5.0, 3.0, 4.0]), torch.tensor([0.5, 1.0, 0.5])
    >>> from_the_top(values, weights, torch.tensor([1.0])).tolist()
    [3.0]
    """
    ordered, order = values.sort(dim=-1, descending=True)
    upto = weights.gather(-1, order).cumsum(dim=-1)
    enough = upto > much * (1 + SMALLEST)
    first = ordered.where(enough, -torch.inf)
    return first.amax(dim=-1, keepdim=True)
