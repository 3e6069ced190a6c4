"""The bounds a round is compared with, against counts by hand."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
from worlds import small_config, small_split

from motifair.config import Config
from motifair.federation.members import Members, prepare
from motifair.graphs.batch import make_shard
from motifair.graphs.convert import from_objects
from motifair.graphs.features import fit_features
from motifair.studies.bench.bound import (
    Sizes,
    distinct_sizes,
    pass_rows,
    round_bytes,
    trained_sizes,
)


def members_of(config: Config) -> Members:
    return prepare(config, small_split(config), seed=5)


def test_rows_of_a_pass_agree_with_a_count_by_hand() -> None:
    # Two convolutions: 2 kinds -> 5 nodes -> 5 nodes, and 5 nodes -> 1 graph.
    forward = (2 + 5) + (5 + 5) + (5 + 1)
    backward = (5 + 5 + 2 + 2) + (5 + 5 + 5 + 5) + (1 + 5)
    assert pass_rows(Sizes((2, 5, 5), 1)) == (forward, backward)


def test_bytes_of_a_round_are_passes_and_rows_of_weights_of_every_agent() -> None:
    config = small_config(method="fedavg", layers=2)
    members = members_of(config)
    expected = 0
    for shard in members.train:
        q, n, g = shard.kinds.shape[0], len(shard.kind), len(shard)
        rows = (q + n) + (n + n) + (n + g) + (2 * n + 2 * q) + 4 * n + (g + n)
        expected += 4 * 16 * rows + 4 * (8 + 3) * members.model.layout.size
    assert round_bytes(config, members) == expected


def test_prototypes_add_one_pass_forward() -> None:
    config = small_config(method="motifair")
    members = members_of(config)
    sizes = [distinct_sizes(s, config.layers) for s in members.train]
    more = sum(4 * 16 * pass_rows(s)[0] for s in sizes)
    without = round_bytes(replace(config, method="fedavg"), members)
    assert round_bytes(config, members) == without + more


def test_batches_share_out_all_graphs_and_nodes() -> None:
    shard = max(members_of(small_config()).train, key=len)
    (whole,), cut = trained_sizes(shard, 1000, 2), trained_sizes(shard, 3, 2)
    assert whole == Sizes((shard.kinds.shape[0], *[len(shard.kind)] * 2), len(shard))
    assert [b.graphs for b in cut[:-1]] == [3] * (len(cut) - 1)
    assert sum(b.graphs for b in cut) == whole.graphs
    assert np.sum([b.rows for b in cut], axis=0)[1:].tolist() == list(whole.rows[1:])
    assert max(b.rows[0] for b in cut) <= whole.rows[0]


def test_without_dropout_nodes_part_layer_by_layer() -> None:
    path = nx.path_graph(7)  # ends, their neighbours, and so on inwards
    path.graph["y"] = 0
    nx.set_node_attributes(path, 0, "label")
    graphs = from_objects("path", [path, path])
    shard = make_shard(graphs, fit_features(graphs, np.arange(2), "label"))
    assert distinct_sizes(shard, 4) == Sizes((2, 2, 3, 4, 4), 2)
