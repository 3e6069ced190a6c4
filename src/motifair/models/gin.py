"""The graph isomorphism network of the paper."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.models.base import Model, Parameters, linear, linear_parts, over_nodes


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

    def embed(self, p: Parameters, batch: Batch, masks: Sequence[Tensor] = ()) -> Tensor:
        """Return the graph embeddings; the first convolution works on distinct inputs."""
        x = self.first(p, batch)
        for k in range(self.layers):
            if k > 0:
                x = over_nodes(batch.closed, x)
            x = F.relu(linear(x, p, f"convs.{k}.nn.0"))
            x = F.relu(linear(x, p, f"convs.{k}.nn.2"))
            if k == 0:
                x = over_nodes(batch.spread, x)
            if masks:
                x = x * masks[k]
        return over_nodes(batch.pool, x)
