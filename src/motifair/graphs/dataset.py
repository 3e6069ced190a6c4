"""A dataset: graphs, and (where it is known) which agent holds which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from motifair.errors import MotifairError
from motifair.graphs.convert import from_objects
from motifair.graphs.generated import TWITTER_LIKE, twitter_like
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.planted import planted
from motifair.graphs.tu import KNOWN, load_tu

EMBEDDED = "planted"
GENERATED = (EMBEDDED, TWITTER_LIKE)

Objects = Sequence[Any] | Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Dataset:
    """Graphs; with `owner`, the agent (an index into `owners`) that holds each graph.

    `schemas` names, for each agent, the published dataset its graphs come from: node labels mean
    the same only within one. Agents' own graphs are taken to speak of the same labels.
    """

    graphs: GraphSet
    owner: Ints | None = None
    owners: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name under which results are filed."""
        return self.graphs.name


def load_dataset(
    dataset: str | Objects, *, agents: int, seed: int, data_dir: Path | None = None
) -> Dataset:
    """Load by name or path, or take the user's own objects.

    `planted` is generated from `seed` for `agents` agents; `twitter-like`, too, is generated, but
    is the same whatever the seed, as a file would be. Several names or paths joined by commas, or
    a mapping from agent to graphs, give each agent its own dataset.
    """
    if not isinstance(dataset, str):
        return _from_memory(dataset)
    if dataset == EMBEDDED:
        made = planted(agents, seed)
        return Dataset(made.graphs, made.owner, agent_names(agents), made.roles)
    if "," in dataset:
        return _owned(*_joined(dataset.split(","), data_dir))
    return Dataset(_load(dataset, data_dir))


def agent_names(agents: int) -> tuple[str, ...]:
    """Name agents so that their order by name is their order by number.

    >>> agent_names(3)
    ('agent-00', 'agent-01', 'agent-02')
    """
    digits = max(2, len(str(agents - 1)))
    return tuple(f"agent-{a:0{digits}d}" for a in range(agents))


def dataset_name(dataset: str) -> str:
    """Return the name of a dataset given by name or path; of several, their names joined by `+`.

    >>> dataset_name("data/PROTEINS.zip"), dataset_name("data/PROTEINS/raw")
    ('PROTEINS', 'PROTEINS')
    >>> dataset_name("data/MUTAG.zip,data/BZR")
    'BZR+MUTAG'
    """
    return "+".join(sorted(_stem(part) for part in dataset.split(",")))


def _stem(dataset: str) -> str:
    path = Path(dataset)
    return path.parent.name if path.name == "raw" else path.stem  # PyG's folder is NAME/raw


def _load(dataset: str, data_dir: Path | None) -> GraphSet:
    return twitter_like() if dataset == TWITTER_LIKE else load_tu(dataset, data_dir)


def _from_memory(objects: Objects) -> Dataset:
    if isinstance(objects, Mapping):
        return _owned(list(objects), [from_objects(n, list(g)) for n, g in objects.items()])
    return Dataset(from_objects("own graphs", list(objects)))


def _joined(parts: list[str], data_dir: Path | None) -> tuple[list[str], list[GraphSet]]:
    if EMBEDDED in parts:
        raise MotifairError(
            f"{EMBEDDED} has agents of its own and cannot be joined to others; leave it out."
        )
    return [_stem(p) for p in parts], [_load(p, data_dir) for p in parts]


def _owned(agents: Sequence[str], held: Sequence[GraphSet]) -> Dataset:
    if len(agents) < 2 or len(set(agents)) < len(agents):
        raise MotifairError("Each agent its own dataset needs at least two, under different names.")
    names = sorted(agents)
    sets = [held[agents.index(n)] for n in names]
    owner = np.repeat(np.arange(len(sets)), [len(s) for s in sets])
    published = {*KNOWN, TWITTER_LIKE}
    schemas = tuple(s.name if s.name in published else "own graphs" for s in sets)
    joined = GraphSet.concatenate("+".join(names), sets)
    return Dataset(joined, owner, tuple(names), schemas=schemas)
