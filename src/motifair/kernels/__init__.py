"""Fused kernels: elementwise chains in one pass over memory.

Bias, ReLU and dropout, their backward pass, random bits and Adam are chains of elementwise
operations; as separate tensor operations each of them reads and writes all elements. Here a chain
is one loop, compiled by numba on a CPU (and run without the GIL, so that threads run in parallel)
and by Triton on a CUDA device, where it is also fused with the matrix product.
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
    """Hyper-parameters of Adam."""

    learning_rate: float
    weight_decay: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


def rectify_(x: Tensor, bias: Tensor | None, keep: Tensor | None, scale: float) -> Tensor:
    """Replace `x (R, n, H)` by scale·max(x + bias, 0) where its bit in `keep` is set, else by 0.

    Args:
        x: Changed in place, and returned.
        bias: `(R, H)`, or None for 0.
        keep: Dropout bits `(R, W)`: unit u of a row has bit u mod 64 of word u div 64. None keeps
            all units.
        scale: Factor of kept units.

    >>> x = torch.tensor([[[1.0, 2.0], [-3.0, 4.0]]])
    >>> rectify_(x, torch.ones(1, 2), torch.tensor([[0b1101]]), 2.0).flatten().tolist()
    [4.0, 0.0, 0.0, 10.0]
    """
    if x.device.type != "cpu":
        return cuda.rectify_(x, bias, keep, scale)
    # Contiguous arrays only: others would prevent vectorisation.
    bias = x.new_zeros(len(x), x.shape[2]) if bias is None else bias.contiguous()
    bits = _NO_BITS if keep is None else keep.contiguous().numpy()
    values = x.numpy()
    cpu.rectify(values, bias.numpy(), bits, keep is not None, values.dtype.type(scale))
    return x


def rectify_backward(gradient: Tensor, y: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return scale·gradient where y > 0, else 0, `(R, n, H)`, and its sum over n, `(R, H)`.

    For y from `rectify_` these are the gradients of x and bias: y is 0 where a unit was dropped or
    not positive.
    """
    gradient = gradient.contiguous()
    if y.device.type != "cpu":
        return cuda.rectify_backward(gradient, y, scale)
    out, total = torch.empty_like(y), y.new_empty(len(y), y.shape[2])
    factor = y.numpy().dtype.type(scale)
    cpu.rectify_backward(gradient.numpy(), y.numpy(), factor, out.numpy(), total.numpy())
    return out, total


def dense(x: Tensor, weight: Tensor, bias: Tensor, keep: Tensor | None, scale: float) -> Tensor:
    """Return `rectify_` of each agent's product x·weight, `(R, n, inputs) -> (R, n, H)`."""
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
    # The function behind `torch.nn.functional.embedding_bag`, without its checks: this runs
    # hundreds of times a round. Positional arguments: scale_grad_by_freq, mode (sum), sparse,
    # per_sample_weights, include_last_offset. Detached: it saves nothing for a backward pass.
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
    """Take one Adam step in place, with weight decay added to the gradient (L2 regularisation).

    Args:
        weights: `(R, D)`, changed in place.
        gradient: `(R, D)`.
        first: First moments, `(R, D)`, changed in place.
        second: Second moments, `(R, D)`, changed in place.
        steps: Number of steps of each row, `(R,)`, changed in place.
        moving: Which rows take the step, `(R,)`.
        settings: Hyper-parameters.
    """
    if weights.device.type != "cpu":
        cuda.adam_(weights, gradient, first, second, steps, moving, settings)
        return
    arrays = (weights, gradient.contiguous(), first, second, steps, moving)
    cpu.adam(*(a.numpy() for a in arrays), *settings)


def random_words(keys: Tensor, count: int) -> Tensor:
    """Return random 64-bit words for each key (SplitMix64), `(K,) -> (K, count)`."""
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
