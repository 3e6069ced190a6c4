"""Partition graphs into a global test set and a training and a test set for each agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from motifair.errors import MotifairError
from motifair.graphs.dataset import AGENT, Dataset, agent_names
from motifair.graphs.graph_set import GraphSet, Ints

GLOBAL_TEST_FRACTION = 0.1
CHUNK = 50
ATTEMPTS = 200


@dataclass(frozen=True)
class Partition:
    """Numbers of the graphs in the global test set and in each agent's training and test set.

    Attributes:
        names: Names of the agents.
        global_test: The graphs that the server holds out.
        train: The training graphs of each agent.
        test: The test graphs of each agent.
        exclusive: The agent that alone has the largest graphs or the rarest class, by index, or
            None.
    """

    names: tuple[str, ...]
    global_test: Ints
    train: tuple[Ints, ...]
    test: tuple[Ints, ...]
    exclusive: int | None = None


def make_partition(
    data: Dataset,
    kind: str,
    *,
    agents: int,
    test_fraction: float,
    skew: float,
    rng: np.random.Generator,
    prefix: str = AGENT,
) -> Partition:
    """Hold out 10 % of the graphs for the server and distribute the rest to the agents.

    Args:
        data: The dataset.
        kind: A key of `KINDS` or `EXCLUSIVE`; any other (`domains`, a column) is by `data.owner`.
        agents: Number of agents, not used where graphs have owners.
        test_fraction: Share of each agent's graphs in its test set.
        skew: Concentration of the Dirichlet distribution of `dirichlet` and `sizes`.
        rng: Random number generator.
        prefix: What agents are called, before a number if they are several; not used where graphs
            have owners.

    Raises:
        MotifairError: If there are too few graphs, or an agent has fewer than two classes to train
            on (which `chunks` allows).

    >>> from motifair.graphs.dataset import load_dataset
    >>> data, rng = load_dataset("planted", agents=2, seed=0), np.random.default_rng(0)
    >>> p = make_partition(data, "domains", agents=2, test_fraction=0.25, skew=1.0, rng=rng)
    >>> p.names, len(p.global_test), [len(t) for t in p.train], [len(t) for t in p.test]
    (('agent-00', 'agent-01'), 24, [81, 81], [27, 27])
    """
    target = data.graphs.target
    if agents > len(target):
        raise MotifairError(
            f"{data.name} has {len(target)} graphs for {agents} agents; use fewer agents."
        )
    owned = kind not in KINDS and kind not in EXCLUSIVE
    if owned:
        if data.owner is None:
            raise MotifairError(
                f"partition={kind} gives each agent its own dataset, but {data.name} is one; "
                "join several with commas, or use partition=chunks."
            )
        strata = data.owner * data.graphs.classes + target
    else:
        strata = target
    rest, held = holdout(strata, GLOBAL_TEST_FRACTION, rng)
    names, exclusive = agent_names(agents, prefix) if agents > 1 else (prefix,), None
    if owned:
        names, shares = data.owners, _by_owner(data, rest)
    elif kind in EXCLUSIVE:
        shares = EXCLUSIVE[kind](data.graphs, rest, agents, rng)
        exclusive = int(rng.integers(agents))
        shares.insert(exclusive, shares.pop(0))
    else:
        shares = [rest[s] for s in KINDS[kind](target[rest], agents, skew, rng)]
    train, test = [], []
    for name, share in zip(names, shares, strict=True):
        _check_share(name, target[share])
        inner, outer = holdout(target[share], test_fraction, rng)
        train.append(share[inner])
        test.append(share[outer])
        _check_train(name, data.graphs, train[-1], kind)
    return Partition(names, held, tuple(train), tuple(test), exclusive)


def holdout(strata: Ints, fraction: float, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Split indices into (kept, held), ⌈fraction·n⌉ of them held, stratified.

    If a stratum has a single member, the draw is not stratified. Both parts keep their order.

    >>> kept, held = holdout(np.array([0] * 10 + [1] * 10), 0.2, np.random.default_rng(0))
    >>> len(kept), np.bincount(np.array([0] * 10 + [1] * 10)[held]).tolist()
    (16, [2, 2])
    """
    n = len(strata)
    wanted = min(int(np.ceil(fraction * n - 1e-9)), n)
    _, code, size = np.unique(strata, return_inverse=True, return_counts=True)
    if size.min(initial=2) < 2:
        code, size = np.zeros(n, dtype=np.int64), np.array([n])
    quota = size * (wanted / n)
    count = np.floor(quota).astype(np.int64)
    ties = rng.permutation(len(size))  # break ties of equal remainders at random
    largest = ties[np.argsort((count - quota)[ties], kind="stable")]
    count[largest[: wanted - count.sum()]] += 1
    held = np.concatenate(
        [rng.permutation(np.flatnonzero(code == c))[:k] for c, k in enumerate(count)]
    )
    mask = np.zeros(n, dtype=bool)
    mask[held] = True
    return np.flatnonzero(~mask), np.flatnonzero(mask)


