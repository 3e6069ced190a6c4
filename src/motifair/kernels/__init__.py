"""Fused kernels: elementwise chains in one pass over memory.

Bias, ReLU and dropout, their backward pass, random bits and Adam are chains of elementwise
operations; as separate tensor operations each of them reads and writes all elements. Here a chain
is one loop, compiled by numba on a CPU (and run without the GIL, so that threads run in parallel)
and by Triton on a CUDA device, where it is also fused with the matrix product.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return each agent's x·weight + bias, `(R, n, inputs) -> (R, n, outputs)`."""
    if x.device.type != "cpu" and cuda.fits(x, weight):
        result: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return result
    if bias is None:
        return torch.bmm(x, weight)
    return torch.baddbmm(bias[:, None], x, weight)


def linear_backward(gradient: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, weight and bias, for `linear`."""
    if x.device.type != "cpu" and cuda.fits(x, weight):
        return cuda.dense_backward(gradient, None, x, weight, 1.0)
    return torch.bmm(gradient, weight.mT), torch.bmm(x.mT, gradient), gradient.sum(dim=1)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        return cuda.dense(x, weight, bias, None, 1.0, rectified=False)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight, of_bias = linear_backward(gradient, *ctx.saved_tensors)
        return x, weight, of_bias if ctx.biased else None


def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """Add each agent's bias, `(R, n, H), (R, H) -> (R, n, H)`."""
    if x.device.type == "cpu":
        return x + bias[:, None]
    result: Tensor = _AddBias.apply(x, bias)  # type: ignore[no-untyped-call]
    return result


class _AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        return x + bias[:, None]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        return gradient, column_sums(gradient)


def row_sums(x: Tensor) -> Tensor:
    """Sum each row over all its other axes, `(R, ...) -> (R,)`.

    On a GPU too a row's sum does not depend on other rows, nor on zeros that pad it.
    """
    if x.device.type == "cpu":
        return x.sum(dim=tuple(range(1, x.dim())))
    result: Tensor = _RowSums.apply(x)  # type: ignore[no-untyped-call]
    return result


def column_sums(x: Tensor) -> Tensor:
    """Sum over the second axis, `(R, n, H) -> (R, H)`; without gradients, else as `row_sums`."""
    return x.sum(dim=1) if x.device.type == "cpu" else cuda.tile_sums(x)


def norms(x: Tensor) -> Tensor:
    """Return the Euclidean norm over the last axis; without gradients, else as `row_sums`."""
    if x.device.type == "cpu":
        result: Tensor = torch.linalg.vector_norm(x, dim=-1)
        return result
    return cuda.row_sums((x * x).flatten(0, -2)).sqrt().view(x.shape[:-1])


class _RowSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return cuda.row_sums(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.view(-1, *[1] * (len(ctx.shape) - 1)).expand(ctx.shape)


def bag_sum(
    index: Tensor,
    start: Tensor,
    weight: Tensor | None,
    rows: Tensor,
    stop: Tensor | None = None,
    shift: Tensor | None = None,
) -> Tensor:
    """Return Σ weight·rows[index[start[b]:start[b+1]]] for each b, `(inputs, H) -> (bags, H)`.

    With `stop (bags,)` bag b ends there instead; `shift (bags,)` is added to its indices.
    """
    if rows.device.type != "cpu":
        return cuda.bag_sum(index, start, weight, rows.contiguous(), stop, shift)
    if stop is not None:
        index, start, weight = _lined_up(index, start, weight, stop, shift)
    # The function behind `torch.nn.functional.embedding_bag`, without its checks: this runs
    # hundreds of times a round. Positional arguments: scale_grad_by_freq, mode (sum), sparse,
    # per_sample_weights, include_last_offset. Detached: it saves nothing for a backward pass.
    return torch.embedding_bag(rows.detach(), index, start, False, 0, False, weight, True)[0]


def _lined_up(
    index: Tensor, start: Tensor, weight: Tensor | None, stop: Tensor, shift: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Copy bags that lie anywhere into bags that follow one another."""
    length = stop - start
    ends = length.cumsum(0)
    bag = torch.repeat_interleave(length)
    entry = start[bag] + torch.arange(len(bag)) - (ends - length)[bag]
    moved = index[entry] if shift is None else index[entry] + shift[bag]
    begins = torch.cat([ends.new_zeros(1), ends])
    return moved.long(), begins, None if weight is None else weight[entry]


class Senders(NamedTuple):
    """Who sends which message, as the kernels of a CPU read it.

    `source` and `label` are those of each message, -1 in padding; input j sends the messages
    `sent[first[j]:first[j+1]]`.
    """

    source: np.ndarray
    label: np.ndarray
    first: np.ndarray
    sent: np.ndarray


def send(x: Tensor, labels: Tensor, senders: Senders) -> Tensor:
    """Return the messages max(x[source] + labels[label], 0), `(messages, H)`; on a CPU only.

    Args:
        x: Inputs, `(inputs, H)`.
        labels: What each label adds, `(labels, H)`.
        senders: Who sends which message.
    """
    out = x.new_empty(len(senders.source), x.shape[1])
    cpu.send(*(t.numpy() for t in (x, labels)), senders.source, senders.label, out.numpy())
    return out


def send_backward(
    gradient: Tensor, message: Tensor, own: Tensor, senders: Senders, labels: int, agents: int
) -> tuple[Tensor, Tensor]:
    """Return the gradients of x, added to `own`, and of the labels, for messages of `send`.

    `labels` is the number of their rows, all of them in equal parts of so many agents.
    """
    of_x, of_labels = torch.empty_like(own), own.new_empty(labels, own.shape[1])
    read = (t.contiguous().numpy() for t in (gradient, message, own))
    cpu.send_backward(*read, *senders[1:], agents, of_x.numpy(), of_labels.numpy())
    return of_x, of_labels


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
