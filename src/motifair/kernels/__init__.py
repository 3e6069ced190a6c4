"""The element-by-element work between matrix products, each as one pass over memory.

Bias, ReLU and dropout, their backward pass, random bits and Adam are chains of small operations:
written with tensor operations, every link of a chain reads and writes everything anew. Here a
chain is one loop, compiled by numba on a CPU (and run without Python's lock, so that threads do
not wait for each other) and by Triton on a CUDA device, where the matrix product joins the chain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from motifair.kernels import cpu

if torch.cuda.is_available():
    from motifair.kernels import cuda


class Adam(NamedTuple):
    """Settings of the optimiser."""

    learning_rate: float
    weight_decay: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


def rectify_(x: Tensor, bias: Tensor | None, keep: Tensor | None, scale: float) -> Tensor:
    """Replace `x (R, n, H)` by scale·max(x + bias, 0) where its bit in `keep` is set, else by 0.

    `bias` is `(R, H)`. Bits run along a row: unit u of a row has bit u mod 64 of word u div 64 of
    `keep (R, W)`. Without them there is no bias, and everything is kept.

    >>> x = torch.tensor([[[1.0, 2.0], [-3.0, 4.0]]])
    >>> rectify_(x, torch.ones(1, 2), torch.tensor([[0b1101]]), 2.0).flatten().tolist()
    [4.0, 0.0, 0.0, 10.0]
    """
    if x.device.type != "cpu":
        return cuda.rectify_(x, bias, keep, scale)
    # Contiguous arrays only: for others the loops would not become vector code.
    bias = x.new_zeros(len(x), x.shape[2]) if bias is None else bias.contiguous()
    bits = _NO_BITS if keep is None else keep.contiguous().numpy()
    values = x.numpy()
    cpu.rectify(values, bias.numpy(), bits, keep is not None, values.dtype.type(scale))
    return x


def rectify_backward(gradient: Tensor, y: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return scale·gradient where y > 0, else 0 `(R, n, H)`, and its sum over n `(R, H)`.

    With y from `rectify_` these are the gradients of x and bias: a unit that was dropped or not
    positive is 0 in y.
    """
    gradient = gradient.contiguous()
    if y.device.type != "cpu":
        return cuda.rectify_backward(gradient, y, scale)
    out, total = torch.empty_like(y), y.new_empty(len(y), y.shape[2])
    factor = y.numpy().dtype.type(scale)
    cpu.rectify_backward(gradient.numpy(), y.numpy(), factor, out.numpy(), total.numpy())
    return out, total


def dense(x: Tensor, weight: Tensor, bias: Tensor, keep: Tensor | None, scale: float) -> Tensor:
    """Return `rectify_` of each agent's own product x·W, `(R, n, inputs) -> (R, n, H)`."""
    if x.device.type != "cpu" and cuda.fits(x, weight):
        return cuda.dense(x, weight, bias, keep, scale)
    return rectify_(torch.bmm(x, weight), bias, keep, scale)


def dense_backward(
    gradient: Tensor, y: Tensor, x: Tensor, weight: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, weight and bias, for y from `dense`."""
    if x.device.type != "cpu" and cuda.fits(x, weight):
        return cuda.dense_backward(gradient, y, x, weight, scale)
    g, of_bias = rectify_backward(gradient, y, scale)
    return torch.bmm(g, weight.mT), torch.bmm(x.mT, g), of_bias


def bag_sum(index: Tensor, start: Tensor, weight: Tensor | None, rows: Tensor) -> Tensor:
    """Return Σ weight·rows[index[start[b]:start[b+1]]] for each b, `(inputs, H) -> (bags, H)`."""
    if rows.device.type != "cpu":
        return cuda.bag_sum(index, start, weight, rows.contiguous())
    # The call behind `torch.nn.functional.embedding_bag`, without its checks: this runs hundreds
    # of times a round. Positional: no scaling, mode "sum", not sparse, weights, and a last start
    # that ends the last bag. Detached rows spare it notes for a backward pass.
    return torch.embedding_bag(rows.detach(), index, start, False, 0, False, weight, True)[0]


def adam_(
    weights: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    steps: Tensor,
    moving: Tensor,
    settings: Adam,
) -> None:
    """Take one step of Adam in place, with weight decay added to the gradient, in moving rows.

    All are `(R, D)` but `steps` and `moving`, `(R,)`: each row counts its own steps.
    """
    if weights.device.type != "cpu":
        cuda.adam_(weights, gradient, first, second, steps, moving, settings)
        return
    arrays = (weights, gradient.contiguous(), first, second, steps, moving)
    cpu.adam(*(a.numpy() for a in arrays), *settings)


def random_words(keys: Tensor, count: int) -> Tensor:
    """Return `count` random 64-bit words for each key, `(K,) -> (K, count)` (SplitMix64)."""
    out = torch.empty(len(keys), count, dtype=torch.int64, device=keys.device)
    if keys.device.type != "cpu":
        return cuda.random_words_(out, keys)
    cpu.random_words(keys.contiguous().numpy().view(np.uint64), out.numpy().view(np.uint64))
    return out


def mix(keys: Tensor, counter: int | Tensor) -> Tensor:
    """Derive keys from keys and a counter (the finaliser of SplitMix64)."""
    if keys.device.type != "cpu":
        return cuda.mix(keys, counter)
    counters = counter.numpy() if isinstance(counter, Tensor) else np.int64(counter)
    mixed = cpu.mix(keys.numpy().view(np.uint64), counters.view(np.uint64))
    return torch.from_numpy(mixed.view(np.int64))


_NO_BITS = np.zeros((0, 0), dtype=np.int64)
