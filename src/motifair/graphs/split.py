"""One data split: a partition of the graphs, with each agent's training graphs perturbed."""

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
    """Graphs and their partition among agents.

    Attributes:
        graphs: All graphs; training graphs are already perturbed.
        partition: Which agent holds which graphs.
        roles: Role or quality tier of each agent; empty if there are none.
        damage: Perturbation of each agent's training graphs; empty if unknown.
    """

    graphs: GraphSet
    partition: Partition
    roles: tuple[str, ...]
    damage: tuple[Damage, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the agents, sorted."""
        return self.partition.names

    def to_frame(self) -> pd.DataFrame:
        """Return a table with the role, graphs, classes and nodes of each agent."""
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
    """Partition the graphs and perturb training graphs according to roles or tiers.

    Args:
        data: The dataset.
        partition: Kind of partition, see `make_partition`.
        agents: Number of agents.
        test_fraction: Share of each agent's graphs in its test set.
        skew: Concentration of the Dirichlet distribution of `dirichlet` and `sizes`.
        perturbation: `tiers` rewires edges by quality tier; `none` leaves other graphs than those
            of `planted` as they are.
        seed: Seed of partition and perturbation.

    >>> from motifair.graphs.dataset import load_dataset
    >>> data = load_dataset("planted", agents=3, seed=0)
    >>> options = {"agents": 3, "test_fraction": 0.1, "skew": 1.0, "perturbation": "none"}
    >>> split = make_split(data, partition="domains", seed=0, **options)
    >>> split.roles, split.to_frame()["train"].tolist()
    (('good', 'good', 'harmful'), [97, 97, 97])
    """
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
    for train, how in zip(shares.train, damage, strict=True):
        ratio[train] = how.rewired
        if how.flipped:
            target[train] = flip(target[train], graphs.classes)
    flipped = replace(graphs, target=target)
    return rewire(flipped, ratio, rng) if ratio.any() else flipped
