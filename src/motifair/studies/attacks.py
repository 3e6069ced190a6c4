"""Attacks of one agent: changes to its graphs, what it claims, its uploads or its attendance.

An attack changes nothing else: the attacker trains honestly and keeps its trained model. In a stack
of federations there is one attacker in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import sparse
from torch import Tensor

from motifair.federation.members import Given, Members
from motifair.federation.protocol import Uploads
from motifair.graphs.partition import Partition
from motifair.graphs.perturb import unconnected_pairs
from motifair.graphs.split import Split
from motifair.motifs.vocabulary import MotifIndex

Attackers = tuple[int, ...]


@dataclass(frozen=True)
class PreviousRound:
    """The previous round as an attacker sees it, for F federations of A agents.

    Attributes:
        uploads: The uploads of all agents.
        reward: Their rewards, `(F·A, D)`.
        aggregate: The aggregates, `(F, D)`.
        alignment: The alignments, `(F·A,)`, NaN for absent agents.
    """

    uploads: Uploads
    reward: Tensor
    aggregate: Tensor
    alignment: Tensor


@dataclass(frozen=True)
class AttackContext:
    """The input of an attack on uploads.

    Attributes:
        round: Number of the round, from 1.
        rounds: Number of all rounds.
        own: Rows of the attackers, `(F,)`.
        other: Rows of the agents that they copy from, `(F,)`.
        previous: The previous round, None in the first.
    """

    round: int
    rounds: int
    own: Tensor
    other: Tensor
    previous: PreviousRound | None


# Attacks on graphs


def honest_split(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Return the split unchanged."""
    return split


