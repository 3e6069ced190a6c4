"""Load a dataset: graphs and, where it is given, which agent holds which graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from motifair.components import offered
from motifair.errors import MotifairError
from motifair.graphs.convert import from_objects
from motifair.graphs.csv_file import BY_NAME, Columns, Table, csv_stem, is_csv
from motifair.graphs.features import repeats_labels
from motifair.graphs.generated import TWITTER_LIKE, twitter_like
from motifair.graphs.graph_set import NO_CLASS, GraphSet, Ints
from motifair.graphs.planted import planted
from motifair.graphs.read import holds_graph_files, is_graph_file, read_graphs, read_table
from motifair.graphs.tu import KNOWN, data_folder, load_tu

AGENT = "agent"
EMBEDDED = "planted"
GENERATED = (EMBEDDED, TWITTER_LIKE)
OWN = "own graphs"
PLUGINS = "motifair.datasets"
TWO_NAMES = "Each agent its own dataset needs at least two, under different names."

Objects = Sequence[Any] | Mapping[str, Sequence[Any] | str | Path]


@dataclass(frozen=True)
class Source:
    """Metadata of one agent's graphs before they are joined to those of the other agents.

    `schema` is the name of the published dataset they come from, or `OWN`: node labels, attributes
    and classes have the same meaning only within one schema. All graphs given by path or as objects
    are assumed to share one. `attributes` is the number of node attributes, which may only be the
    one-hot labels (`repeats_labels`).
    """

    schema: str
    class_values: tuple[int, ...]
    node_labels: bool
    attributes: int
    repeats_labels: bool


@dataclass(frozen=True)
class Dataset:
    """Graphs and, where it is given, the agent that holds each of them.

    Attributes:
        graphs: All graphs.
        owner: Index into `owners` of the agent that holds each graph, or None.
        owners: Names of the agents.
        roles: Role of each agent of the `planted` dataset.
        sources: Metadata of each agent's graphs, where each agent has its own dataset.
        table: What a CSV file says of its graphs, where they come from one.
        molecules: Whether the graphs are molecules, read from SMILES.
        parts: The datasets by themselves, where each has inputs and classes of its own. `graphs`
            then has all of them without labels, attributes and targets that are no classes.
    """

    graphs: GraphSet
    owner: Ints | None = None
    owners: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    table: Table | None = None
    molecules: bool = False
    parts: tuple[Dataset, ...] = ()

    @property
    def name(self) -> str:
        """Name of the dataset, used in results."""
        return self.graphs.name

    @property
    def schemas(self) -> tuple[str, ...]:
        """Distinct schemas of the agents' graphs, sorted."""
        return tuple(sorted({source.schema for source in self.sources}))


def load_dataset(
    dataset: str | Objects,
    *,
    agents: int,
    seed: int,
    data_dir: Path | None = None,
    columns: Columns = BY_NAME,
    spaces: str = "common",
) -> Dataset:
    """Load a dataset by name or path, or convert graph objects.

    Args:
        dataset: The name of a TU dataset, the path of graphs that `read_graphs` can read,
            `planted`, `twitter-like`, a name that an installed package offers as an entry point of
            `motifair.datasets`, or a list of PyG or NetworkX graphs. Several names or paths joined
            by commas, or a mapping from agent to graphs, a name or a path, give each agent its own
            dataset.
        agents: Number of agents of `planted`; other datasets do not depend on it.
        seed: Seed of `planted`; `twitter-like` always has the same graphs.
        data_dir: Folder with datasets, by default `$MOTIFAIR_DATA`.
        columns: Which columns of a CSV file are read.
        spaces: What datasets of agents have in common. `common`: the classes of graphs given by
            path or as objects are matched by value, those of different published datasets by
            position. `own`: nothing, each is one of the `parts`. `auto` is `own` if there is a
            published dataset among them.

    Raises:
        MotifairError: If there is no such dataset, or its graphs cannot be used.

    >>> load_dataset("planted", agents=2, seed=0).graphs
    GraphSet(planted: 240 graphs, 2 classes)
    """
    if not isinstance(dataset, str):
        return _from_memory(dataset, data_dir, columns, spaces)
    if dataset == EMBEDDED:
        made = planted(agents, seed)
        return Dataset(made.graphs, made.owner, agent_names(agents), made.roles)
    offered = _offered(dataset)
    if offered is not None:
        return _from_memory(offered, data_dir, columns, spaces)
    if "," in dataset:
        return _named(dict(_stems(dataset.split(","))), data_dir, columns, spaces)
    return _load(dataset, data_dir, columns)


def agent_names(agents: int, prefix: str = AGENT) -> tuple[str, ...]:
    """Return names of agents whose alphabetical order is their numerical order.

    >>> agent_names(3)
    ('agent-00', 'agent-01', 'agent-02')
    """
    digits = max(2, len(str(agents - 1)))
    return tuple(f"{prefix}-{a:0{digits}d}" for a in range(agents))


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
    return path.parent.name if path.name == "raw" else csv_stem(path)  # PyG's folder is NAME/raw


def _load(dataset: str, data_dir: Path | None, columns: Columns) -> Dataset:
    if dataset == TWITTER_LIKE:
        return Dataset(twitter_like())
    path = _own_files(dataset, data_dir)
    if path is not None and is_csv(path):
        graphs, table = read_table(path, columns)
        return Dataset(graphs, table=table, molecules=table is not None)
    return Dataset(load_tu(dataset, data_dir) if path is None else _numbered(read_graphs(path)))


def _own_files(dataset: str, data_dir: Path | None) -> Path | None:
    """Return the path of files that are not in the TU format, or None."""
    given = Path(dataset).expanduser()
    if given.is_dir():
        return given if holds_graph_files(given) else None
    if not is_graph_file(given):
        return None
    folder = data_folder(data_dir)
    for path in (given, *([] if folder is None else [folder / given])):
        if path.is_file():
            return path
    raise MotifairError(f"There is no file {dataset}; check the path.")


