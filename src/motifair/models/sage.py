"""GraphSAGE with mean aggregation, the encoder of FedSage."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.models.base import Model, kept, linear, linear_parts, over_nodes
from motifair.models.perceptron import Keep, rectify


class SAGE(Model):
    """layers × {W_r·h + W_l·(mean of the neighbours' h) + b, ReLU, dropout}, then sum pooling."""

    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return for each convolution the map of the neighbours' mean, and of the node itself."""
        parts = []
        for k in range(self.layers):
            parts += linear_parts(f"convs.{k}.lin_l", self.hidden, self.hidden)
            parts.append((f"convs.{k}.lin_r.weight", (self.hidden, self.hidden)))
        return parts

    def embed(self, weights: Tensor, batch: Batch, keep: Sequence[Keep] = ()) -> Tensor:
        """Return the graph embeddings; an isolated node's neighbours have mean 0."""
        p = self.layout.unpack(weights)
        x = over_nodes(batch.spread, self.first(weights, batch))
        for k in range(self.layers):
            mean = (over_nodes(batch.closed, x) - x) / batch.degree.clamp(min=1)
            own = torch.bmm(x, p[f"convs.{k}.lin_r.weight"])
            x = rectify(linear(mean, p, f"convs.{k}.lin_l") + own, kept(keep, k))
        return over_nodes(batch.pool, x)
