"""FedStar's network: what nodes look like is personal, how they are connected is shared."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.graphs.features import DEGREES, WALKS
from motifair.models.base import Model, kept, linear, linear_parts, over_nodes, pair
from motifair.models.perceptron import Keep, perceptron


class Star(Model):
    """Two channels: x by GIN on [x ; s], s by GCN and tanh on structural inputs; x reads the s of
    the layer before. The merged channels are summed over a graph.
    """

    structure = True

    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the personal GINs, the structure channel (adjacent: it is shared), the merge."""
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
        """Return those of PyG's `GCNConv`: Glorot's for the matrix, 0 for the bias."""
        glorot = (6 / (self.hidden + self.hidden)) ** 0.5
        return {
            f"structure_convs.{k}.{part}": bound
            for k in range(self.layers)
            for part, bound in (("lin.weight", glorot), ("bias", 0.0))
        }

    def embed(self, weights: Tensor, batch: Batch, keep: Sequence[Keep] = ()) -> Tensor:
        """Return the graph embeddings."""
        p = self.layout.unpack(weights)
        x = over_nodes(batch.spread, self.first(weights, batch))
        s = linear(batch.structure, p, "structure")
        scale = (batch.degree + 1).rsqrt()
        for k in range(self.layers):
            x = perceptron(
                torch.cat([x, s], dim=-1),
                pair(p, f"convs.{k}.nn.0"),
                pair(p, f"convs.{k}.nn.2"),
                batch.closed,
                kept(keep, k),
            )
            s = torch.bmm(s, p[f"structure_convs.{k}.lin.weight"])
            s = scale * over_nodes(batch.closed, scale * s)
            s = torch.tanh(s + p[f"structure_convs.{k}.bias"][:, None])
        merged = linear(torch.cat([x, s], dim=-1), p, "merge")
        return over_nodes(batch.pool, merged)