def renumbered(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Renumber the nodes of the agent's training graphs at random."""
    graphs = split.graphs
    place = np.arange(len(graphs.degree))
    for g in np.unique(split.partition.train[agent]):
        first, end = graphs.node_start[g], graphs.node_start[g + 1]
        place[first:end] = first + rng.permutation(end - first)
    pairs, entry = graphs.edge_list()
    labels = None if graphs.edge_label is None else graphs.edge_label[entry]
    nodes = np.argsort(place)
    moved = replace(
        graphs,
        node_label=None if graphs.node_label is None else graphs.node_label[nodes],
        attribute=None if graphs.attribute is None else graphs.attribute[nodes],
    )
    return replace(split, graphs=moved.with_edges(place[pairs], labels))


def with_edges(split: Split, agent: int, rng: np.random.Generator, *, more: float) -> Split:
    """Add ⌈more·edges⌉ random new edges to each of the agent's training graphs."""
    graphs = split.graphs
    pairs, entry = graphs.edge_list()
    bounds = np.searchsorted(graphs.node_graph[pairs[:, 0]], np.arange(len(graphs) + 1))
    added = []
    for g in np.unique(split.partition.train[agent]):
        start, n = graphs.node_start[g], int(graphs.nodes[g])
        there = pairs[bounds[g] : bounds[g + 1]] - start
        free = n * (n - 1) // 2 - len(there)
        count = min(int(np.ceil(more * len(there))), free)
        added.append(
            unconnected_pairs(there, n, rng.choice(free, size=count, replace=False)) + start
        )
    new = np.concatenate(added)
    labels = None
    if graphs.edge_label is not None:
        old = graphs.edge_label[entry]
        labels = np.concatenate([old, rng.choice(old, size=len(new))])
    return replace(split, graphs=graphs.with_edges(np.concatenate([pairs, new]), labels))


def duplicated(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Duplicate each training graph of the agent."""
    train = list(split.partition.train)
    train[agent] = np.tile(train[agent], 2)
    return replace(split, partition=replace(split.partition, train=tuple(train)))


def in_two(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Split the agent into two, each with half of the training graphs of every class.

    The second is appended after all agents; both have all test graphs of the original agent.
    """
    old, target = split.partition, split.graphs.target
    own = old.train[agent]
    by_class = own[np.argsort(target[own], kind="stable")]
    train = list(old.train)
    train[agent] = np.sort(by_class[::2])
    partition = Partition(
        (*old.names, f"{old.names[agent]}-twin"),
        old.global_test,
        (*train, np.sort(by_class[1::2])),
        (*old.test, old.test[agent]),
    )
    roles = (*split.roles, split.roles[agent]) if split.roles else ()
    return replace(split, partition=partition, roles=roles)


# Attacks on what an agent claims: its motif keys, and its number of graphs


def honest_members(members: Members, attackers: Attackers) -> Members:
    """Return the members unchanged."""
    return members


def inventing(members: Members, attackers: Attackers) -> Members:
    """Claim as many invented motifs as the attacker has real ones.

    The two agents of an attacker that joined as two claim the same ones.
    """
    assert members.index is not None
    count = int(members.index.sizes[list(attackers)].max())
    return claimed(members, attackers, [f"ring invented {k}" for k in range(count)])


def claiming_all(members: Members, attackers: Attackers) -> Members:
    """Claim the motifs of all agents, as an attacker that knows the kind of data may."""
    assert members.index is not None
    return claimed(members, attackers, members.index.keys)


def claimed(members: Members, attackers: Attackers, keys: Sequence[str]) -> Members:
    """Add keys to the vocabularies of agents; their prototypes are copies of real ones."""
    index = members.index
    assert index is not None
    held = [[index.keys[m] for m in index.motif[index.agent == a]] for a in range(len(index.sizes))]
    train = list(members.train)
    for a in attackers:
        new = [key for key in keys if key not in set(held[a])]
        own = train[a].motifs
        copies = sparse.csr_array((own.shape[0], len(new)), dtype=own.dtype)
        if own.shape[1]:
            copies = own[:, np.arange(len(new)) % own.shape[1]]
        held[a] += new
        train[a] = replace(train[a], motifs=sparse.hstack([own, copies], format="csr"))
    return replace(members, train=tuple(train), index=MotifIndex.of(held))


def claiming(members: Members, attackers: Attackers, *, times: int) -> Members:
    """Claim to have so many times the graphs, with invented fingerprints for those beyond."""
    (agent, *_) = attackers
    graphs = times * len(members.train[agent])
    summaries = list(members.summaries)
    if summaries:
        real = summaries[agent].fingerprints
        invented = np.arange(1, graphs - len(real) + 1, dtype=real.dtype)
        fingerprints = np.concatenate([real, invented])
        summaries[agent] = replace(summaries[agent], fingerprints=fingerprints)
    given = Given(agent, graphs, members.train[agent])
    return replace(members, summaries=tuple(summaries), given=given)


# Attacks on uploads


def honest_uploads(uploads: Uploads, context: AttackContext) -> Uploads:
    """Return the uploads unchanged."""
    return uploads


def scaled(uploads: Uploads, context: AttackContext, *, by: float) -> Uploads:
    """Multiply update and gradient by a factor."""
    gradient = uploads.gradient
    sent = uploads.with_rows(
        context.own,
        update=by * uploads.update[context.own],
        gradient=None if gradient is None else by * gradient[context.own],
    )
    norm = uploads.gradient_norm.clone()
    norm[context.own] *= by
    return replace(sent, gradient_norm=norm)


def reversed_far(
    uploads: Uploads,
    context: AttackContext,
    *,
    length: float,
    when: Callable[[AttackContext], bool],
) -> Uploads:
    """Send the reverse of the own update with a given length, in the rounds chosen by `when`."""
    if not when(context):
        return uploads
    update = uploads.update[context.own]
    scale = length / update.norm(dim=-1, keepdim=True)
    return uploads.with_rows(context.own, update=-scale * update)


def replayed(uploads: Uploads, context: AttackContext) -> Uploads:
    """Send the first upload again in every round."""
    if context.previous is None:
        return uploads
    first, gradient = context.previous.uploads, context.previous.uploads.gradient
    return uploads.with_rows(
        context.own,
        update=first.update[context.own],
        gradient=None if gradient is None else gradient[context.own],
    )


def copied(uploads: Uploads, context: AttackContext) -> Uploads:
    """Copy the upload of another agent in the same round.

    In a real federation this is impossible, as uploads are simultaneous.
    """
    return _copied(uploads, context, uploads)


def copied_late(uploads: Uploads, context: AttackContext) -> Uploads:
    """Copy the upload of another agent in the previous round."""
    return (
        uploads if context.previous is None else _copied(uploads, context, context.previous.uploads)
    )


def _copied(uploads: Uploads, context: AttackContext, source: Uploads) -> Uploads:
    gradient = source.gradient
    return uploads.with_rows(
        context.own,
        update=source.update[context.other],
        gradient=None if gradient is None else gradient[context.other],
    )


def echoed(uploads: Uploads, context: AttackContext) -> Uploads:
    """Send the last reward as the update and its negative as the gradient, without training."""
    if context.previous is None:
        return uploads
    reward = context.previous.reward[context.own]
    return uploads.with_rows(context.own, update=reward, gradient=-reward)


def silent(
    uploads: Uploads, context: AttackContext, *, when: Callable[[AttackContext], bool]
) -> Uploads:
    """Send zeros in the rounds chosen by `when`."""
    return uploads.silent(context.own) if when(context) else uploads


def always(context: AttackContext) -> bool:
    """Choose every round."""
    return True


def every_other(context: AttackContext) -> bool:
    """Choose the second, the fourth, ... round."""
    return context.round % 2 == 0


def last_round(context: AttackContext) -> bool:
    """Choose the last round."""
    return context.round == context.rounds


def first_third(context: AttackContext) -> bool:
    """Choose the first third of the rounds."""
    return 3 * context.round <= context.rounds


def after_a_third(context: AttackContext) -> bool:
    """Choose the rounds after the first third."""
    return not first_third(context)


def gradient_of_other(uploads: Uploads, context: AttackContext) -> Uploads:
    """Send the gradient of another agent with the own update."""
    assert uploads.gradient is not None
    return uploads.with_rows(context.own, gradient=uploads.gradient[context.other])


def gradient_negated(uploads: Uploads, context: AttackContext) -> Uploads:
    """Send the negated own gradient: vote against the agents with a similar one."""
    assert uploads.gradient is not None
    return uploads.with_rows(context.own, gradient=-uploads.gradient[context.own])


def gradient_of_aggregate(uploads: Uploads, context: AttackContext, *, sign: float) -> Uploads:
    """Send sign·(last aggregate) as the gradient.

    Sign −1 is a vote for the agents aligned with the aggregate, sign 1 a vote against them.
    """
    if context.previous is None:
        return uploads
    return uploads.with_rows(context.own, gradient=sign * context.previous.aggregate)


# Absence


def after_a_bad_round(context: AttackContext) -> bool:
    """Be absent in the round after each one with a negative own alignment.

    The alignment of an absent agent is unknown (NaN), so that it returns after one round.
    """
    return context.previous is not None and bool(
        (context.previous.alignment[context.own] < 0).all()
    )


@dataclass(frozen=True)
class Attack:
    """An attack; the parts that are not given are honest.

    Attributes:
        name: Its name in tables.
        split: Changes the graphs of an agent.
        members: Changes what agents claim to have.
        uploads: Changes the uploads of a round.
        away: Chooses the rounds in which the attacker is absent; not for stacks of federations.
        by_gradient: Whether it needs a method with gradients in the uploads.
    """

    name: str
    split: Callable[[Split, int, np.random.Generator], Split] = honest_split
    members: Callable[[Members, Attackers], Members] = honest_members
    uploads: Callable[[Uploads, AttackContext], Uploads] = honest_uploads
    away: Callable[[AttackContext], bool] | None = None
    by_gradient: bool = False


HONEST = Attack("honest")

ATTACKS = (
    Attack("renumber nodes", split=renumbered),
    Attack("10 % more edges", split=partial(with_edges, more=0.1)),
    Attack("50 % more edges", split=partial(with_edges, more=0.5)),
    Attack("duplicate graphs", split=duplicated),
    Attack("join as two", split=in_two),
    Attack("invent keys", members=inventing),
    Attack("claim all keys", members=claiming_all),
    Attack("join as two, invent keys", split=in_two, members=inventing),
    Attack("update × 10", uploads=partial(scaled, by=10.0)),
    Attack("update × 0.1", uploads=partial(scaled, by=0.1)),
    Attack("update × 100", uploads=partial(scaled, by=100.0)),
    Attack("update reversed", uploads=partial(scaled, by=-1.0)),
    Attack(
        "update reversed, length 999, in the last round",
        uploads=partial(reversed_far, length=999.0, when=last_round),
    ),
    Attack("update reversed, length 999", uploads=partial(reversed_far, length=999.0, when=always)),
    # A deployed server counts any larger claim as this one, where members have equal shares.
    Attack("claim twice the graphs", members=partial(claiming, times=2)),
    Attack(
        "claim twice the graphs, send nothing",
        members=partial(claiming, times=2),
        uploads=partial(silent, when=always),
    ),
    Attack("replay the first upload", uploads=replayed),
    Attack("copy another", uploads=copied),
    Attack("copy another, a round late", uploads=copied_late),
    Attack("echo the reward", uploads=echoed),
    Attack("send nothing", uploads=partial(silent, when=always)),
    Attack("send nothing every other round", uploads=partial(silent, when=every_other)),
    Attack("hold back for a third", uploads=partial(silent, when=first_third)),
    Attack("send nothing after a third", uploads=partial(silent, when=after_a_third)),
    Attack("stay away after bad rounds", away=after_a_bad_round),
    Attack("gradient of another", uploads=gradient_of_other, by_gradient=True),
    Attack("gradient negated", uploads=gradient_negated, by_gradient=True),
    Attack(
        "gradient for the aggregate",
        uploads=partial(gradient_of_aggregate, sign=-1.0),
        by_gradient=True,
    ),
    Attack(
        "gradient against the aggregate",
        uploads=partial(gradient_of_aggregate, sign=1.0),
        by_gradient=True,
    ),
)
