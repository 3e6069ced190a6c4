"""Which motifs are there by more than chance: those that random wiring would not bring as often.

What is called a motif elsewhere in network science is just this: a pattern that occurs more often
than in graphs whose edges were drawn at random. Edges put anywhere make patterns too, many and
rare ones, and an agent that damages its graphs would look rich in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from motifair.config import Config
from motifair.graphs.cache import Last
from motifair.graphs.features import motif_labels
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.perturb import wire_anew
from motifair.motifs.extract import MotifCounts, cached, extract_motifs

COPIES = 2
MARGIN = 0.1  # of an agent's graphs in which a motif must be, above the share by chance
MOST_GRAPHS = 1000
AT_ONCE = 10_000  # a dataset of so many graphs is wired anew as a whole, for all its splits
SEED = 20_240_220


@dataclass(frozen=True)
class Copy:
    """Graphs wired anew: how often each motif is in each of them, and which column a motif has."""

    counts: sparse.csr_array
    column: Mapping[str, int]


_LAST: Last[list[Copy]] = Last()


def beyond_chance(
    config: Config, graphs: GraphSet, kind: str, chosen: Ints, counted: MotifCounts
) -> np.ndarray:
    """Say of every motif in `counted` whether the `chosen` graphs hold it beyond chance.

    Each of them is wired anew at random, twice, with as many edges. A motif is beyond chance if
    the share of graphs that contain it exceeds that among the copies by more than a tenth. Neither
    numbering nodes otherwise nor duplicating all graphs changes anything. Of more than 1,000 graphs
    some 1,000 are looked at.
    """
    some = chosen[:: max(1, -(-len(chosen) // MOST_GRAPHS))]
    if len(graphs) <= AT_ONCE:
        how = (kind, config.rings, config.max_ring)
        copies, rows = _LAST.of(graphs, how, lambda: wired_anew(config, graphs, kind)), some
    else:
        copies, rows = wired_anew(config, graphs.select(some), kind), np.arange(len(some))
    share = _share(counted.counts, some)
    likely = np.flatnonzero(share > MARGIN)  # what chance takes away is never negative
    by_chance = np.zeros(len(likely))
    for copy in copies:
        column = [copy.column.get(counted.keys[k], -1) for k in likely]
        by_chance += np.append(_share(copy.counts, rows), 0.0)[column] / COPIES
    beyond = np.zeros(len(share), dtype=bool)
    beyond[likely] = share[likely] - by_chance > MARGIN
    return beyond


def wired_anew(config: Config, graphs: GraphSet, kind: str) -> list[Copy]:
    """Wire every graph anew, and count motifs in the copies, or read that from the cache.

    A copy depends on nothing but its graph, so what others are counted with it does not matter.
    """
    given = None if kind == "degree" else graphs.node_label  # a degree follows from the edges

    def count(number: int) -> MotifCounts:
        copy = wire_anew(graphs, given, SEED + number)
        labels = motif_labels(copy, kind)
        return extract_motifs(copy, labels, rings=config.rings, max_ring=config.max_ring)

    labels = motif_labels(graphs, kind)
    how = (config.rings, config.max_ring, kind, SEED)
    found = [cached(partial(count, n), graphs, labels, *how, n) for n in range(COPIES)]
    return [Copy(f.counts, {key: k for k, key in enumerate(f.keys)}) for f in found]


def _share(counts: sparse.csr_array, rows: Ints) -> np.ndarray:
    """Return the share of graphs in which each motif is."""
    share: np.ndarray = np.bincount(counts[rows].indices, minlength=counts.shape[1]) / len(rows)
    return share
