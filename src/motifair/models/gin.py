"""The graph isomorphism network of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from motifair.graphs.batch import Batch, Still
from motifair.models.base import Model, kept, linear_parts
from motifair.models.perceptron import ALL, Keep, Mlp, Pass, backward, forward, in_rows


class GIN(Model):
    """layers × {MLP of the sum over a node and its neighbours, ReLU, dropout}, then sum pooling.

    This is where a simulation spends its time, so the gradient is written out: one step of
    autograd instead of dozens, and gradients land in the flat row they belong to.
    """

    summed_inputs = True

    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return a two-layer MLP for each convolution."""
        parts = []
        for k in range(self.layers):
            parts += linear_parts(f"convs.{k}.nn.0", self.hidden, self.hidden)
            parts += linear_parts(f"convs.{k}.nn.2", self.hidden, self.hidden)
        return parts

    def embed(self, weights: Tensor, batch: Batch, keep: Sequence[Keep] = ()) -> Tensor:
        """Return the graph embeddings; the first convolution works on distinct inputs.

        Without dropout and gradients all of them do.
        """
        if batch.still is not None and not keep and not torch.is_grad_enabled():
            return self.embed_still(weights, batch, batch.still)
        result: Tensor = _Embed.apply(weights, self, batch, keep)  # type: ignore[no-untyped-call]
        return result

    def embed_still(self, weights: Tensor, batch: Batch, still: Still) -> Tensor:
        """Embed graphs layer by layer on the nodes that are distinct there."""
        x = self.first(weights, batch)
        for k, mlp in enumerate(self.perceptrons(weights)):
            x = forward(x, mlp, None if k == 0 else still.levels[k - 1], None, ALL).y
        return in_rows(still.pool, x)

    @property
    def still_layers(self) -> int:
        """All layers: each sums over closed neighbourhoods."""
        return self.layers

    def perceptrons(self, weights: Tensor) -> list[Mlp]:
        """Return the parameters of every convolution, as views of the rows."""
        parts = self.layout.split(weights)[2:-4]
        return [Mlp(*parts[4 * k : 4 * k + 4]) for k in range(self.layers)]


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, model: GIN, batch: Batch, keep: Sequence[Keep]
    ) -> Tensor:
        passes: list[Pass] = []
        x = model.first(weights, batch)
        for k, mlp in enumerate(model.perceptrons(weights)):
            before = None if k == 0 else batch.closed.forward
            after = batch.spread.forward if k == 0 else None
            passes.append(forward(x, mlp, before, after, kept(keep, k)))
            x = passes[-1].y
        ctx.model, ctx.batch, ctx.keep = model, batch, keep
        ctx.save_for_backward(weights, *(tensor for done in passes for tensor in done))
        return in_rows(batch.pool.forward, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        weights, *tensors = ctx.saved_tensors
        model, batch = ctx.model, ctx.batch
        mlps, parts = model.perceptrons(weights), [torch.zeros_like(model.layout.tail(weights))]
        g = in_rows(batch.pool.backward, gradient)
        for k in reversed(range(model.layers)):
            before = None if k == 0 else batch.closed.backward
            after = batch.spread.backward if k == 0 else None
            done = Pass(*tensors[4 * k : 4 * k + 4])
            g, found = backward(g, done, mlps[k], before, after, kept(ctx.keep, k).scale)
            parts = [tensor.flatten(1) for tensor in found] + parts
        first = in_rows(batch.inputs.backward, g).flatten(1)
        return torch.cat([first, *parts], dim=1), None, None, None
