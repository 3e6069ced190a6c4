"""GraphSAGE with mean aggregation, the encoder of FedSage."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.kernels import linear as product
from motifair.models.base import StackedModel, layer_mask, linear, linear_parts
from motifair.models.perceptron import DropoutMask, rectify, sum_rows


class SAGE(StackedModel):
    """layers × {W_r·h + W_l·(mean of the neighbours' h) + b, ReLU, dropout}, then sum pooling."""

    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the layers of each convolution: for the neighbours' mean and for the node."""
        parts = []
        for k in range(self.layers):
            parts += linear_parts(f"convs.{k}.lin_l", self.hidden, self.hidden)
            parts.append((f"convs.{k}.lin_r.weight", (self.hidden, self.hidden)))
        return parts

    def embed(self, weights: Tensor, batch: Batch, keep: Sequence[DropoutMask] = ()) -> Tensor:
        """Return the graph embeddings, `(R, G, H)`; for an isolated node the mean is 0."""
        p = self.layout.unpack(weights)
        x = sum_rows(batch.spread, self.first(weights, batch))
        for k in range(self.layers):
            mean = (sum_rows(batch.closed, x) - x) / batch.degree.clamp(min=1)
            own = product(x, p[f"convs.{k}.lin_r.weight"], None)
            x = rectify(linear(mean, p, f"convs.{k}.lin_l") + own, layer_mask(keep, k))
        return sum_rows(batch.pool, x)
