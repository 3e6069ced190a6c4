"""One data split: a partition of the graphs, with each agent's training graphs perturbed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from motifair.graphs.dataset import AGENT, Dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.partition import Partition, make_partition
from motifair.graphs.perturb import (
    PERTURBATIONS,
    Damage,
    perturb_classes,
    perturb_values,
    repeat,
    rewire,
    role_damage,
)


@dataclass(frozen=True)
class Split:
    """Graphs and their partition among agents.

    Attributes:
        graphs: All graphs; training graphs are already perturbed.
        partition: Which agent holds which graphs; a training graph may be there more than
            once, where the perturbation says so.
        roles: Role or quality tier of each agent; empty if there are none.
        damage: Perturbation of each agent's training graphs; empty if unknown.
        parts: The splits of datasets that have inputs and classes of their own, of which this one
            is the sum; its `graphs` are then those of the dataset, as they were loaded.
    """

    graphs: GraphSet
    partition: Partition
    roles: tuple[str, ...]
    damage: tuple[Damage, ...] = ()
    parts: tuple[Split, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the agents, sorted."""
        return self.partition.names

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """The part of each agent, and its number there."""
        where = {
            name: (p, k) for p, part in enumerate(self.parts) for k, name in enumerate(part.names)
        }
        return tuple(where[name] for name in self.names)

    def to_frame(self) -> pd.DataFrame:
        """Return a table with the role, graphs, classes or labels, and nodes of each agent.

        Where datasets have classes of their own, a column has those of each agent, as text.
        """
        if self.parts:
            frames = pd.concat([_with_own_classes(part.to_frame()) for part in self.parts])
            return frames.loc[list(self.names)]
        target = self.graphs.target
        rows = []
        for k, name in enumerate(self.names):
            train, test = self.partition.train[k], self.partition.test[k]
            row: dict[str, object] = {"agent": name}
            if self.roles:
                row["role"] = self.roles[k]
            row |= {"train": len(train), "test": len(test)}
            if self.graphs.values is None:
                for c, value in enumerate(self.graphs.class_values):
                    row[f"class {value}"] = int((target[train] == c).sum())
            else:
                row["labels"] = int((~np.isnan(self.graphs.values[train])).sum())
            row["nodes"] = int(self.graphs.nodes[train].sum())
            rows.append(row)
        return pd.DataFrame(rows).set_index("agent")


def make_split(
    data: Dataset,
    *,
    partition: str,
    agents: int,
    test_fraction: float,
    skew: float,
    perturbation: str,
    seed: int,
    prefix: str = AGENT,
) -> Split:
    """Partition the graphs and perturb training graphs according to roles or tiers.

    Args:
        data: The dataset.
        partition: Kind of partition, see `make_partition`.
        agents: Number of agents.
        test_fraction: Share of each agent's graphs in its test set.
        skew: Concentration of the Dirichlet distribution of `dirichlet` and `sizes`.
        perturbation: A key of `PERTURBATIONS`; `none` leaves other graphs than those of `planted`
            as they are.
        seed: Seed of partition and perturbation.
        prefix: What agents are called, see `make_partition`.

    >>> from motifair.graphs.dataset import load_dataset
    >>> data = load_dataset("planted", agents=3, seed=0)
    >>> options = {"agents": 3, "test_fraction": 0.1, "skew": 1.0, "perturbation": "none"}
    >>> split = make_split(data, partition="domains", seed=0, **options)
    >>> split.roles, split.to_frame()["train"].tolist()
    (('good', 'good', 'harmful'), [97, 97, 97])
    """
    if data.parts:
        options = {"test_fraction": test_fraction, "skew": skew, "perturbation": perturbation}
        each = agents // len(data.owners)
        own = [_own_split(part, partition, each, seed=seed, **options) for part in data.parts]
        return _side_by_side(data, own)
    rng = np.random.default_rng([seed, 1])
    shares = make_partition(
        data,
        partition,
        agents=agents,
        test_fraction=test_fraction,
        skew=skew,
        rng=rng,
        prefix=prefix,
    )
    count = len(shares.names)
    roles: tuple[str, ...] = ()
    damage = (Damage(),) * count
    if partition == "domains" and data.roles:
        roles, damage = data.roles, tuple(role_damage(r) for r in data.roles)
    if shares.exclusive is not None:
        roles = tuple("exclusive" if k == shares.exclusive else "common" for k in range(count))
    if perturbation != "none":
        roles, damage = PERTURBATIONS[perturbation](count, rng)
    shares = _repeated(data.graphs, shares, damage, rng)
    return Split(_damaged(data.graphs, shares, damage, rng), shares, roles, damage)


def _own_split(part: Dataset, partition: str, agents: int, **options: Any) -> Split:
    """Share out one of several datasets to agents that are named after it.

    What it gives to whom does not depend on the other datasets.
    """
    kind = "iid" if agents == 1 else partition
    return make_split(part, partition=kind, agents=agents, prefix=part.name, **options)


def _side_by_side(data: Dataset, parts: Sequence[Split]) -> Split:
    """Put the splits of datasets side by side, agents in order of name."""
    first = np.cumsum([0, *(len(part.graphs) for part in parts[:-1])])
    agents = sorted(
        (name, p, k) for p, part in enumerate(parts) for k, name in enumerate(part.names)
    )
    held = [part.partition for part in parts]
    partition = Partition(
        names=tuple(name for name, _, _ in agents),
        global_test=np.concatenate([f + h.global_test for f, h in zip(first, held, strict=True)]),
        train=tuple(first[p] + held[p].train[k] for _, p, k in agents),
        test=tuple(first[p] + held[p].test[k] for _, p, k in agents),
    )
    roles = tuple(parts[p].roles[k] for _, p, k in agents if parts[p].roles)
    damage = tuple(parts[p].damage[k] for _, p, k in agents)
    return Split(data.graphs, partition, roles, damage, tuple(parts))


def _with_own_classes(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace the columns of classes by one that names each class and its number of graphs."""
    columns = [c for c in frame.columns if c.startswith("class ")]
    if not columns:
        return frame
    words = [
        ", ".join(f"{c.removeprefix('class ')}: {n}" for c, n in zip(columns, row, strict=True))
        for row in frame[columns].to_numpy()
    ]
    place = list(frame.columns).index(columns[0])
    kept = frame.drop(columns=columns)
    kept.insert(place, "graphs by class", words)
    return kept


def _repeated(
    graphs: GraphSet, shares: Partition, damage: tuple[Damage, ...], rng: np.random.Generator
) -> Partition:
    """Return the partition with the training graphs of agents that have duplicates or a twin."""
    train = list(shares.train)
    for k, how in enumerate(damage):
        if how.copies > 1:
            train[k] = train[k][repeat(graphs.target[train[k]], how.copies, rng)]
        if how.twin is not None:
            train[k] = shares.train[how.twin]
    return replace(shares, train=tuple(train))


def _damaged(
    graphs: GraphSet,
    shares: Partition,
    damage: tuple[Damage, ...],
    rng: np.random.Generator,
) -> GraphSet:
    ratio = np.zeros(len(graphs))
    target = graphs.target.copy()
    values = None if graphs.values is None else graphs.values.copy()
    for train, how in zip(shares.train, damage, strict=True):
        ratio[train] = how.rewired
        if values is None:
            target[train] = perturb_classes(target[train], how, graphs.classes, rng)
        else:
            values[train] = perturb_values(values[train], how, rng)
    flipped = replace(graphs, target=target, values=values)
    return rewire(flipped, ratio, rng) if ratio.any() else flipped
