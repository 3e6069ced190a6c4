"""What members say of their graphs before the first round, and how many of these are believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from motifair.graphs.fingerprints import Words, class_bytes, fingerprints, last_bytes
from motifair.graphs.graph_set import Floats, GraphSet
from motifair.mechanism.trust import (
    distinct_graphs,
    exclusiveness,
    first_names,
    judging,
    owners,
    wiring_trust,
)
from motifair.motifs.wiring import wiring


@dataclass(frozen=True)
class GraphSummary:
    """A fingerprint of each of an agent's training graphs, and how they are wired, `(K,)`."""

    fingerprints: Words
    wiring: Floats


def summarise(graphs: GraphSet, key: int = 0, *, edges: bool = False) -> GraphSummary:
    """Summarise an agent's training graphs; fingerprints with one key can be compared.

    `edges` is whether the model reads edge labels, so that graphs which differ in them are two.
    """
    return GraphSummary(fingerprints(graphs, key, edges=edges), wiring(graphs))


def believed_graphs(summaries: Sequence[GraphSummary]) -> np.ndarray:
    """Return how many graphs of each agent count, `(A,)`: the distinct ones, those of several
    agents in parts, as far as the agent's graphs are wired unlike chance.
    """
    prints = [s.fingerprints for s in summaries]
    wired = torch.from_numpy(np.stack([s.wiring for s in summaries]))
    real = wiring_trust(wired, torch.from_numpy(first_names(owners(prints))))
    believed: np.ndarray = distinct_graphs(prints) * real.numpy()
    return believed


def graph_weights(summaries: Sequence[GraphSummary], classes: Sequence[int]) -> np.ndarray:
    """Return how much one graph of each agent counts in coverage, `(A,)`: 1, and more if the agent
    alone has one of the federation's `classes`.
    """
    return exclusiveness([class_bytes(s.fingerprints) for s in summaries], last_bytes(classes))


def judge_shares(summaries: Sequence[GraphSummary]) -> np.ndarray:
    """Return how much each agent counts as a judge of each other's model, `(A, A)`."""
    return judging([s.fingerprints for s in summaries])
