"""GCFL and GCFL+: agents whose updates disagree are split into clusters that average apart."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import torch
from torch import Tensor

from motifair.config import option
from motifair.graphs.dataset import dataset_name
from motifair.mechanism.alignment import cosine
from motifair.methods.base import Memory, Method, Seen

# (ε1, ε2, sequence length) as published; what is not listed takes the last.
PUBLISHED = {
    "PROTEINS": (0.03, 0.06, 10),
    "IMDB-BINARY": (0.025, 0.045, 5),
    "NCI1": (0.04, 0.08, 5),
    "": (0.03, 0.06, 5),
}


class GCFL(Method):
    """Averages convolutions within clusters, and splits a cluster by the minimum cut between its
    updates when their mean is small (ε1) while some are large (ε2).
    """

    name = "gcfl"
    summary = "clustered averaging of convolutions, split by update similarity"
    options = frozenset({"budget"})
    global_model = False
    epsilon1: float = option(
        0.0, "mean update below which a cluster may split [ε1]; 0: as published", least=0
    )
    epsilon2: float = option(
        0.0, "largest update above which a cluster may split [ε2]; 0: as published", least=0
    )
    patience: int = option(20, "rounds before the first split", least=0)
    smallest: int = option(2, "size of a cluster that is not split any more", least=1)

    @property
    def share(self) -> str:
        """The convolutions."""
        return "conv"

    @property
    def thresholds(self) -> tuple[float, float, int]:
        """ε1, ε2 and the length of a sequence."""
        small, large, length = PUBLISHED.get(dataset_name(self.config.dataset), PUBLISHED[""])
        return self.epsilon1 or small, self.epsilon2 or large, length

    def remember(self, seen: Seen) -> Memory:
        """Return the clusters (each agent's cluster number), some of them newly split."""
        agents = len(seen.graphs)
        before = seen.memory or self.begin(agents, seen.graphs.device)
        memory = self.observe(before, seen)
        cluster = memory["cluster"].clone()
        for number in sorted(set(before["cluster"].tolist())):
            members = (before["cluster"] == number).nonzero().flatten().tolist()
            if self.should_split(members, seen, memory):
                leaving = self.cut(members, seen, memory)
                cluster[leaving] = int(cluster.max()) + 1
                memory = self.forget(memory)
        return {**memory, "cluster": cluster}

    def begin(self, agents: int, device: torch.device) -> Memory:
        """Start with one cluster of all."""
        return {"cluster": torch.zeros(agents, dtype=torch.int64, device=device)}

    def observe(self, memory: Memory, seen: Seen) -> Memory:
        """Take note of a round."""
        return memory

    def forget(self, memory: Memory) -> Memory:
        """Drop what a split makes void."""
        return memory

    def should_split(self, members: list[int], seen: Seen, memory: Memory) -> bool:
        """Say whether a cluster's updates cancel although they are large."""
        small, large, _ = self.thresholds
        inside = seen.updates[members]
        return (
            len(members) > self.smallest
            and bool(seen.rounds >= self.patience)
            and bool(inside.mean(dim=0).norm() < small)
            and bool(inside.norm(dim=1).max() > large)
        )

    def cut(self, members: list[int], seen: Seen, memory: Memory) -> list[int]:
        """Return the members that leave: the side of the minimum cut without the first member."""
        similarity = self.similarity(members, seen, memory).clamp(min=0).tolist()
        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from(range(len(members)))
        for i in range(len(members)):
            for j in range(i + 1, len(members)):
                graph.add_edge(i, j, weight=similarity[i][j])
        _, (one, other) = nx.stoer_wagner(graph)
        leaving = other if 0 in one else one
        return sorted(members[k] for k in leaving)

    def similarity(self, members: list[int], seen: Seen, memory: Memory) -> Tensor:
        """Return S_ij = 1 + cos(Δ_i, Δ_j)."""
        inside = seen.updates[members]
        return 1 + cosine(inside[:, None], inside[None])

    def weigh(self, seen: Seen) -> Tensor:
        """Weigh by size within clusters, `(A, A)`."""
        cluster = seen.memory["cluster"]
        together = (cluster[:, None] == cluster[None]) * seen.graphs.double()
        # An agent that gives no graph may be alone in its cluster: its aggregate is 0.
        return together / together.sum(dim=1, keepdim=True).clamp(min=1)


class GCFLPlus(GCFL):
    """GCFL that compares how agents' gradient norms went over the last rounds."""

    name = "gcfl+"
    summary = "clustered averaging of convolutions, split by gradient-norm sequences"
    sequence: int = option(0, "rounds of gradient norms compared; 0: as published", least=0)

    @property
    def thresholds(self) -> tuple[float, float, int]:
        """ε1, ε2 and the length of a sequence."""
        small, large, length = super().thresholds
        return small, large, self.sequence or length

    def begin(self, agents: int, device: torch.device) -> Memory:
        """Start with one cluster and empty sequences."""
        unknown = torch.full((agents, self.thresholds[2]), torch.nan, device=device)
        return {**super().begin(agents, device), "norms": unknown.double()}

    def observe(self, memory: Memory, seen: Seen) -> Memory:
        """Append the norm of the last gradient."""
        norms = torch.cat([memory["norms"][:, 1:], seen.gradient_norm[:, None]], dim=1)
        return {**memory, "norms": norms}

    def forget(self, memory: Memory) -> Memory:
        """Begin all sequences again."""
        return {**memory, "norms": torch.full_like(memory["norms"], torch.nan)}

    def should_split(self, members: list[int], seen: Seen, memory: Memory) -> bool:
        """Wait also until the sequences are long enough."""
        enough = bool(memory["norms"][:, 0].isfinite().all())
        return enough and super().should_split(members, seen, memory)

    def similarity(self, members: list[int], seen: Seen, memory: Memory) -> Tensor:
        """Return S_ij = max(DTW) − DTW_ij."""
        sequences = memory["norms"][members].tolist()
        apart = torch.tensor([[dtw(a, b) for b in sequences] for a in sequences])
        return apart.max() - apart


def dtw(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the dynamic time warping distance: squared costs, any warping, root at the end.

    >>> dtw([0, 1, 2], [0, 0, 1, 2])
    0.0
    """
    infinite = float("inf")
    above = [0.0] + [infinite] * len(b)
    for x in a:
        row = [infinite]
        for k, y in enumerate(b):
            row.append((x - y) ** 2 + min(above[k], above[k + 1], row[k]))
        above = row
    return float(above[-1] ** 0.5)
