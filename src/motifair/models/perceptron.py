"""Two-layer perceptrons with ReLU and dropout, with explicit forward and backward passes.

PyTorch's linear, ReLU and dropout each store tensors for the backward pass. The output alone is
enough: the gradient passes where the output is positive, and is zero elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from motifair.bag_sum import Bags, BagSum
from motifair.kernels import dense, dense_backward, rectify_, rectify_backward


class DropoutMask(NamedTuple):
    """The units that dropout keeps: bits `(R, words)` (None: all), and the factor of kept units."""

    bits: Tensor | None = None
    scale: float = 1.0


NO_DROPOUT = DropoutMask()


def rectify(x: Tensor, keep: DropoutMask = NO_DROPOUT) -> Tensor:
    """Return dropout(ReLU(x)), `(R, n, H)`, computed in place."""
    result: Tensor = _Rectify.apply(x, keep)  # type: ignore[no-untyped-call]
    return result


def perceptron(
    x: Tensor,
    first: tuple[Tensor, Tensor],
    second: tuple[Tensor, Tensor],
    before: BagSum | None,
    keep: DropoutMask = NO_DROPOUT,
) -> Tensor:
    """Return dropout(ReLU(ReLU(before(x)·W₁ + b₁)·W₂ + b₂)), `(R, n, in) -> (R, m, H)`.

    `first` and `second` are pairs of weight and bias; `before` maps the rows of the flattened
    stack, R·n → R·m; without it they stay as they are.
    """
    result: Tensor = _Perceptron.apply(x, *first, *second, before, keep)  # type: ignore[no-untyped-call]
    return result


class _Rectify(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: DropoutMask) -> Tensor:
        ctx.mark_dirty(x)
        ctx.scale = keep.scale
        y = rectify_(x, None, *keep)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        return rectify_backward(gradient, y, ctx.scale)[0], None


class Activations(NamedTuple):
    """Intermediate results of a perceptron for its backward pass; `y` is the output."""

    inputs: Tensor
    hidden: Tensor
    inner: Tensor
    y: Tensor


class Mlp(NamedTuple):
    """Weights and biases of a two-layer perceptron, or their gradients."""

    weight1: Tensor
    bias1: Tensor
    weight2: Tensor
    bias2: Tensor


def forward(
    x: Tensor, w: Mlp, before: Bags | None, after: Bags | None, keep: DropoutMask
) -> Activations:
    """Compute `perceptron` without autograd; `after` maps rows before dropout is applied."""
    inputs = x if before is None else sum_rows(before, x)
    hidden = dense(inputs, w.weight1, w.bias1, *NO_DROPOUT)
    inner = y = dense(hidden, w.weight2, w.bias2, *(keep if after is None else NO_DROPOUT))
    if after is not None:
        y = rectify_(sum_rows(after, inner), None, *keep)
    return Activations(inputs, hidden, inner, y)


def backward(
    g: Tensor, saved: Activations, w: Mlp, before: Bags | None, after: Bags | None, scale: float
) -> tuple[Tensor, Mlp]:
    """Return the gradients of the input and of the weights; the bags are the transposed ones."""
    if after is not None:
        # The rows that `after` maps are not negative, so its ReLU changes nothing.
        g, scale = sum_rows(after, rectify_backward(g, saved.y, scale)[0]), 1.0
    g, weight2, bias2 = dense_backward(g, saved.inner, saved.hidden, w.weight2, scale)
    g, weight1, bias1 = dense_backward(g, saved.hidden, saved.inputs, w.weight1, 1.0)
    if before is not None:
        g = sum_rows(before, g)
    return g, Mlp(weight1, bias1, weight2, bias2)


def sum_rows(bags: Bags | BagSum, x: Tensor) -> Tensor:
    """Apply bag sums to the rows of a flattened stack, `(R, n, H) -> (R, m, H)`."""
    rows, _, hidden = x.shape
    return bags(x.reshape(-1, hidden)).view(rows, -1, hidden)


class _Perceptron(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w1: Tensor,
        b1: Tensor,
        w2: Tensor,
        b2: Tensor,
        before: BagSum | None,
        keep: DropoutMask,
    ) -> Tensor:
        w = Mlp(w1, b1, w2, b2)
        result = forward(x, w, None if before is None else before.forward, None, keep)
        ctx.before, ctx.scale = before, keep.scale
        ctx.save_for_backward(*w, *result)
        return result.y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        w, saved = Mlp(*ctx.saved_tensors[:4]), Activations(*ctx.saved_tensors[4:])
        before = None if ctx.before is None else ctx.before.backward
        g, of_weights = backward(gradient, saved, w, before, None, ctx.scale)
        return g, *of_weights, None, None
