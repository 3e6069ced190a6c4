"""Valuations that are compared with the truth: each gives the agents of a split some numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from motifair.federation.belief import GraphSummary, believed_graphs
from motifair.mechanism.coverage import SHARPNESS
from motifair.studies.values.truth import Array, banzhaf, leave_one_out, shapley


@dataclass(frozen=True)
class Facts:
    """What valuations may look at in one split.

    Attributes:
        graphs: Numbers of training graphs, `(A,)`.
        held: Numbers of graphs held back, `(A,)`.
        updates, gradients, after, lengths, rebuilt: See `Observation`.
        retrained: Losses of every coalition's retrained model on each agent's held-back graphs,
            `(2^A, A)`.
        summaries: What agents say of their graphs.
        seed: For the random valuation.
    """

    graphs: Array
    held: Array
    updates: Array
    gradients: Array
    after: Array
    lengths: Array
    rebuilt: Array
    retrained: Array
    summaries: tuple[GraphSummary, ...]
    seed: int


Valuation = Callable[[Facts], Array]


def size(facts: Facts) -> Array:
    """The number of graphs."""
    return facts.graphs


def random(facts: Facts) -> Array:
    """A random number."""
    return np.random.default_rng([facts.seed, 19]).random(len(facts.graphs))


def cosine(facts: Facts) -> Array:
    """cos(u_i, u_N), as CGSV and E7 have it, summed over rounds."""
    a = facts.graphs / facts.graphs.sum()
    own = np.sqrt(np.einsum("tii->ti", facts.updates))
    common = np.sqrt(np.einsum("tij,i,j->t", facts.updates, a, a))
    value: Array = ((facts.updates @ a) / (own * common[:, None])).sum(axis=0)
    return value


def cosine_votes(facts: Facts) -> Array:
    """The others' mean cos(u_i, −g_j), summed over rounds."""
    own = np.sqrt(np.einsum("tii->ti", facts.updates))
    votes = -facts.gradients / (own[:, :, None] * facts.lengths[:, None, :])
    value: Array = _others(votes).sum(axis=(0, 2))
    return value


def in_run(facts: Facts) -> Array:
    """a_i·Σ_{j≠i} a_j⟨u_i, −g_j⟩: the first-order decrease of the others' losses."""
    a = facts.graphs / facts.graphs.sum()
    value: Array = a * (_others(-facts.gradients) * a).sum(axis=(0, 2))
    return value


def in_run_before_and_after(facts: Facts) -> Array:
    """The same with the mean of the gradients before and after the round."""
    a = facts.graphs / facts.graphs.sum()
    value: Array = a * (_others(-(facts.gradients + facts.after) / 2) * a).sum(axis=(0, 2))
    return value


def rebuilt_shapley(facts: Facts) -> Array:
    """Shapley values of models rebuilt from ten rounds' updates each, judged by the others."""
    return _judged(facts, facts.rebuilt, shapley)


def rebuilt_leave_one_out(facts: Facts) -> Array:
    """The same by leaving one out."""
    return _judged(facts, facts.rebuilt, leave_one_out)


def settlement(facts: Facts) -> Array:
    """Weighted Banzhaf values (p = .8) of retrained coalitions, judged by all but the agent."""
    return _judged(facts, facts.retrained[None], lambda game: banzhaf(game, 0.8))


def retrained_shapley(facts: Facts) -> Array:
    """Shapley values of retrained coalitions, judged by all but the agent."""
    return _judged(facts, facts.retrained[None], shapley)


def peers(facts: Facts) -> Array:
    """How well the model an agent trains alone predicts the others' held-back graphs."""
    alone = -facts.retrained[1 << np.arange(len(facts.graphs))]
    weight = _others(np.broadcast_to(facts.held, alone.shape)[None])[0]
    value: Array = (alone * weight).sum(axis=1) / weight.sum(axis=1)
    return value


def structure(facts: Facts) -> Array:
    """Graphs as far as they are distinct and wired unlike chance, nothing else."""
    return believed_graphs(facts.summaries)


def coverage_by_size(facts: Facts) -> Array:
    """Coverage, summed over rounds, all claimed graphs counting."""
    return _coverage(facts, facts.graphs)


def coverage_by_belief(facts: Facts) -> Array:
    """Coverage, summed over rounds, graphs counting as far as `structure` believes them."""
    return _coverage(facts, np.maximum(structure(facts), 0.01 * facts.graphs))


VALUATIONS: dict[str, Valuation] = {
    "size": size,
    "random": random,
    "cosine with the sum": cosine,
    "cosine votes": cosine_votes,
    "in-run": in_run,
    "in-run, before and after": in_run_before_and_after,
    "rebuilt, leave one out": rebuilt_leave_one_out,
    "rebuilt, Shapley": rebuilt_shapley,
    "retrained, Shapley": retrained_shapley,
    "retrained, Banzhaf .8": settlement,
    "peers": peers,
    "structure": structure,
    "coverage by size": coverage_by_size,
    "coverage by belief": coverage_by_belief,
}


def _coverage(facts: Facts, graphs: Array) -> Array:
    """Return a_i·c³·(1 + (Σ_j a_j d_j² − d_i²) / |u_N|²), added up over rounds, where
    d_i = |u_i − u_N|: what an agent's graphs do to bring the common step near to all updates.
    """
    share = graphs / graphs.sum()
    product = facts.updates @ share  # (rounds, A), of u_i with u_N
    square = np.diagonal(facts.updates, axis1=1, axis2=2)
    length, common = (square @ share)[:, None], (product @ share)[:, None]
    nearness = 1 + (length - square + 2 * (product - common)) / common
    value: Array = (share * nearness * (common / length) ** SHARPNESS).sum(axis=0)
    return value


def _judged(facts: Facts, losses: Array, value: Callable[[Array], Array]) -> Array:
    """Return values from losses on each agent's graphs `(..., 2^A, A)`, without an agent's own."""
    votes = np.stack([value(-losses[..., j]) for j in range(losses.shape[-1])], axis=-1)
    weight = _others(np.broadcast_to(facts.held, votes.shape[-2:]))
    judged: Array = (votes * weight).sum(axis=(0, 2)) / weight.sum(axis=1)
    return judged


def _others(votes: Array) -> Array:
    """Return votes `(..., A, A)` without those of agents on themselves."""
    value: Array = votes * (1 - np.eye(votes.shape[-1]))
    return value