def stratified(strata: Ints) -> Ints:
    """Return indices in an order whose beginning has all strata, in proportion to their sizes.

    Within a stratum the order stays.

    >>> stratified(np.array([0, 0, 0, 0, 1, 1])).tolist()
    [0, 4, 1, 2, 5, 3]
    """
    place = np.empty(len(strata))
    for c in np.unique(strata):
        members = np.flatnonzero(strata == c)
        place[members] = np.arange(len(members)) / len(members)
    return np.argsort(place, kind="stable")


def chunks(target: Ints, agents: int, skew: float, rng: np.random.Generator) -> list[Ints]:
    """Give agents consecutive blocks of min(50, n/A) graphs, and the rest to random agents."""
    n = len(target)
    size = min(CHUNK, n // agents)
    random = rng.integers(agents, size=n - size * agents)
    owner = np.concatenate([np.repeat(np.arange(agents), size), random])
    return [np.flatnonzero(owner == a) for a in range(agents)]


def iid(target: Ints, agents: int, skew: float, rng: np.random.Generator) -> list[Ints]:
    """Give agents equal shares of a random permutation."""
    return _iid_of(np.arange(len(target)), agents, rng)


def dirichlet(target: Ints, agents: int, skew: float, rng: np.random.Generator) -> list[Ints]:
    """Distribute each class in proportions drawn from Dirichlet(skew): smaller is more skewed."""

    def draw() -> Ints:
        owner = np.empty(len(target), dtype=np.int64)
        for c in np.unique(target):
            members = rng.permutation(np.flatnonzero(target == c))
            owner[members] = _assign(rng.dirichlet(np.full(agents, skew)), len(members))
        return owner

    return _until_usable(draw, target, agents, "dirichlet")


def sizes(target: Ints, agents: int, skew: float, rng: np.random.Generator) -> list[Ints]:
    """Give agents shares of a random permutation, of sizes drawn from Dirichlet(skew)."""

    def draw() -> Ints:
        owner = np.empty(len(target), dtype=np.int64)
        order = rng.permutation(len(target))
        owner[order] = _assign(rng.dirichlet(np.full(agents, skew)), len(target))
        return owner

    return _until_usable(draw, target, agents, "sizes")


KINDS: dict[str, Callable[[Ints, int, float, np.random.Generator], list[Ints]]] = {
    "chunks": chunks,
    "iid": iid,
    "dirichlet": dirichlet,
    "sizes": sizes,
}


def exclusive_structure(
    graphs: GraphSet, rest: Ints, agents: int, rng: np.random.Generator
) -> list[Ints]:
    """Give the first agent an equal share, the graphs with the most nodes, and the others the rest.

    If fewer than two classes have two graphs among them, the share has the largest graphs of every
    class, in proportion to its size.
    """
    nodes, target, size = graphs.nodes[rest], graphs.target[rest], len(rest) // agents
    order = rng.permutation(len(rest))  # breaks ties at random
    order = order[np.argsort(-nodes[order], kind="stable")]
    if not _usable(target[order[:size]]):
        order = order[stratified(target[order])]
    return [np.sort(rest[order[:size]]), *_iid_of(rest[order[size:]], agents - 1, rng)]


def exclusive_class(
    graphs: GraphSet, rest: Ints, agents: int, rng: np.random.Generator
) -> list[Ints]:
    """Give the first agent alone the rarest class, filled up to an equal share; the rest to others.

    The class is at most half of the share, so that the agent has another one to learn; any
    further graphs of the class are given to nobody.
    """
    target = graphs.target[rest]
    classes, count = np.unique(target, return_counts=True)
    if len(classes) < 3:
        raise MotifairError(
            f"partition=exclusive-class needs at least 3 classes, but {graphs.name} has "
            f"{len(classes)}; use partition=exclusive-structure or another dataset."
        )
    rare = rng.permutation(rest[target == classes[count.argmin()]])
    others = rng.permutation(rest[target != classes[count.argmin()]])
    rare = rare[: len(others) // (2 * agents - 1)]
    size = (len(rare) + len(others)) // agents
    filled, left = np.split(others, [size - len(rare)])
    return [np.sort(np.concatenate([rare, filled])), *_iid_of(left, agents - 1, rng)]


# Partitions in which one agent, the first of those returned, has what no other has.
EXCLUSIVE: dict[str, Callable[[GraphSet, Ints, int, np.random.Generator], list[Ints]]] = {
    "exclusive-structure": exclusive_structure,
    "exclusive-class": exclusive_class,
}


def _iid_of(graphs: Ints, agents: int, rng: np.random.Generator) -> list[Ints]:
    return [np.sort(p) for p in np.array_split(rng.permutation(graphs), agents)]


def _usable(target: Ints) -> bool:
    """Whether there are at least two graphs of each of two classes."""
    return bool((np.sort(np.bincount(target, minlength=2))[-2:] >= 2).all())


def _assign(share: np.ndarray, n: int) -> Ints:
    """Return the owner of each of n positions, divided in proportion to `share`."""
    return np.searchsorted(np.cumsum(share)[:-1] * n, np.arange(n), side="right")


def _until_usable(draw: Callable[[], Ints], target: Ints, agents: int, kind: str) -> list[Ints]:
    """Repeat the draw until every agent has at least two graphs of each of two classes."""
    for _ in range(ATTEMPTS):
        shares = [np.flatnonzero(owner == a) for owner in [draw()] for a in range(agents)]
        if all(_usable(target[s]) for s in shares):
            return shares
    raise MotifairError(
        f"partition={kind} left an agent without two classes in {ATTEMPTS} draws; raise skew "
        "(larger is more even) or use fewer agents."
    )


def _by_owner(data: Dataset, rest: Ints) -> list[Ints]:
    assert data.owner is not None
    owner = data.owner[rest]
    return [rest[owner == a] for a in range(len(data.owners))]


def _check_share(name: str, target: Ints) -> None:
    if len(target) == 0:
        raise MotifairError(f"Agent '{name}' has no graph; give it some or use fewer agents.")
    if len(target) < 2:
        raise MotifairError(
            f"Agent '{name}' has 1 graph; a split into train and test needs at least 2. "
            "Give it more graphs or use fewer agents."
        )


def _check_train(name: str, graphs: GraphSet, train: Ints, kind: str) -> None:
    if len(train) == 0:
        raise MotifairError(
            f"Agent '{name}' has no graph left to train on; lower test_fraction or give it more."
        )
    if graphs.values is not None:
        if np.isnan(graphs.values[train]).all():
            raise MotifairError(
                f"Agent '{name}' trains on {len(train)} graphs without a label, so there is "
                "nothing to learn; give it labels, or leave it out."
            )
        return
    # The published chunking of IMDB-BINARY gives its tenth agent a single class: not a user error.
    if len(np.unique(graphs.target[train])) < 2 and kind != "chunks":
        raise MotifairError(
            f"Agent '{name}' trains on {len(train)} graphs of one class, so there is nothing to "
            "learn; give it graphs of another class, or use fewer agents."
        )
