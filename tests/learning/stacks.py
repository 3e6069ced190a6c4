"""Agents of unequal size in one stack, with motifs, for tests of local training."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from worlds import CPU, small_graphs

from motifair.graphs.batch import Batch, Shard, collate, make_shard
from motifair.graphs.features import fit_features
from motifair.models import GIN

SIZES = (9, 2, 5)
MOTIFS = (4, 1, 3)
HIDDEN = 8


def unequal_shards() -> list[Shard]:
    """Three agents; in each of them the last motif occurs in the first graph only."""
    graphs = small_graphs(sum(SIZES))
    features = fit_features(graphs, np.arange(len(graphs)), "auto")
    rng = np.random.default_rng(0)
    shards, first = [], 0
    for count, motifs in zip(SIZES, MOTIFS, strict=True):
        contains = rng.random((count, motifs)) < 0.5
        contains[0] = True
        contains[1:, -1] = False
        shards.append(
            make_shard(
                graphs.select(np.arange(first, first + count)),
                features,
                sparse.csr_array(contains.astype(np.float32)),
            )
        )
        first += count
    return shards


def motif_members(shard: Shard) -> dict[str, list[int]]:
    """The graphs that contain each motif, as the oracle wants them."""
    dense = shard.motifs.toarray()
    return {str(k): np.flatnonzero(dense[:, k]).tolist() for k in range(dense.shape[1])}


def stacked(shards: list[Shard]) -> Batch:
    return collate(shards, CPU, torch.float64)


def model_for(shards: list[Shard]) -> GIN:
    return GIN(shards[0].kinds.shape[1] - 1, 2, HIDDEN, 2)
