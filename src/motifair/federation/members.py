"""The members of one federation: their graphs as a model reads them, made from a data split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.evaluation.metrics import check_defined, choose_metric
from motifair.federation.belief import (
    GraphSummary,
    believed_graphs,
    graph_weights,
    judge_shares,
    summarise,
)
from motifair.federation.offer import Offer, offered
from motifair.graphs.batch import Shard, make_shard
from motifair.graphs.cache import GraphCache
from motifair.graphs.features import (
    Features,
    as_read,
    fit_features,
    motif_labels,
    resolve_features,
    structure_inputs,
)
from motifair.graphs.graph_set import GraphSet, Ints, ranges
from motifair.graphs.partition import holdout
from motifair.graphs.split import Split
from motifair.graphs.targets import default_names
from motifair.graphs.task import CLASSES, Task, fit_task
from motifair.learning.randomness import derive_seed
from motifair.methods import Method, make_method
from motifair.models import Model
from motifair.motifs.chance import above_chance
from motifair.motifs.extract import MotifCounts, count_motifs
from motifair.motifs.vocabulary import MotifIndex, Vocabulary, of_dataset, select_vocabulary

_STRUCTURE: GraphCache[np.ndarray] = GraphCache()
_MOTIFS: GraphCache[MotifCounts] = GraphCache()


@dataclass(frozen=True)
class Given:
    """What a member gives that withholds some of its graphs.

    Attributes:
        agent: Its number.
        graphs: How many graphs it gives.
        shard: Those graphs; if there are none, all that it has, of which nothing is sent.
    """

    agent: int
    graphs: int
    shard: Shard


@dataclass(frozen=True)
class Members:
    """The members of a federation and their graphs, encoded for the model.

    Attributes:
        split: The data split they come from.
        seed: Seed of initial weights and training.
        model: The network.
        encoding: The encoding of its inputs; None where datasets have inputs of their own.
        numbers: Numbers of the graphs that each agent trains on.
        lent_numbers: Numbers of the graphs that agents lend the server; none for most methods.
        train, test: Each agent's training and test graphs.
        global_test: The graphs that no agent trains on.
        lent: The graphs lent to the server.
        index: Which agent owns which motif; None for methods without motifs.
        summaries: What each agent says of its graphs, for methods that believe only some of them.
        given: What the member gives that withholds graphs; None if all give all.
        parts: The members of each dataset by themselves, where datasets have inputs and classes of
            their own. The model has as many inputs and outputs as the widest of theirs.
    """

    split: Split
    seed: int
    model: Model
    encoding: Features | None
    numbers: tuple[Ints, ...]
    lent_numbers: Ints
    train: tuple[Shard, ...]
    test: tuple[Shard, ...]
    global_test: Shard
    lent: Shard
    index: MotifIndex | None
    summaries: tuple[GraphSummary, ...] = ()
    given: Given | None = None
    parts: tuple[Members, ...] = ()

    @property
    def features(self) -> Features:
        """The encoding of inputs that all members share."""
        assert self.encoding is not None
        return self.encoding

    @property
    def space(self) -> Ints:
        """Number of each agent's part, `(A,)`; 0 for all where there are none."""
        places = self.split.places if self.parts else [(0, 0)] * len(self.train)
        return np.array([p for p, _ in places])

    def own(self, agent: int) -> Members:
        """Return the members of an agent's own dataset: all, unless there are parts."""
        return self.parts[self.space[agent]] if self.parts else self

    @property
    def tasks(self) -> tuple[Task, ...] | None:
        """What each agent predicts, where datasets have classes or targets of their own.

        Errors of their numbers are in units of a target's deviation: others cannot be compared.
        """
        if not self.parts:
            return None
        return tuple(_in_deviations(self.parts[p].model.task) for p in self.space)

    def initial_rows(self, seed: int, dtype: torch.dtype, shared: slice) -> Tensor:
        """Return the initial weights of each agent, `(A, D)`, equal in the `shared` slice.

        An agent with inputs and outputs of its own begins as its own model would.
        """
        layout = self.model.layout
        common = layout.initial(seed, dtype)
        if not self.parts:
            return common.expand(len(self.train), -1)
        layouts = [part.model.layout for part in self.parts]
        own = [one.fit(one.initial(seed, dtype), layout) for one in layouts]
        rows = torch.stack([own[p] for p in self.space])
        rows[:, shared] = common[shared]
        return rows

    def believed(self) -> np.ndarray:
        """Return how many graphs of each agent count, compared with others of its dataset."""
        return self._by_space(lambda summaries, _: believed_graphs(summaries))

    def graph_weights(self) -> np.ndarray:
        """Return how much one graph of each agent counts, by the classes of its dataset."""

        def weights(said: list[GraphSummary], own: Members) -> np.ndarray:
            return graph_weights(said, own.split.graphs.class_values)

        return self._by_space(weights)

    def judges(self) -> np.ndarray:
        """Return how much each agent counts as a judge of each other's model, `(A, A)`."""
        return judge_shares(self.summaries)

    def _by_space(self, of: Callable[[list[GraphSummary], Members], np.ndarray]) -> np.ndarray:
        result = np.empty(len(self.train))
        for p in np.unique(self.space):
            agents = np.flatnonzero(self.space == p)
            result[agents] = of([self.summaries[a] for a in agents], self.own(int(agents[0])))
        return result

    @property
    def nodes(self) -> int:
        """Nodes of all training graphs."""
        return sum(len(s.kind) for s in self.train)

    @property
    def graphs(self) -> list[int]:
        """Numbers of training graphs that the server is told."""
        counts = [len(s) for s in self.train]
        if self.given is not None:
            counts[self.given.agent] = self.given.graphs
        return counts


