"""The members of one federation: their graphs as a model reads them, made from a data split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.federation.belief import GraphSummary, summarise
from motifair.graphs.batch import Shard, make_shard
from motifair.graphs.cache import GraphCache
from motifair.graphs.features import fit_features, motif_labels, resolve_features, structure_inputs
from motifair.graphs.graph_set import GraphSet, Ints, ranges
from motifair.graphs.partition import holdout
from motifair.graphs.split import Split
from motifair.learning.randomness import derive_seed
from motifair.methods import Method, make_method
from motifair.models import Model
from motifair.motifs.chance import above_chance
from motifair.motifs.extract import MotifCounts, count_motifs
from motifair.motifs.vocabulary import MotifIndex, Vocabulary, select_vocabulary

_STRUCTURE: GraphCache[np.ndarray] = GraphCache()
_MOTIFS: GraphCache[MotifCounts] = GraphCache()


@dataclass(frozen=True)
class Members:
    """The members of a federation and their graphs, encoded for the model.

    Attributes:
        split: The data split they come from.
        seed: Seed of initial weights and training.
        model: The network.
        numbers: Numbers of the graphs that each agent trains on.
        lent_numbers: Numbers of the graphs that agents lend the server; none for most methods.
        train, test: Each agent's training and test graphs.
        global_test: The graphs that no agent trains on.
        lent: The graphs lent to the server.
        index: Which agent owns which motif; None for methods without motifs.
        summaries: What each agent says of its graphs, for methods that believe only some of them.
    """

    split: Split
    seed: int
    model: Model
    numbers: tuple[Ints, ...]
    lent_numbers: Ints
    train: tuple[Shard, ...]
    test: tuple[Shard, ...]
    global_test: Shard
    lent: Shard
    index: MotifIndex | None
    summaries: tuple[GraphSummary, ...] = ()

    @property
    def nodes(self) -> int:
        """Nodes of all training graphs."""
        return sum(len(s.kind) for s in self.train)


def prepare(config: Config, split: Split, *, seed: int) -> Members:
    """Encode the graphs of a split for the configured method."""
    method, graphs = make_method(config), split.graphs
    train, lent = _lend(method, split, seed)
    features = fit_features(graphs, np.concatenate(train), config.features)
    model = method.model(features.width, graphs.classes, config.hidden, config.layers)
    motifs = vocabularies(config, split, train) if method.uses_motifs else None

    extra = None
    if model.structure:
        extra = _STRUCTURE.get(graphs, None, lambda: structure_inputs(graphs))

    def shard(chosen: np.ndarray, motifs: sparse.csr_array | None = None) -> Shard:
        nodes = ranges(graphs.node_start[chosen], graphs.nodes[chosen])
        return make_shard(
            graphs.select(chosen),
            features,
            motifs,
            summed=model.summed_inputs,
            structure=None if extra is None else extra[nodes],
        )

    return Members(
        split=split,
        seed=seed,
        model=model,
        numbers=tuple(train),
        lent_numbers=lent,
        train=tuple(
            shard(t, None if motifs is None else motifs[k].incidence) for k, t in enumerate(train)
        ),
        test=tuple(shard(t) for t in split.partition.test),
        global_test=shard(split.partition.global_test),
        lent=shard(lent),
        index=None if motifs is None else MotifIndex.of([v.keys for v in motifs]),
        summaries=tuple(summarise(graphs.select(t)) for t in train) if method.believes else (),
    )


def vocabularies(config: Config, split: Split, train: list[np.ndarray]) -> list[Vocabulary]:
    """Choose the motifs of each agent."""
    graphs = split.graphs
    kind = resolve_features(graphs, config.features)
    labels = motif_labels(graphs, kind)
    how = (kind, config.rings, config.max_ring)
    counted = _MOTIFS.get(
        graphs,
        how,
        lambda: count_motifs(graphs, labels, rings=config.rings, max_ring=config.max_ring),
    )
    return [
        own_vocabulary(config, name, graphs, kind, own, counted)
        for name, own in zip(split.names, train, strict=True)
    ]


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


def _lend(method: Method, split: Split, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return what each agent trains on, and what agents lend the server for validation."""
    train = list(split.partition.train)
    if not method.validation:
        return train, np.zeros(0, dtype=np.int64)
    lent = []
    for k, name in enumerate(split.names):
        rng = np.random.default_rng(derive_seed(seed, f"validation/{name}"))
        kept, held = holdout(split.graphs.target[train[k]], method.validation, rng)
        lent.append(train[k][held])
        train[k] = train[k][kept]
    return train, np.concatenate(lent)
