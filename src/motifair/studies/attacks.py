"""Ways in which one agent may cheat: each says what it changes, its graphs, keys or uploads.

Everything an attack does not name stays honest: the attacker trains as always, and what it learns
is its own. A stack of federations has one attacker in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from motifair.federation.members import Members
from motifair.federation.protocol import Uploads
from motifair.graphs.partition import Partition
from motifair.graphs.perturb import unconnected_pairs
from motifair.graphs.split import Split
from motifair.motifs.vocabulary import MotifIndex

Crew = tuple[int, ...]


@dataclass(frozen=True)
class Past:
    """The last round: what was sent, the rewards `(F·A, D)`, the aggregates `(F, D)`, and the
    alignments `(F·A,)`, NaN for who was absent.
    """

    uploads: Uploads
    reward: Tensor
    aggregate: Tensor
    alignment: Tensor


@dataclass(frozen=True)
class Scene:
    """What an attacker goes by: the round (from 1) and how many there are, the rows `(F,)` of the
    attackers and of others to copy from, and the last round (None in the first).
    """

    round: int
    rounds: int
    own: Tensor
    other: Tensor
    past: Past | None


# Attacks on graphs


def honest_split(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Leave the graphs as they are."""
    return split


def renumbered(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Number the nodes of the agent's training graphs anew, at random."""
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
    """Add ⌈more·edges⌉ edges to each of the agent's training graphs, where there were none."""
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
    """Let the agent train on each of its graphs twice."""
    train = list(split.partition.train)
    train[agent] = np.tile(train[agent], 2)
    return replace(split, partition=replace(split.partition, train=tuple(train)))


def in_two(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Let the agent join as two, each with half of the training graphs of every class.

    The second comes after all others; both are tested on all test graphs of the one.
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


# Attacks on motif keys


def honest_members(members: Members, crew: Crew) -> Members:
    """Leave the keys as they are."""
    return members


def inventing(members: Members, crew: Crew) -> Members:
    """Claim as many motifs again as the attacker has, which nobody holds.

    An attacker that joined as two claims the same ones in both names.
    """
    assert members.index is not None
    count = int(members.index.sizes[list(crew)].max())
    return claimed(members, crew, [f"ring invented {k}" for k in range(count)])


def claiming_all(members: Members, crew: Crew) -> Members:
    """Claim every motif that anybody holds, as somebody may who knows the kind of data."""
    assert members.index is not None
    return claimed(members, crew, members.index.keys)


def claimed(members: Members, crew: Crew, keys: Sequence[str]) -> Members:
    """Add keys to what agents hold; prototypes are copies of those of their own motifs."""
    index = members.index
    assert index is not None
    held = [[index.keys[m] for m in index.motif[index.agent == a]] for a in range(len(index.sizes))]
    train = list(members.train)
    for a in crew:
        new = [key for key in keys if key not in set(held[a])]
        own = train[a].motifs
        copies = sparse.csr_array((own.shape[0], len(new)), dtype=own.dtype)
        if own.shape[1]:
            copies = own[:, np.arange(len(new)) % own.shape[1]]
        held[a] += new
        train[a] = replace(train[a], motifs=sparse.hstack([own, copies], format="csr"))
    return replace(members, train=tuple(train), index=MotifIndex.of(held))


# Attacks on uploads


def honest_uploads(uploads: Uploads, scene: Scene) -> Uploads:
    """Send what was trained."""
    return uploads


def scaled(uploads: Uploads, scene: Scene, *, by: float) -> Uploads:
    """Send update and gradient longer or shorter than they are."""
    gradient = uploads.gradient
    sent = _sending(
        uploads,
        scene,
        update=by * uploads.update[scene.own],
        gradient=None if gradient is None else by * gradient[scene.own],
    )
    norm = uploads.gradient_norm.clone()
    norm[scene.own] *= by
    return replace(sent, gradient_norm=norm)


def copied(uploads: Uploads, scene: Scene) -> Uploads:
    """Send what another agent sends in the same round.

    Between machines nobody can: uploads are simultaneous.
    """
    return _copied(uploads, scene, uploads)


def copied_late(uploads: Uploads, scene: Scene) -> Uploads:
    """Send what another agent sent in the round before."""
    return uploads if scene.past is None else _copied(uploads, scene, scene.past.uploads)


def _copied(uploads: Uploads, scene: Scene, source: Uploads) -> Uploads:
    gradient = source.gradient
    return _sending(
        uploads,
        scene,
        update=source.update[scene.other],
        gradient=None if gradient is None else gradient[scene.other],
    )


def echoed(uploads: Uploads, scene: Scene) -> Uploads:
    """Send the last reward back as the update, and its negative as the gradient: no training."""
    if scene.past is None:
        return uploads
    reward = scene.past.reward[scene.own]
    return _sending(uploads, scene, update=reward, gradient=-reward)


def silent(uploads: Uploads, scene: Scene, *, when: Callable[[Scene], bool]) -> Uploads:
    """Send zeros in some rounds."""
    if not when(scene):
        return uploads
    nothing = torch.zeros_like(uploads.update[scene.own])
    return _sending(uploads, scene, update=nothing, gradient=nothing)


def always(scene: Scene) -> bool:
    """In every round."""
    return True


def every_other(scene: Scene) -> bool:
    """In the second, the fourth, ... round."""
    return scene.round % 2 == 0


def first_third(scene: Scene) -> bool:
    """In the first third of the rounds."""
    return 3 * scene.round <= scene.rounds


def after_a_third(scene: Scene) -> bool:
    """In all rounds but the first third."""
    return not first_third(scene)


def gradient_of_other(uploads: Uploads, scene: Scene) -> Uploads:
    """Send another agent's gradient beside the own update."""
    assert uploads.gradient is not None
    return _sending(uploads, scene, gradient=uploads.gradient[scene.other])


def gradient_negated(uploads: Uploads, scene: Scene) -> Uploads:
    """Send the negative of the own gradient: vote against whoever points where it points."""
    assert uploads.gradient is not None
    return _sending(uploads, scene, gradient=-uploads.gradient[scene.own])


def gradient_of_aggregate(uploads: Uploads, scene: Scene, *, sign: float) -> Uploads:
    """Send as gradient the last aggregate: with sign −1 that of which it is a step, a vote for all
    who point there; with sign 1 a vote against them.
    """
    if scene.past is None:
        return uploads
    return _sending(uploads, scene, gradient=sign * scene.past.aggregate)


def _sending(
    uploads: Uploads, scene: Scene, *, update: Tensor | None = None, gradient: Tensor | None = None
) -> Uploads:
    """Replace the attackers' rows."""
    return replace(
        uploads,
        update=_with_rows(uploads.update, scene.own, update),
        gradient=(
            None if uploads.gradient is None else _with_rows(uploads.gradient, scene.own, gradient)
        ),
    )


def _with_rows(rows: Tensor, own: Tensor, new: Tensor | None) -> Tensor:
    if new is None:
        return rows
    changed = rows.clone()
    changed[own] = new.to(rows.dtype)
    return changed


# Staying away


def after_a_bad_round(scene: Scene) -> bool:
    """Stay away in the round after each in which the own alignment was negative.

    That of a round in which it was absent is unknown, so it comes back after one.
    """
    return scene.past is not None and bool((scene.past.alignment[scene.own] < 0).all())


@dataclass(frozen=True)
class Attack:
    """What a dishonest agent does, by name; what is not given is honest.

    `away` says when it stays away, which is for one federation at a time. `by_gradient` is an
    attack that exists only where gradients are uploaded.
    """

    name: str
    split: Callable[[Split, int, np.random.Generator], Split] = honest_split
    members: Callable[[Members, Crew], Members] = honest_members
    uploads: Callable[[Uploads, Scene], Uploads] = honest_uploads
    away: Callable[[Scene], bool] | None = None
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
