"""The graph isomorphism network of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

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


class GIN(StackedModel):
    """layers × {MLP of the sum over a node and its neighbours, ReLU, dropout}, then sum pooling.

    A simulation spends most of its time here, so the backward pass is explicit: one autograd node
    instead of dozens, which returns the gradient as a flat row.
    """

    summed_inputs = True

    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return a two-layer MLP for each convolution."""
        parts = []
        for k in range(self.layers):
            parts += linear_parts(f"convs.{k}.nn.0", self.hidden, self.hidden)
            parts += linear_parts(f"convs.{k}.nn.2", self.hidden, self.hidden)
        return parts

    def embed(self, weights: Tensor, batch: Batch, keep: Sequence[DropoutMask] = ()) -> Tensor:
        """Return the graph embeddings, `(R, G, H)`; the first convolution uses distinct inputs.

        Without dropout and gradients all convolutions do.
        """
        if batch.distinct is not None and not keep and not torch.is_grad_enabled():
            return self.embed_distinct(weights, batch, batch.distinct)
        result: Tensor = _Embed.apply(weights, self, batch, keep)  # type: ignore[no-untyped-call]
        return result

    def embed_distinct(self, weights: Tensor, batch: Batch, distinct: DistinctNodes) -> Tensor:
        """Return the graph embeddings, computed on the distinct nodes of each layer."""
        x = self.first(weights, batch)
        for k, mlp in enumerate(self.perceptrons(weights)):
            x = forward(x, mlp, None if k == 0 else distinct.levels[k - 1], None, NO_DROPOUT).y
        return sum_rows(distinct.pool, x)

    @property
    def distinct_layers(self) -> int:
        """All layers: each sums over closed neighbourhoods."""
        return self.layers

    def perceptrons(self, weights: Tensor) -> list[Mlp]:
        """Return the parameters of every convolution, as views of the weights."""
        parts = self.layout.split(weights)[2:-4]
        return [Mlp(*parts[4 * k : 4 * k + 4]) for k in range(self.layers)]


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, model: GIN, batch: Batch, keep: Sequence[DropoutMask]
    ) -> Tensor:
        layers: list[Activations] = []
        x = model.first(weights, batch)
        for k, mlp in enumerate(model.perceptrons(weights)):
            before = None if k == 0 else batch.closed.forward
            after = batch.spread.forward if k == 0 else None
            layers.append(forward(x, mlp, before, after, layer_mask(keep, k)))
            x = layers[-1].y
        ctx.model, ctx.batch, ctx.keep = model, batch, keep
        ctx.save_for_backward(weights, *(tensor for layer in layers for tensor in layer))
        return sum_rows(batch.pool.forward, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        weights, *tensors = ctx.saved_tensors
        model, batch = ctx.model, ctx.batch
        mlps, parts = model.perceptrons(weights), [torch.zeros_like(model.layout.tail(weights))]
        g = sum_rows(batch.pool.backward, gradient)
        for k in reversed(range(model.layers)):
            before = None if k == 0 else batch.closed.backward
            after = batch.spread.backward if k == 0 else None
            layer = Activations(*tensors[4 * k : 4 * k + 4])
            g, of_mlp = backward(g, layer, mlps[k], before, after, layer_mask(ctx.keep, k).scale)
            parts = [tensor.flatten(1) for tensor in of_mlp] + parts
        first = sum_rows(batch.inputs.backward, g).flatten(1)
        return torch.cat([first, *parts], dim=1), None, None, None
