"""Preparation of one member's graphs, without knowledge of the others'."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from motifair.config import Config
from motifair.consortium.members_key import hashed_fingerprints, hashed_motif
from motifair.errors import MotifairError
from motifair.evaluation.metrics import check_defined, choose_metric
from motifair.federation.belief import GraphSummary, summarise
from motifair.federation.members import own_vocabulary, shard_encoder
from motifair.graphs.batch import Shard
from motifair.graphs.dataset import Dataset
from motifair.graphs.features import as_read, motif_labels
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.inputs import Inputs, describe_inputs
from motifair.graphs.partition import holdout
from motifair.graphs.schema import Schema, conform
from motifair.learning.randomness import derive_seed
from motifair.methods import make_method, own_model
from motifair.models import Model
from motifair.motifs.extract import count_motifs


@dataclass(frozen=True)
class MemberData:
    """A member's encoded training and test graphs, the keys of its motifs as the server gets them,
    what of its graphs is used (`inputs`), and what it says of its training graphs if the method
    believes only some.
    """

    model: Model
    train: Shard
    test: Shard
    motifs: tuple[str, ...]
    inputs: Inputs
    summary: GraphSummary | None


def prepare_member_data(
    config: Config,
    schema: Schema,
    name: str,
    graphs: GraphSet,
    seed: int,
    key: int,
    members_key: bytes = b"",
) -> MemberData:
    """Check graphs against the agreed schema, hold out test graphs, and encode both parts.

    `key` is that of the federation's fingerprints, with which everybody can compute them;
    `members_key` that of the members alone, if they share one.
    """
    try:
        graphs = conform(graphs, schema)
    except MotifairError as error:  # the sample may have lacked a rare label
        raise MotifairError(
            f"{error} If the graphs are right, ask the operator for terms whose [schema] is made "
            "from a sample with every label and class."
        ) from error
    method = make_method(config)
    model = make_model(config, schema)
    train, test = member_holdout(config, name, graphs, seed)
    check_defined(model.task, name, graphs.select(test))
    vocabulary = None
    if method.uses_motifs:
        labels = motif_labels(graphs, schema.features)
        counted = count_motifs(graphs, labels, rings=config.rings, max_ring=config.max_ring)
        vocabulary = own_vocabulary(config, name, graphs, schema.features, train, counted)
        if members_key:
            vocabulary = vocabulary.renamed(partial(hashed_motif, members_key))
    shard = shard_encoder(graphs, schema.encoding(), model)
    return MemberData(
        model,
        shard(train, vocabulary.incidence if vocabulary else None),
        shard(test, None),
        vocabulary.keys if vocabulary else (),
        describe_inputs(
            Dataset(graphs),
            schema.features,
            edges=bool(schema.edges),
            motifs=method.uses_motifs,
            task=model.task.kind,
            model=own_model(method),
        ),
        _summary(graphs.select(train), schema, key, members_key) if method.believes else None,
    )


def _summary(graphs: GraphSet, schema: Schema, key: int, members_key: bytes) -> GraphSummary:
    made = summarise(as_read(graphs, schema.features), key, edges=bool(schema.edges))
    if not members_key:
        return made
    return replace(made, fingerprints=hashed_fingerprints(members_key, made.fingerprints))


def member_holdout(config: Config, name: str, graphs: GraphSet, seed: int) -> tuple[Ints, Ints]:
    """Return the indices of a member's training and test graphs, drawn with its seed."""
    if len(graphs) < 2:
        raise MotifairError(
            f"'{name}' has {len(graphs)} graph; a split into train and test needs at least 2."
        )
    rng = np.random.default_rng(derive_seed(seed, f"test/{name}"))
    train, test = holdout(graphs.target, config.test_fraction, rng)
    if graphs.values is not None:
        if np.isnan(graphs.values[train]).all():
            raise MotifairError(
                f"'{name}' would train on graphs without a label, so there is nothing to learn; "
                "give it labels."
            )
    elif len(np.unique(graphs.target[train])) < 2:
        raise MotifairError(
            f"'{name}' would train on graphs of one class, so there is nothing to learn; "
            "give it graphs of another class."
        )
    return train, test


def make_model(config: Config, schema: Schema) -> Model:
    """Return the model that the members agreed on."""
    method = make_method(config)
    if schema.edges and not method.reads_edges():
        raise MotifairError(
            f"The network of {config.method} reads no edge labels; remove edges from [schema]."
        )
    task = schema.predicted
    task = replace(task, metric=choose_metric(task.kind, config.metric))
    return method.network(schema.width, len(schema.edges), task)
