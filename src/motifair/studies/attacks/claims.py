"""Attacks on what an agent claims: its motif keys, its number of graphs, what they look like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from motifair.federation.belief import GraphSummary
from motifair.federation.members import Given, Members
from motifair.motifs.vocabulary import MotifIndex
from motifair.studies.attacks.contract import Cast

Lie = Callable[[GraphSummary, GraphSummary], GraphSummary]  # of the own and another's summary


def inventing(members: Members, cast: Cast) -> Members:
    """Claim as many invented motifs as the attacker has real ones.

    All names of an attacker that joined under several claim the same ones.
    """
    assert members.index is not None
    count = int(members.index.sizes[list(cast.attackers)].max())
    return claimed(members, cast, [f"ring invented {k}" for k in range(count)])


def claiming_all(members: Members, cast: Cast) -> Members:
    """Claim the motifs of all agents, as an attacker that knows the kind of data may."""
    assert members.index is not None
    return claimed(members, cast, members.index.keys)


def claimed(members: Members, cast: Cast, keys: Sequence[str]) -> Members:
    """Add keys to the vocabularies of agents; their prototypes are copies of real ones."""
    index = members.index
    assert index is not None
    held = [[index.keys[m] for m in index.motif[index.agent == a]] for a in range(len(index.sizes))]
    train = list(members.train)
    for a in cast.attackers:
        new = [key for key in keys if key not in set(held[a])]
        own = train[a].motifs
        copies = sparse.csr_array((own.shape[0], len(new)), dtype=own.dtype)
        if own.shape[1]:
            copies = own[:, np.arange(len(new)) % own.shape[1]]
        held[a] += new
        train[a] = replace(train[a], motifs=sparse.hstack([own, copies], format="csr"))
    return replace(members, train=tuple(train), index=MotifIndex.of(held))


def claiming(members: Members, cast: Cast, *, times: int) -> Members:
    """Claim to have so many times the graphs, with invented fingerprints for those beyond."""
    (agent, *_) = cast.attackers
    graphs = times * len(members.train[agent])

    def longer(own: GraphSummary, other: GraphSummary) -> GraphSummary:
        invented = np.arange(1, graphs - len(own.fingerprints) + 1, dtype=np.uint64)
        return replace(own, fingerprints=np.concatenate([own.fingerprints, invented]))

    given = Given(agent, graphs, members.train[agent])
    return replace(_told(members, cast, longer), given=given)


def with_new_fingerprints(members: Members, cast: Cast) -> Members:
    """Send an invented fingerprint for each graph, so that no copy is seen."""

    def invented(own: GraphSummary, other: GraphSummary) -> GraphSummary:
        count = len(own.fingerprints)
        return replace(own, fingerprints=np.arange(1, count + 1, dtype=np.uint64))

    return _told(members, cast, invented)


def with_fingerprints_of_other(members: Members, cast: Cast) -> Members:
    """Send the fingerprints of another agent's graphs in place of the own."""

    def taken(own: GraphSummary, other: GraphSummary) -> GraphSummary:
        return replace(own, fingerprints=np.resize(other.fingerprints, len(own.fingerprints)))

    return _told(members, cast, taken)


def with_fingerprints_of_all(members: Members, cast: Cast) -> Members:
    """Add the fingerprints of all others' graphs to the own, so that nobody is a stranger to them
    who could judge the model.
    """
    (agent, *_) = cast.attackers
    if not members.summaries:
        return members  # nobody asks for fingerprints
    everything = np.unique(np.concatenate([s.fingerprints for s in members.summaries]))
    told = _told(members, cast, lambda own, other: replace(own, fingerprints=everything))
    return replace(told, given=Given(agent, len(everything), members.train[agent]))


def with_wiring_of_other(members: Members, cast: Cast) -> Members:
    """Send invented fingerprints, and how another agent's graphs are wired."""
    told = with_new_fingerprints(members, cast)
    return _told(told, cast, lambda own, other: replace(own, wiring=other.wiring))


def _told(members: Members, cast: Cast, lie: Lie) -> Members:
    """Change what the attackers say of their graphs, if the method asks for it."""
    summaries = list(members.summaries)
    for a in cast.attackers if summaries else ():
        summaries[a] = lie(summaries[a], members.summaries[cast.other])
    return replace(members, summaries=tuple(summaries))
