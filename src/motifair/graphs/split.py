"""One data split: the graphs as the agents really hold them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from motifair.graphs.dataset import Dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.partition import Partition, make_partition
from motifair.graphs.perturb import Damage, flip, rewire, role_damage, tiers


@dataclass(frozen=True)
class Split:
    """All graphs (training graphs already damaged), who holds them, and each agent's role.

    `damage` is what was done to each agent's training graphs; empty where nobody knows.
    """

    graphs: GraphSet
    partition: Partition
    roles: tuple[str, ...]
    damage: tuple[Damage, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The agents, in order of name."""
        return self.partition.names

    def to_frame(self) -> pd.DataFrame:
        """Return who holds what, one row for each agent."""
        target = self.graphs.target
        rows = []
        for k, name in enumerate(self.names):
            train, test = self.partition.train[k], self.partition.test[k]
            row: dict[str, object] = {"agent": name}
            if self.roles:
                row["role"] = self.roles[k]
            row |= {"train": len(train), "test": len(test)}
            for c, value in enumerate(self.graphs.class_values):
                row[f"class {value}"] = int((target[train] == c).sum())
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
) -> Split:
    """Share the graphs out and damage training graphs as roles or tiers say."""
    rng = np.random.default_rng([seed, 1])
    shares = make_partition(
        data, partition, agents=agents, test_fraction=test_fraction, skew=skew, rng=rng
    )
    count = len(shares.names)
    roles: tuple[str, ...] = ()
    damage = (Damage(),) * count
    if partition == "domains" and data.roles:
        roles, damage = data.roles, tuple(role_damage(r) for r in data.roles)
    if perturbation == "tiers":
        roles, damage = tiers(count, rng)
    return Split(_damaged(data.graphs, shares, damage, rng), shares, roles, damage)


def _damaged(
    graphs: GraphSet,
    shares: Partition,
    damage: tuple[Damage, ...],
    rng: np.random.Generator,
) -> GraphSet:
    ratio = np.zeros(len(graphs))
    target = graphs.target.copy()
    for train, done in zip(shares.train, damage, strict=True):
        ratio[train] = done.rewired
        if done.flipped:
            target[train] = flip(target[train], graphs.classes)
    changed = replace(graphs, target=target)
    return rewire(changed, ratio, rng) if ratio.any() else changed
