"""What networks are made of between bag sums: linear maps, ReLU and dropout, with few passes.

PyTorch's own chain of linear, ReLU and dropout stores every link for the backward pass. The
result alone is enough: where it is positive the chain let the value through, elsewhere not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from motifair.bag_sum import Bags, BagSum
from motifair.kernels import dense, dense_backward, rectify_, rectify_backward


class Keep(NamedTuple):
    """Which units dropout keeps: bits `(R, words)` (none: all of them), and what scales them."""

    bits: Tensor | None = None
    scale: float = 1.0


ALL = Keep()


def rectify(x: Tensor, keep: Keep = ALL) -> Tensor:
    """Return dropout(ReLU(x)), `(R, n, H)`, in the memory of x."""
    result: Tensor = _Rectify.apply(x, keep)  # type: ignore[no-untyped-call]
    return result


def perceptron(
    x: Tensor,
    first: tuple[Tensor, Tensor],
    second: tuple[Tensor, Tensor],
    before: BagSum,
    keep: Keep = ALL,
) -> Tensor:
    """Return dropout(ReLU(ReLU(before(x)·W₁ + b₁)·W₂ + b₂)), with `(weight, bias)` pairs.

    `before` is a sum over the rows of the flattened stack.
    """
    result: Tensor = _Perceptron.apply(x, *first, *second, before, keep)  # type: ignore[no-untyped-call]
    return result


class _Rectify(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: Keep) -> Tensor:
        ctx.mark_dirty(x)
        ctx.scale = keep.scale
        y = rectify_(x, None, *keep)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        return rectify_backward(gradient, y, ctx.scale)[0], None


class Pass(NamedTuple):
    """What a perceptron computed on its way, for the way back; `y` is what came out."""

    inputs: Tensor
    hidden: Tensor
    inner: Tensor
    y: Tensor


class Mlp(NamedTuple):
    """Weights and biases of a perceptron, or their gradients."""

    weight1: Tensor
    bias1: Tensor
    weight2: Tensor
    bias2: Tensor


def forward(x: Tensor, w: Mlp, before: Bags | None, after: Bags | None, keep: Keep) -> Pass:
    """Compute `perceptron`, without autograd."""
    inputs = x if before is None else in_rows(before, x)
    hidden = dense(inputs, w.weight1, w.bias1, *ALL)
    inner = y = dense(hidden, w.weight2, w.bias2, *(keep if after is None else ALL))
    if after is not None:
        y = rectify_(in_rows(after, inner), None, *keep)
    return Pass(inputs, hidden, inner, y)


def backward(
    g: Tensor, done: Pass, w: Mlp, before: Bags | None, after: Bags | None, scale: float
) -> tuple[Tensor, Mlp]:
    """Return the gradients of what went in and of the weights; bags are the transposed ones."""
    if after is not None:
        # What is spread is not negative, so a second ReLU changes nothing.
        g, scale = in_rows(after, rectify_backward(g, done.y, scale)[0]), 1.0
    g, weight2, bias2 = dense_backward(g, done.inner, done.hidden, w.weight2, scale)
    g, weight1, bias1 = dense_backward(g, done.hidden, done.inputs, w.weight1, 1.0)
    if before is not None:
        g = in_rows(before, g)
    return g, Mlp(weight1, bias1, weight2, bias2)


def in_rows(bags: Bags, x: Tensor) -> Tensor:
    """Apply bags to the flattened rows of a stack, `(R, n, H) -> (R, m, H)`."""
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
        before: BagSum,
        keep: Keep,
    ) -> Tensor:
        w = Mlp(w1, b1, w2, b2)
        done = forward(x, w, before.forward, None, keep)
        ctx.before, ctx.scale = before, keep.scale
        ctx.save_for_backward(*w, *done)
        return done.y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        w, done = Mlp(*ctx.saved_tensors[:4]), Pass(*ctx.saved_tensors[4:])
        g, of_weights = backward(gradient, done, w, ctx.before.backward, None, ctx.scale)
        return g, *of_weights, None, None
