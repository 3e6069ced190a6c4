"""FedStar's network: a personal channel for node features, a shared one for structure."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.graphs.features import DEGREES, WALKS
from motifair.kernels import add_bias
from motifair.kernels import linear as product
from motifair.models.base import StackedModel, layer_mask, linear, linear_parts, pair
from motifair.models.perceptron import DropoutMask, perceptron, sum_rows


class Star(StackedModel):
    """Two channels: x by GIN on [x ; s], s by GCN and tanh on structural inputs; then sum pooling.

    In each layer x reads the s of the previous layer; at the end a linear layer merges both.
    """

    structure = True

    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the personal GINs, the structure channel (adjacent, to be shared), the merge."""
        H = self.hidden
        parts: list[tuple[str, tuple[int, ...]]] = []
        for k in range(self.layers):
            parts += linear_parts(f"convs.{k}.nn.0", 2 * H, H)
            parts += linear_parts(f"convs.{k}.nn.2", H, H)
        parts += linear_parts("structure", WALKS + DEGREES, H)
        for k in range(self.layers):
            parts.append((f"structure_convs.{k}.bias", (H,)))
            parts.append((f"structure_convs.{k}.lin.weight", (H, H)))
        return parts + linear_parts("merge", 2 * H, H)

    def initial_bounds(self) -> dict[str, float]:
        """Return the bounds of PyG's `GCNConv`: Glorot's for the matrix, 0 for the bias."""
        glorot = (6 / (self.hidden + self.hidden)) ** 0.5
        return {
            f"structure_convs.{k}.{part}": bound
            for k in range(self.layers)
            for part, bound in (("lin.weight", glorot), ("bias", 0.0))
        }

    def embed(self, weights: Tensor, batch: Batch, keep: Sequence[DropoutMask] = ()) -> Tensor:
        """Return the graph embeddings, `(R, G, H)`."""
        p = self.layout.unpack(weights)
        x = sum_rows(batch.spread, self.first(weights, batch))
        s = linear(batch.structure, p, "structure")
        scale = (batch.degree + 1).rsqrt()
        for k in range(self.layers):
            x = perceptron(
                torch.cat([x, s], dim=-1),
                pair(p, f"convs.{k}.nn.0"),
                pair(p, f"convs.{k}.nn.2"),
                batch.closed,
                layer_mask(keep, k),
            )
            s = product(s, p[f"structure_convs.{k}.lin.weight"], None)
            s = scale * sum_rows(batch.closed, scale * s)
            s = torch.tanh(add_bias(s, p[f"structure_convs.{k}.bias"]))
        merged = linear(torch.cat([x, s], dim=-1), p, "merge")
        return sum_rows(batch.pool, merged)
