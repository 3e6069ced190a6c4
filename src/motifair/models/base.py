"""What all graph networks here have in common: names, head, and how weights are handed over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from motifair.bag_sum import BagSum
from motifair.graphs.batch import Batch
from motifair.kernels import dense, dense_backward
from motifair.models.layout import Layout
from motifair.models.perceptron import ALL, Keep

Parameters = dict[str, Tensor]


class Model(ABC):
    """A graph classifier: node embeddings, summed over a graph → linear, ReLU, dropout → linear.

    It holds no parameters: every call takes the weights of R agents `(R, D)`, which `layout` names,
    and their graphs. `keep` says what dropout keeps, in each layer and at last in the
    head; without it nothing is dropped. A new network says what its body is made of and how it
    embeds graphs.
    """

    summed_inputs: ClassVar[bool] = False  # whether the first layer reads closed-neighbourhood sums
    structure: ClassVar[bool] = False  # whether it reads structural inputs of the nodes

    def __init__(self, width: int, classes: int, hidden: int, layers: int) -> None:
        self.width, self.classes, self.hidden, self.layers = width, classes, hidden, layers
        parts = [
            *linear_parts("pre", width, hidden),
            *self.body(),
            *linear_parts("post", hidden, hidden),
            *linear_parts("readout", hidden, classes),
        ]
        names, shapes = tuple(n for n, _ in parts), tuple(s for _, s in parts)
        self.layout = Layout(names, shapes, self.initial_bounds())

    @abstractmethod
    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return names and shapes of the parameters between input and head."""

    def initial_bounds(self) -> dict[str, float]:
        """Return the bounds of initial weights that are not those of `torch.nn.Linear`, by name."""
        return {}

    @property
    def still_layers(self) -> int:
        """How many layers can be read from `Batch.still`: none, or all."""
        return 0

    @abstractmethod
    def embed(self, weights: Tensor, batch: Batch, keep: Sequence[Keep] = ()) -> Tensor:
        """Return the graph embeddings f_ω(G), `(R, G, H)`."""

    def classify(self, weights: Tensor, embedding: Tensor, keep: Sequence[Keep] = ()) -> Tensor:
        """Return log-probabilities, `(R, G, H) -> (R, G, classes)`."""
        drop = kept(keep, self.layers)
        result: Tensor = _Head.apply(weights, embedding, self.layout, drop)  # type: ignore[no-untyped-call]
        return result

    def first(self, weights: Tensor, batch: Batch) -> Tensor:
        """Apply the first linear map to the distinct inputs, `(R, Q, H)`.

        The bias, which follows the matrix in a row, is one more input, which the batch counts: a
        single bag sum applies both.
        """
        both = weights[:, : (self.width + 1) * self.hidden].reshape(-1, self.hidden)
        return batch.inputs(both).view(batch.rows, -1, self.hidden)


class _Head(torch.autograd.Function):
    """linear, ReLU, dropout, linear, log-softmax, with the gradient written out."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, embedding: Tensor, layout: Layout, keep: Keep) -> Tensor:
        post, post_bias, readout, readout_bias = layout.head(weights)
        x = dense(embedding, post, post_bias, *keep)
        scores = torch.log_softmax(torch.baddbmm(readout_bias[:, None], x, readout), dim=-1)
        ctx.layout, ctx.scale = layout, keep.scale
        ctx.save_for_backward(weights, embedding, x, scores)
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        weights, embedding, x, scores = ctx.saved_tensors
        body = weights.shape[1] - ctx.layout.tail(weights).shape[1]
        post, _, readout, _ = ctx.layout.head(weights)
        g = gradient - scores.exp() * gradient.sum(dim=-1, keepdim=True)
        into = dense_backward(torch.bmm(g, readout.mT), x, embedding, post, ctx.scale)
        found = (*into[1:], torch.bmm(x.mT, g), g.sum(dim=1))
        row = [weights.new_zeros(len(weights), body), *(tensor.flatten(1) for tensor in found)]
        return torch.cat(row, dim=1), into[0], None, None


def linear_parts(name: str, inputs: int, outputs: int) -> list[tuple[str, tuple[int, ...]]]:
    """Name the parameters of a linear map."""
    return [(f"{name}.weight", (inputs, outputs)), (f"{name}.bias", (outputs,))]


def linear(x: Tensor, parameters: Parameters, name: str) -> Tensor:
    """Apply each agent's own linear map: `(R, n, in) -> (R, n, out)`."""
    weight, bias = pair(parameters, name)
    return torch.baddbmm(bias[:, None], x, weight)


def pair(parameters: Parameters, name: str) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a linear map."""
    return parameters[f"{name}.weight"], parameters[f"{name}.bias"]


def kept(keep: Sequence[Keep], layer: int) -> Keep:
    """Return what dropout keeps in a layer."""
    return keep[layer] if keep else ALL


def over_nodes(bag_sum: BagSum, x: Tensor) -> Tensor:
    """Apply a map of rows to a stack, `(R, n, H) -> (R, m, H)`."""
    return bag_sum(x.reshape(-1, x.shape[-1])).view(len(x), -1, x.shape[-1])
