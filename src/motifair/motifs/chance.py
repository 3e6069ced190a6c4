"""Find the motifs that occur more often than in random graphs.

This is the definition of a motif in network science: a pattern that is more frequent than in graphs
with random edges. Random edges also make patterns, many of them rare, so that without this test an
agent with perturbed graphs would have a high diversity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from motifair.config import Config
from motifair.graphs.cache import GraphCache
from motifair.graphs.features import motif_labels
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.perturb import randomise_edges
from motifair.motifs.extract import MotifCounts, cached, extract_motifs

COPIES = 2
MARGIN = 0.1  # least difference between the share of graphs and of random copies with a motif
MOST_GRAPHS = 1000
AT_ONCE = 10_000  # up to this size the whole dataset is randomised once, for all its splits
SEED = 20_240_220


@dataclass(frozen=True)
class RandomCopy:
    """Motif counts of graphs with random edges, `(graphs, motifs)`, the column of each key, and the
    length up to which rings were counted, `(graphs,)`.
    """

    counts: sparse.csr_array
    column: Mapping[str, int]
    longest: Ints


_COPIES: GraphCache[list[RandomCopy]] = GraphCache()


def above_chance(
    config: Config, graphs: GraphSet, kind: str, chosen: Ints, counted: MotifCounts
) -> np.ndarray:
    """Return which motifs occur in the chosen graphs more often than by chance, `(motifs,)`.

    Each graph has two random copies with the same number of edges. A motif is above chance if the
    share of graphs that contain it exceeds its share among the copies by more than a tenth. The
    result does not change when nodes are renumbered or all graphs are duplicated.

    Args:
        config: Its `rings` and `max_ring` define the motifs.
        graphs: The dataset.
        kind: Node inputs, see `motif_labels`.
        chosen: Numbers of an agent's graphs; of more than 1,000 about 1,000 are used.
        counted: The motif counts of the dataset.
    """
    some = chosen[:: max(1, -(-len(chosen) // MOST_GRAPHS))]
    if len(graphs) <= AT_ONCE:
        settings = (kind, config.rings, config.max_ring)
        copies = _COPIES.get(graphs, settings, lambda: random_copies(config, graphs, kind))
        rows = some
    else:
        copies, rows = random_copies(config, graphs.select(some), kind), np.arange(len(some))
    share = _share(counted.counts, some)
    likely = np.flatnonzero(share > MARGIN)  # others cannot exceed chance by the margin
    by_chance = np.zeros(len(likely))
    size = np.array([_ring_size(counted.keys[k]) for k in likely], dtype=np.int64)
    for copy in copies:
        column = [copy.column.get(counted.keys[k], -1) for k in likely]
        # Copies with too many rings of a length to count them are taken to contain this one.
        crowded = np.searchsorted(np.sort(copy.longest[rows]), size) / len(rows)
        by_chance += (np.append(_share(copy.counts, rows), 0.0)[column] + crowded) / COPIES
    above = np.zeros(len(share), dtype=bool)
    above[likely] = share[likely] - by_chance > MARGIN
    return above


def random_copies(config: Config, graphs: GraphSet, kind: str) -> list[RandomCopy]:
    """Count motifs in random copies of every graph, or read the counts from the cache.

    A copy depends on its graph alone, not on the other graphs of the set.
    """
    given = None if kind == "degree" else graphs.node_label  # degrees are those of the new edges

    def count(number: int) -> MotifCounts:
        copy = randomise_edges(graphs, given, SEED + number)
        labels = motif_labels(copy, kind)
        return extract_motifs(copy, labels, rings=config.rings, max_ring=config.max_ring)

    labels = motif_labels(graphs, kind)
    settings = (config.rings, config.max_ring, kind, SEED)
    counts = [cached(partial(count, n), graphs, labels, *settings, n) for n in range(COPIES)]
    return [
        RandomCopy(c.counts, {key: k for k, key in enumerate(c.keys)}, c.longest) for c in counts
    ]


def _ring_size(key: str) -> int:
    """Return the number of nodes of a ring, 0 for a bond."""
    return key.count(" ") if key.startswith("ring ") else 0


def _share(counts: sparse.csr_array, rows: Ints) -> np.ndarray:
    """Return the share of the given graphs that contain each motif, `(motifs,)`."""
    share: np.ndarray = np.bincount(counts[rows].indices, minlength=counts.shape[1]) / len(rows)
    return share
