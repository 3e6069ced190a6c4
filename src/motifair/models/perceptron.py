"""What networks are made of between bag sums: linear maps, ReLU and dropout, with few passes.

PyTorch's own chain of linear, ReLU and dropout stores every link for the backward pass. The
result alone is enough: where it is positive the chain let the value through, elsewhere not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from motifair.bags import BagSum
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
    *,
    before: BagSum | None = None,
    after: BagSum | None = None,
    keep: Keep = ALL,
) -> Tensor:
    """Return dropout(after(ReLU(ReLU(before(x)·W₁ + b₁)·W₂ + b₂))), with `(weight, bias)` pairs.

    `before` and `after` are sums over the rows of the flattened stack, or nothing.
    """
    result: Tensor = _Perceptron.apply(x, *first, *second, before, after, keep)  # type: ignore[no-untyped-call]
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
        after: BagSum | None,
        keep: Keep,
    ) -> Tensor:
        ctx.before, ctx.after, ctx.scale = before, after, keep.scale
        inputs = x if before is None else _rows(before.forward, x)
        hidden = dense(inputs, w1, b1, *ALL)
        inner = y = dense(hidden, w2, b2, *(keep if after is None else ALL))
        if after is not None:
            y = rectify_(_rows(after.forward, inner), None, *keep)
        ctx.save_for_backward(inputs, w1, hidden, w2, inner, y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, w1, hidden, w2, inner, y = ctx.saved_tensors
        g, scale = gradient, ctx.scale
        if ctx.after is not None:
            # What is spread is not negative, so a second ReLU changes nothing.
            g, scale = _rows(ctx.after.backward, rectify_backward(g, y, scale)[0]), 1.0
        g, weight2, bias2 = dense_backward(g, inner, hidden, w2, scale)
        g, weight1, bias1 = dense_backward(g, hidden, inputs, w1, 1.0)
        if ctx.before is not None:
            g = _rows(ctx.before.backward, g)
        return g, weight1, bias1, weight2, bias2, None, None, None


def _rows(bags: Any, x: Tensor) -> Tensor:
    """Apply bags to the flattened rows of a stack."""
    result: Tensor = bags(x.reshape(-1, x.shape[-1])).view(len(x), -1, x.shape[-1])
    return result
