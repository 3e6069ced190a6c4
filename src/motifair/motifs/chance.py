"""Which motifs are there by more than chance: those that random wiring would not bring as often.

What is called a motif elsewhere in network science is just this: a pattern that occurs more often
than in graphs whose edges were drawn at random. Edges put anywhere make patterns too, many and
rare ones, and an agent that damages its graphs would look rich in them.
"""

from __future__ import annotations

import numpy as np

from motifair.config import Config
from motifair.graphs.features import motif_labels
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.perturb import wire_anew
from motifair.motifs.extract import MotifCounts, count_motifs

COPIES = 2
MARGIN = 0.1  # of an agent's graphs in which a motif must be, above the share by chance
MOST_GRAPHS = 1000
SEED = 20_240_220


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
    own = graphs.select(some)
    share = _share(counted, some)
    given = None if kind == "degree" else own.node_label  # a degree follows from the edges
    by_chance = np.zeros(len(counted.keys))
    place = {key: k for k, key in enumerate(counted.keys)}
    for number in range(COPIES):
        copy = wire_anew(own, given, SEED + number)
        labels = motif_labels(copy, kind)
        found = count_motifs(copy, labels, rings=config.rings, max_ring=config.max_ring)
        known = np.array([k for k, key in enumerate(found.keys) if key in place], dtype=np.int64)
        there = np.array([place[found.keys[k]] for k in known], dtype=np.int64)
        by_chance[there] += _share(found, np.arange(len(own)))[known] / COPIES
    beyond: np.ndarray = share - by_chance > MARGIN
    return beyond


def _share(counted: MotifCounts, rows: Ints) -> np.ndarray:
    """Return the share of graphs in which each motif is."""
    holding = counted.counts[rows].indices
    share: np.ndarray = np.bincount(holding, minlength=len(counted.keys)) / len(rows)
    return share