def _numbered(graphs: GraphSet) -> GraphSet:
    """Return graphs of `read_graphs` with classes numbered from 0."""
    if graphs.values is not None:
        return graphs
    if len(unknown := np.flatnonzero(graphs.target == NO_CLASS)):
        raise MotifairError(f"Graph {unknown[0]} of {graphs.name} has no class; give it y.")
    return replace(graphs, target=np.searchsorted(graphs.class_values, graphs.target))


def _offered(dataset: str) -> Objects | None:
    """Return the graphs of a plugin: what the function behind an entry point returns."""
    if dataset in KNOWN or "," in dataset:  # reading entry points takes long
        return None
    for entry in offered(PLUGINS).select(name=dataset):
        graphs: Objects = entry.load()()
        return graphs
    return None


def _from_memory(objects: Objects, data_dir: Path | None, columns: Columns, spaces: str) -> Dataset:
    if isinstance(objects, Mapping):
        return _named(objects, data_dir, columns, spaces)
    return Dataset(from_objects(OWN, list(objects)))


def _stems(parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each name or path of a dataset with the name of its agent."""
    names = [_stem(part) for part in parts]
    if len(set(names)) < len(names):
        raise MotifairError(TWO_NAMES)
    yield from zip(names, parts, strict=True)


def _named(
    given: Mapping[str, Sequence[Any] | str | Path],
    data_dir: Path | None,
    columns: Columns,
    spaces: str,
) -> Dataset:
    """Join datasets given by agent: as graph objects, or by name or path."""
    names = sorted(given)
    if len(names) < 2:
        raise MotifairError(TWO_NAMES)
    loaded, schemas = [], []
    for name in names:
        source = given[name]
        if not isinstance(source, str | Path):
            loaded.append(Dataset(from_objects(name, list(source))))
            schemas.append(OWN)
            continue
        if str(source) == EMBEDDED:
            raise MotifairError(
                f"{EMBEDDED} has agents of its own and cannot be joined to others; leave it out."
            )
        loaded.append(_load(str(source), data_dir, columns))
        schemas.append(_schema(str(source), loaded[-1].graphs))
    if spaces == "own" or (spaces == "auto" and len(set(schemas)) > 1):
        return _apart(names, loaded)
    return _owned(names, loaded, schemas)


def _schema(part: str, graphs: GraphSet) -> str:
    """Return the name of a published dataset, or `OWN` for a path to any other graphs."""
    own = graphs.name not in {*KNOWN, TWITTER_LIKE} and Path(part).expanduser().exists()
    return OWN if own else graphs.name


def _apart(names: Sequence[str], loaded: Sequence[Dataset]) -> Dataset:
    """Put datasets with inputs and classes of their own side by side; names are sorted."""
    parts, bare, first = [], [], 0
    for name, data in zip(names, loaded, strict=True):
        graphs = replace(data.graphs, name=name)
        parts.append(Dataset(graphs, molecules=data.molecules))
        bare.append(
            replace(
                graphs,
                class_values=tuple(range(first, first := first + graphs.classes)),
                node_label=None,
                edge_label=None,
                attribute=None,
                ignored=(),
                values=None,
                target_names=(),
            )
        )
    return Dataset(
        GraphSet.concatenate("+".join(names), bare),
        np.repeat(np.arange(len(parts)), [len(part.graphs) for part in parts]),
        tuple(names),
        molecules=all(part.molecules for part in parts),
        parts=tuple(parts),
    )


def _owned(names: Sequence[str], loaded: Sequence[Dataset], schemas: Sequence[str]) -> Dataset:
    """Join the datasets of agents, whose names are sorted, to one."""
    sets = [data.graphs for data in loaded]
    sources = tuple(_source(s, schema) for s, schema in zip(sets, schemas, strict=True))
    owner = np.repeat(np.arange(len(sets)), [len(s) for s in sets])
    if len(set(schemas)) > 1:
        sets = _by_position(sets, sources)
    joined = GraphSet.concatenate("+".join(names), sets)
    joined = replace(joined, ignored=(*joined.ignored, *_dropped(joined, names, sets)))
    molecules = all(data.molecules for data in loaded)
    return Dataset(joined, owner, tuple(names), sources=sources, molecules=molecules)


def _dropped(joined: GraphSet, names: Sequence[str], sets: Sequence[GraphSet]) -> Iterator[str]:
    """Name the labels and attributes of some agents that were dropped as not all have them."""
    fields = {
        "node_label": "node labels",
        "attribute": "node attributes",
        "edge_label": "edge labels",
    }
    for field, words in fields.items():
        holders = [n for n, s in zip(names, sets, strict=True) if getattr(s, field) is not None]
        if holders and getattr(joined, field) is None:
            yield f"{words} of {', '.join(holders)}"


def _source(graphs: GraphSet, schema: str) -> Source:
    width = 0 if graphs.attribute is None else graphs.attribute.shape[1]
    labels = graphs.node_label is not None
    return Source(schema, graphs.class_values, labels, width, repeats_labels(graphs))


def _by_position(sets: Sequence[GraphSet], sources: Sequence[Source]) -> list[GraphSet]:
    """Number classes within their schema: values of different schemas are not comparable."""
    numbered = []
    for graphs, source in zip(sets, sources, strict=True):
        same_schema = [s.class_values for s in sources if s.schema == source.schema]
        values = sorted({value for one in same_schema for value in one})
        target = graphs.numbered(values)
        numbered.append(replace(graphs, target=target, class_values=tuple(range(len(values)))))
    return numbered