def prepare(config: Config, split: Split, *, seed: int, offer: Offer | None = None) -> Members:
    """Encode the graphs of a split for the configured method.

    With an `offer` one member gives only a part of its graphs: its updates, its motifs and what it
    lends the server come from that part, while what stays with it is trained on all it has.
    """
    if split.parts:
        return _side_by_side(config, split, seed, offer)
    method, graphs = make_method(config), split.graphs
    train, lent = _lend(method, split, seed, offer)
    given = _given(split, train, seed, offer)
    features, model = make_network(config, split, train)
    shard = shard_encoder(graphs, features, model)
    motifs = vocabularies(config, split, given, offer) if method.uses_motifs else None
    contained: list[sparse.csr_array | None] = [None] * len(train)
    if motifs is not None:
        contained = [v.incidence for v in motifs]
    gift = None
    if offer is not None:
        k, part = offer.agent, contained[offer.agent]
        if motifs is not None:
            contained[k] = _contained(config, graphs, motifs[k].keys, train[k])
        sent = (given[k], part) if len(given[k]) else (train[k], contained[k])
        gift = Given(k, len(given[k]), shard(*sent))
    return Members(
        split=split,
        seed=seed,
        model=model,
        encoding=features,
        numbers=tuple(train),
        lent_numbers=lent,
        train=tuple(shard(t, c) for t, c in zip(train, contained, strict=True)),
        test=tuple(shard(t, None) for t in split.partition.test),
        global_test=shard(split.partition.global_test, None),
        lent=shard(lent, None),
        index=None if motifs is None else MotifIndex.of([v.keys for v in motifs]),
        summaries=_summaries(graphs, given, features) if method.believes else (),
        given=gift,
    )


def make_network(config: Config, split: Split, train: list[Ints]) -> tuple[Features, Model]:
    """Return the encoding of inputs and the network for the graphs that each agent trains on."""
    method = make_method(config)
    edges = config.edges if method.reads_edges() else "ignore"
    features = fit_features(split.graphs, train, config.features, edges)
    task = _task(config, split, train)
    return features, method.network(features.width, features.edges, task)


def _side_by_side(config: Config, split: Split, seed: int, offer: Offer | None) -> Members:
    """Encode datasets with inputs and classes of their own, each by itself, for one stack of rows.

    A motif of one dataset is none of another, whose labels mean something else.
    """
    giving = (-1, -1) if offer is None else split.places[offer.agent]
    parts = []
    for p, part in enumerate(split.parts):
        own = Offer(giving[1], offer.share) if offer is not None and p == giving[0] else None
        parts.append(prepare(config, part, seed=seed, offer=own))
    widest = max((part.model.task for part in parts), key=lambda task: task.outputs)
    names = () if widest.kind == CLASSES else default_names(widest.outputs)
    task = replace(_in_deviations(widest), names=names)
    width = max(part.model.width for part in parts)

    def spread(of: Callable[[Members], Sequence[Shard]]) -> tuple[Shard, ...]:
        return tuple(of(parts[p])[k].widened(width, task.outputs) for p, k in split.places)

    given = None
    if offer is not None and (own_gift := parts[giving[0]].given) is not None:
        shard = own_gift.shard.widened(width, task.outputs)
        given = Given(offer.agent, own_gift.graphs, shard)
    first = np.cumsum([0, *(len(part.split.graphs) for part in parts[:-1])])
    nothing = parts[0].lent.widened(width, task.outputs)
    return Members(
        split=split,
        seed=seed,
        model=make_method(config).network(width, 0, task),
        encoding=None,
        numbers=tuple(first[p] + parts[p].numbers[k] for p, k in split.places),
        lent_numbers=parts[0].lent_numbers,
        train=spread(lambda part: part.train),
        test=spread(lambda part: part.test),
        global_test=nothing,
        lent=nothing,
        index=_joined_index(split, [part.index for part in parts if part.index is not None]),
        summaries=tuple(parts[p].summaries[k] for p, k in split.places if parts[p].summaries),
        given=given,
        parts=tuple(parts),
    )


def _joined_index(split: Split, indices: Sequence[MotifIndex]) -> MotifIndex | None:
    """Return the index of all agents' motifs, each called after its dataset."""
    if not indices:
        return None
    keys = [of_dataset(split.parts[p].graphs.name, indices[p].of_agent(k)) for p, k in split.places]
    return MotifIndex.of(keys)


