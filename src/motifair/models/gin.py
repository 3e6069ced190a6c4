"""The graph isomorphism network of the paper."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.models.base import Model, Parameters, kept, linear_parts, over_nodes, pair
from motifair.models.perceptron import Keep, perceptron


class GIN(Model):
    """layers × {MLP of the sum over a node and its neighbours, ReLU, dropout}, then sum pooling."""

    summed_inputs = True

    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return a two-layer MLP for each convolution."""
        parts = []
        for k in range(self.layers):
            parts += linear_parts(f"convs.{k}.nn.0", self.hidden, self.hidden)
            parts += linear_parts(f"convs.{k}.nn.2", self.hidden, self.hidden)
        return parts

    def embed(self, p: Parameters, batch: Batch, keep: Sequence[Keep] = ()) -> Tensor:
        """Return the graph embeddings; the first convolution works on distinct inputs."""
        x = self.first(p, batch)
        for k in range(self.layers):
            x = perceptron(
                x,
                pair(p, f"convs.{k}.nn.0"),
                pair(p, f"convs.{k}.nn.2"),
                before=None if k == 0 else batch.closed,
                after=batch.spread if k == 0 else None,
                keep=kept(keep, k),
            )
        return over_nodes(batch.pool, x)
