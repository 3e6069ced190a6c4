"""GIN with edge labels (GINE)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.graphs.task import Task
from motifair.models.base import StackedModel, layer_mask, linear_parts, pair
from motifair.models.perceptron import DropoutMask, perceptron, rectify, sum_rows


class GINE(StackedModel):
    """layers × {MLP of x_i + Σ_j ReLU(x_j + t(e_ij)), ReLU, dropout}, then sum pooling.

    t is a linear layer of each convolution on the one-hot labels of the edges.

    Args:
        width: Number of inputs of a node.
        classes: Number of classes, or of outputs of another task.
        hidden: Width H of all hidden layers.
        layers: Number of graph convolutions.
        edges: Number of edge labels.
        task: What it predicts, by default classes.
    """

    def __init__(
        self,
        width: int,
        classes: int,
        hidden: int,
        layers: int,
        edges: int,
        *,
        task: Task | None = None,
    ) -> None:
        self.edges = edges
        super().__init__(width, classes, hidden, layers, task=task)

    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return for each convolution a two-layer MLP and the linear layer of edge labels."""
        parts = []
        for k in range(self.layers):
            parts += linear_parts(f"convs.{k}.nn.0", self.hidden, self.hidden)
            parts += linear_parts(f"convs.{k}.nn.2", self.hidden, self.hidden)
            parts += linear_parts(f"convs.{k}.lin", self.edges, self.hidden)
        return parts

    def embed(self, weights: Tensor, batch: Batch, keep: Sequence[DropoutMask] = ()) -> Tensor:
        """Return the graph embeddings, `(R, G, H)`.

        A message depends on the neighbour and the edge's label alone: it is computed once for each
        such pair in a graph.
        """
        p, messages = self.layout.unpack(weights), batch.messages
        assert messages is not None
        x = sum_rows(batch.spread, self.first(weights, batch))
        for k in range(self.layers):
            table = weights[:, self.layout.span(f"convs.{k}.lin.")].reshape(-1, self.hidden)
            of_edge = messages.inputs(table).view(batch.rows, -1, self.hidden)
            message = rectify(sum_rows(messages.source, x) + of_edge)
            x = perceptron(
                torch.add(x, sum_rows(messages.total, message)),
                pair(p, f"convs.{k}.nn.0"),
                pair(p, f"convs.{k}.nn.2"),
                None,
                layer_mask(keep, k),
            )
        return sum_rows(batch.pool, x)
