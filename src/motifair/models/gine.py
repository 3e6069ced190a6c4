"""GIN with edge labels (GINE)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from motifair.bag_sum import BagSum
from motifair.graphs.batch import Batch, DistinctNodes
from motifair.graphs.messages import Messages
from motifair.graphs.task import Task
from motifair.models import message_sum, perceptron
from motifair.models.base import StackedModel, layer_mask, linear_parts
from motifair.models.message_sum import MessageSum
from motifair.models.perceptron import NO_DROPOUT, Activations, DropoutMask, Mlp, sum_rows


class GINE(StackedModel):
    """layers × {MLP of x_i + Σ_j ReLU(x_j + t(e_ij)), ReLU, dropout}, then sum pooling.

    t is a linear layer of each convolution on the one-hot labels of the edges. As in GIN, the
    backward pass is explicit.

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
        self.tables = [self.layout.span(f"convs.{k}.lin.") for k in range(layers)]

    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return for each convolution a two-layer MLP and the linear layer of edge labels."""
        parts = []
        for k in range(self.layers):
            parts += linear_parts(f"convs.{k}.nn.0", self.hidden, self.hidden)
            parts += linear_parts(f"convs.{k}.nn.2", self.hidden, self.hidden)
            parts += linear_parts(f"convs.{k}.lin", self.edges, self.hidden)
        return parts

    def embed(self, weights: Tensor, batch: Batch, keep: Sequence[DropoutMask] = ()) -> Tensor:
        """Return the graph embeddings, `(R, G, H)`; the first convolution uses distinct
        neighbourhoods.

        Without dropout and gradients all convolutions do.
        """
        if batch.distinct is not None and not keep and not torch.is_grad_enabled():
            return self.embed_distinct(weights, batch, batch.distinct)
        result: Tensor = _Embed.apply(weights, self, batch, keep)  # type: ignore[no-untyped-call]
        return result

    def embed_distinct(self, weights: Tensor, batch: Batch, distinct: DistinctNodes) -> Tensor:
        """Return the graph embeddings, computed on the distinct nodes of each layer."""
        x = self.first(weights, batch)
        for conv, maps in zip(self.convolutions(weights), distinct.messages, strict=True):
            sums = message_sum.forward(x, conv.table, maps).y
            x = perceptron.forward(sums, conv.mlp, None, None, NO_DROPOUT).y
        return sum_rows(distinct.pool, x)

    @property
    def distinct_layers(self) -> int:
        """All layers: each sums over neighbourhoods."""
        return self.layers

    def convolutions(self, weights: Tensor) -> list[Convolution]:
        """Return the parameters of every convolution, as views of the weights."""
        parts = self.layout.split(weights)[2:-4]
        return [
            Convolution(
                Mlp(*parts[6 * k : 6 * k + 4]),
                weights[:, table].view(len(weights), -1, self.hidden),
            )
            for k, table in enumerate(self.tables)
        ]


class Convolution(NamedTuple):
    """Parameters of a convolution: its perceptron, and the layer of edge labels, its bias last."""

    mlp: Mlp
    table: Tensor


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, model: GINE, batch: Batch, keep: Sequence[DropoutMask]
    ) -> Tensor:
        x = model.first(weights, batch)
        if batch.first is None:
            x = sum_rows(batch.spread.forward, x)
        saved: list[tuple[MessageSum, Activations]] = []
        for k, conv in enumerate(model.convolutions(weights)):
            maps, spread = _maps(batch, k)
            sums = message_sum.forward(x, conv.table, maps)
            after = None if spread is None else spread.forward
            layer = perceptron.forward(sums.y, conv.mlp, None, after, layer_mask(keep, k))
            saved.append((sums, layer))
            x = layer.y
        ctx.model, ctx.batch, ctx.keep = model, batch, keep
        ctx.save_for_backward(weights, *(t for s, layer in saved for t in (*s, *layer)))
        return sum_rows(batch.pool.forward, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        weights, *tensors = ctx.saved_tensors
        model, batch = ctx.model, ctx.batch
        convs, parts = model.convolutions(weights), [torch.zeros_like(model.layout.tail(weights))]
        g = sum_rows(batch.pool.backward, gradient)
        for k in reversed(range(model.layers)):
            maps, spread = _maps(batch, k)
            sums, layer = MessageSum(*tensors[6 * k : 6 * k + 2]), tensors[6 * k + 2 : 6 * k + 6]
            after, scale = (
                None if spread is None else spread.backward,
                layer_mask(ctx.keep, k).scale,
            )
            g, of_mlp = perceptron.backward(
                g, Activations(*layer), convs[k].mlp, None, after, scale
            )
            g, of_table = message_sum.backward(g, sums, convs[k].table, maps)
            parts = [tensor.flatten(1) for tensor in (*of_mlp, of_table)] + parts
        if batch.first is None:
            g = sum_rows(batch.spread.backward, g)
        first = sum_rows(batch.inputs.backward, g).flatten(1)
        return torch.cat([first, *parts], dim=1), None, None, None


def _maps(batch: Batch, layer: int) -> tuple[Messages, BagSum | None]:
    """Return the messages of a layer, and the map of its output to nodes where there is one."""
    if layer == 0 and batch.first is not None:
        return batch.first.messages, batch.first.spread
    assert batch.messages is not None
    return batch.messages, None