def _in_deviations(task: Task) -> Task:
    """Return a task whose numbers are judged as the model predicts them, over their deviation."""
    return replace(task, mean=(0.0,) * len(task.mean), scale=(1.0,) * len(task.scale))


def _task(config: Config, split: Split, train: list[Ints]) -> Task:
    """Return what is predicted, numbers scaled by the members' sums."""
    graphs = split.graphs
    task = fit_task(graphs, train, config.task)
    task = replace(task, metric=choose_metric(task.kind, config.metric))
    for name, test in zip(split.names, split.partition.test, strict=True):
        check_defined(task, name, graphs.select(test))
    return task


def _summaries(graphs: GraphSet, given: list[Ints], features: Features) -> tuple[GraphSummary, ...]:
    """Return what each agent says of the graphs that it gives, as the model reads them."""
    read = as_read(graphs, features.kind)
    return tuple(summarise(read.select(g), edges=features.edges > 0) for g in given)


def shard_encoder(
    graphs: GraphSet, features: Features, model: Model
) -> Callable[[Ints, sparse.csr_array | None], Shard]:
    """Return what encodes chosen graphs, with the motifs that they contain, for a model."""
    extra, encoded = None, model.task.encode(graphs)
    if model.structure:
        extra = _STRUCTURE.get(graphs, None, lambda: structure_inputs(graphs))

    def shard(chosen: Ints, motifs: sparse.csr_array | None) -> Shard:
        nodes = ranges(graphs.node_start[chosen], graphs.nodes[chosen])
        return make_shard(
            encoded.select(chosen),
            features,
            motifs,
            summed=model.summed_inputs,
            structure=None if extra is None else extra[nodes],
        )

    return shard


def vocabularies(
    config: Config, split: Split, train: list[np.ndarray], offer: Offer | None = None
) -> list[Vocabulary]:
    """Choose the motifs of each agent; the member of an `offer` may have none in what it gives."""
    kind, counted = _counted(config, split.graphs)

    def choose(k: int, own: np.ndarray) -> Vocabulary:
        if offer is not None and k == offer.agent and counted.counts[own].nnz == 0:
            return Vocabulary((), sparse.csr_array((len(own), 0), dtype=np.float32))
        return own_vocabulary(config, split.names[k], split.graphs, kind, own, counted)

    return [choose(k, own) for k, own in enumerate(train)]


def _counted(config: Config, graphs: GraphSet) -> tuple[str, MotifCounts]:
    """Return what a node shows in a motif, and the motif counts of all graphs."""
    kind = resolve_features(graphs, config.features)
    labels = motif_labels(graphs, kind)
    counted = _MOTIFS.get(
        graphs,
        (kind, config.rings, config.max_ring),
        lambda: count_motifs(graphs, labels, rings=config.rings, max_ring=config.max_ring),
    )
    return kind, counted


def _contained(
    config: Config, graphs: GraphSet, keys: tuple[str, ...], chosen: Ints
) -> sparse.csr_array:
    """Return which of the chosen graphs contain which of some motifs, `(graphs, motifs)`."""
    _, counted = _counted(config, graphs)
    place = {key: k for k, key in enumerate(counted.keys)}
    columns = np.array([place[key] for key in keys], dtype=np.int64)
    return sparse.csr_array((counted.counts[chosen][:, columns] > 0).astype(np.float32))


def own_vocabulary(
    config: Config, name: str, graphs: GraphSet, kind: str, train: Ints, counted: MotifCounts
) -> Vocabulary:
    """Choose the motifs of one agent, by its training graphs alone."""
    counts = counted.counts[train]
    if counts.nnz == 0:
        raise MotifairError(
            f"No training graph of agent '{name}' has an edge, so it has no motif; "
            "give it graphs with edges."
        )
    allowed = above_chance(config, graphs, kind, train, counted) if config.chance else None
    return select_vocabulary(
        counts,
        counted.keys,
        fraction=config.vocabulary_fraction,
        form=config.tfidf,
        allowed=allowed,
    )


def _lend(
    method: Method, split: Split, seed: int, offer: Offer | None
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return what each agent trains on, and what agents lend the server for validation.

    A member lends of what it gives only.
    """
    train = list(split.partition.train)
    lent = [np.zeros(0, dtype=np.int64)]
    source = _given(split, train, seed, offer)
    for k, name in enumerate(split.names if method.validation else ()):
        if len(source[k]):
            rng = np.random.default_rng(derive_seed(seed, f"validation/{name}"))
            _, held = holdout(split.graphs.target[source[k]], method.validation, rng)
            lent.append(source[k][held])
            train[k] = train[k][~np.isin(train[k], lent[-1])]
    return train, np.concatenate(lent)


def _given(
    split: Split, train: list[np.ndarray], seed: int, offer: Offer | None
) -> list[np.ndarray]:
    """Return which of its graphs each agent gives: all, but for the member of an offer."""
    given = list(train)
    if offer is not None:
        own = train[offer.agent]
        given[offer.agent] = own[np.isin(own, offered(split, offer, seed=seed))]
    return given
