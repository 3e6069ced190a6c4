"""The graph isomorphism network of the paper, and the explicit passes that GINE shares with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from motifair.bag_sum import BagSum
from motifair.graphs.batch import Batch, DistinctNodes
from motifair.models.base import StackedModel, layer_mask, linear_parts
from motifair.models.perceptron import (
    NO_DROPOUT,
    Activations,
    DropoutMask,
    Mlp,
    backward,
    forward,
    sum_rows,
)


class Convolution(NamedTuple):
    """Parameters of a convolution: its perceptron and, in GINE, the layer of edge labels, `(R,
    labels + 1, H)`, its bias last.
    """

    mlp: Mlp
    table: Tensor = torch.empty(0)


class GIN(StackedModel):
    """layers × {MLP of the sum over a node and its neighbours, ReLU, dropout}, then sum pooling.

    A simulation spends most of its time here, so the backward pass is explicit: one autograd node
    instead of dozens, which returns the gradient as a flat row. A subclass sums in its own way:
    `gather` and its two companions.
    """

    summed_inputs = True
    edges = 0

    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return for each convolution a two-layer MLP and, in GINE, the layer of edge labels."""
        parts = []
        for k in range(self.layers):
            parts += linear_parts(f"convs.{k}.nn.0", self.hidden, self.hidden)
            parts += linear_parts(f"convs.{k}.nn.2", self.hidden, self.hidden)
            if self.edges:
                parts += linear_parts(f"convs.{k}.lin", self.edges, self.hidden)
        return parts

    def embed(self, weights: Tensor, batch: Batch, keep: Sequence[DropoutMask] = ()) -> Tensor:
        """Return the graph embeddings, `(R, G, H)`; the first convolution uses distinct inputs.

        Without dropout and gradients all convolutions do.
        """
        if batch.distinct is None or keep or torch.is_grad_enabled():
            result: Tensor = _Embed.apply(weights, self, batch, keep)  # type: ignore[no-untyped-call]
            return result
        x = self.first(weights, batch)
        for k, conv in enumerate(self.convolutions(weights)):
            inputs = self.gather_distinct(k, x, conv.table, batch.distinct)
            x = forward(inputs, conv.mlp, None, None, NO_DROPOUT).y
        return sum_rows(batch.distinct.pool, x)

    @property
    def distinct_layers(self) -> int:
        """All layers: each sums over neighbourhoods."""
        return self.layers

    def convolutions(self, weights: Tensor) -> list[Convolution]:
        """Return the parameters of every convolution, as views of the weights."""
        parts = self.layout.split(weights)[2:-4]
        return [Convolution(Mlp(*parts[4 * k : 4 * k + 4])) for k in range(self.layers)]

    def gather(self, layer: int, x: Tensor, table: Tensor, batch: Batch) -> tuple[Tensor, ...]:
        """Return the inputs of a layer's perceptron, and what else its backward pass needs."""
        return (x if layer == 0 else sum_rows(batch.closed.forward, x),)

    def gather_backward(
        self, layer: int, g: Tensor, saved: Sequence[Tensor], table: Tensor, batch: Batch
    ) -> tuple[Tensor, ...]:
        """Return the gradients of x and, if the layer has one, of the table."""
        return (g if layer == 0 else sum_rows(batch.closed.backward, g),)

    def gather_distinct(
        self, layer: int, x: Tensor, table: Tensor, distinct: DistinctNodes
    ) -> Tensor:
        """Return the inputs of a layer's perceptron on its distinct nodes."""
        return x if layer == 0 else sum_rows(distinct.levels[layer - 1], x)

    def spread(self, layer: int, batch: Batch) -> BagSum | None:
        """Return the map of a layer's output to nodes, if it was computed on fewer rows."""
        return batch.spread if layer == 0 else None


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, model: GIN, batch: Batch, keep: Sequence[DropoutMask]
    ) -> Tensor:
        x, saved = model.first(weights, batch), [weights]
        for k, conv in enumerate(model.convolutions(weights)):
            spread = model.spread(k, batch)
            inputs, *others = model.gather(k, x, conv.table, batch)
            after = None if spread is None else spread.forward
            layer = forward(inputs, conv.mlp, None, after, layer_mask(keep, k))
            saved += [*layer, *others]
            x = layer.y
        ctx.model, ctx.batch, ctx.keep = model, batch, keep
        ctx.save_for_backward(*saved)
        return sum_rows(batch.pool.forward, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        weights, *tensors = ctx.saved_tensors
        model, batch = ctx.model, ctx.batch
        convs, parts = model.convolutions(weights), [torch.zeros_like(model.layout.tail(weights))]
        size = len(tensors) // model.layers
        g = sum_rows(batch.pool.backward, gradient)
        for k in reversed(range(model.layers)):
            layer, others = tensors[k * size :][:4], tensors[k * size + 4 : (k + 1) * size]
            spread, scale = model.spread(k, batch), layer_mask(ctx.keep, k).scale
            after = None if spread is None else spread.backward
            g, of_mlp = backward(g, Activations(*layer), convs[k].mlp, None, after, scale)
            g, *of_table = model.gather_backward(k, g, others, convs[k].table, batch)
            parts = [tensor.flatten(1) for tensor in (*of_mlp, *of_table)] + parts
        first = sum_rows(batch.inputs.backward, g).flatten(1)
        return torch.cat([first, *parts], dim=1), None, None, None
