"""The kernels for CUDA devices, in Triton, which PyTorch's CUDA builds include.

All sums are computed in a fixed order: results are bit-identical between runs.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

UNITS = 1024  # elements per program
NODES = 64  # nodes per program
PRODUCT_NODES, BACKWARD_NODES, BLOCKS = 128, 32, 8  # the fastest of those tried on an H200
BAGS, MEMBERS = 16, 32  # short bags per program; members of a long bag per iteration
WIDEST = 128  # most inputs and outputs of the matrix products, which are held in registers


def bag_sum(index: Tensor, start: Tensor, weight: Tensor | None, rows: Tensor) -> Tensor:
    """See `kernels.bag_sum`."""
    bags, hidden = len(start) - 1, rows.shape[1]
    out = rows.new_empty(bags, hidden)
    if bags == 0:
        return out
    width = min(triton.next_power_of_2(hidden), 64)
    parts = triton.cdiv(hidden, width)
    given = {"HAS_WEIGHT": weight is not None, "WIDTH": width}
    if len(index) > BAGS * bags:
        _long_bags[(bags, parts)](index, start, weight, rows, out, hidden, BLOCK=MEMBERS, **given)
    else:
        _short_bags[(triton.cdiv(bags, BAGS), parts)](
            index, start, weight, rows, out, bags, hidden, BLOCK=BAGS, **given
        )
    return out


def fits(x: Tensor, weight: Tensor) -> bool:
    """Whether `dense` supports this type and these sizes."""
    inputs, outputs = weight.shape[1:]
    return (
        x.dtype == torch.float32 and min(inputs, outputs) >= 16 and max(inputs, outputs) <= WIDEST
    )


def dense(x: Tensor, weight: Tensor, bias: Tensor, keep: Tensor | None, scale: float) -> Tensor:
    """See `kernels.dense`."""
    x = x.contiguous()
    (rows, n, inputs), hidden = x.shape, weight.shape[2]
    y = x.new_empty(rows, n, hidden)
    _dense[(triton.cdiv(n, PRODUCT_NODES), rows)](
        x, weight, bias, keep, y, scale, n, weight.stride(0), bias.stride(0),
        0 if keep is None else keep.stride(0),
        INPUTS=inputs, HIDDEN=hidden, HAS_KEEP=keep is not None, BLOCK=PRODUCT_NODES,
        DEEP=triton.next_power_of_2(inputs), WIDE=triton.next_power_of_2(hidden),
    )  # fmt: skip
    return y


def dense_backward(
    gradient: Tensor, y: Tensor, x: Tensor, weight: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """See `kernels.dense_backward`."""
    x, (rows, n, hidden), inputs = x.contiguous(), y.shape, x.shape[2]
    tiles = triton.cdiv(n, BACKWARD_NODES * BLOCKS)
    gx = torch.empty_like(x)
    weights, biases = y.new_empty(rows, tiles, inputs, hidden), y.new_empty(rows, tiles, hidden)
    _dense_backward[(tiles, rows)](
        gradient.contiguous(), y, x, weight, gx, weights, biases, scale, n, weight.stride(0),
        INPUTS=inputs, HIDDEN=hidden, BLOCK=BACKWARD_NODES, BLOCKS=BLOCKS,
        DEEP=triton.next_power_of_2(inputs), WIDE=triton.next_power_of_2(hidden), num_stages=1,
    )  # fmt: skip
    return gx, weights.sum(dim=1), biases.sum(dim=1)


def rectify_(x: Tensor, bias: Tensor | None, keep: Tensor | None, scale: float) -> Tensor:
    """See `kernels.rectify_`."""
    rows, n, hidden = x.shape
    words = 0 if keep is None else keep.stride(0)
    between = 0 if bias is None else bias.stride(0)
    _rectify[(triton.cdiv(n * hidden, UNITS), rows)](
        x, bias, keep, scale, n * hidden, hidden, between, words,
        HAS_BIAS=bias is not None, HAS_KEEP=keep is not None, BLOCK=UNITS,
    )  # fmt: skip
    return x


def rectify_backward(gradient: Tensor, y: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """See `kernels.rectify_backward`."""
    rows, n, hidden = y.shape
    tiles = triton.cdiv(n, NODES)
    out, part = torch.empty_like(y), y.new_empty(rows, tiles, hidden)
    _rectify_backward[(tiles, rows)](
        gradient, y, out, part, scale, n, hidden,
        BLOCK=NODES, WIDTH=triton.next_power_of_2(hidden),
    )  # fmt: skip
    return out, part.sum(dim=1)


def adam_(
    weights: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    steps: Tensor,
    moving: Tensor,
    settings: tuple[float, float, float, float, float],
) -> None:
    """See `kernels.adam_`."""
    learning_rate, weight_decay, beta1, beta2, epsilon = settings
    steps += moving
    count = steps.clamp(min=1).double()
    size = learning_rate / (1 - beta1**count)
    scale = (1 - beta2**count).rsqrt()
    rows, D = weights.shape
    _adam[(triton.cdiv(D, UNITS), rows)](
        weights, gradient.contiguous(), first, second, moving,
        size.to(weights.dtype), scale.to(weights.dtype), D,
        weight_decay, beta1, 1 - beta1, beta2, 1 - beta2, epsilon, BLOCK=UNITS,
    )  # fmt: skip


def random_words_(out: Tensor, keys: Tensor) -> Tensor:
    """Fill `out (K, count)`; see `kernels.random_words`."""
    _random_words[(triton.cdiv(out.shape[1], UNITS), len(keys))](
        keys.contiguous(), out, out.shape[1], BLOCK=UNITS
    )
    return out


def mix(keys: Tensor, counter: int | Tensor) -> Tensor:
    """See `kernels.mix`."""
    if not isinstance(counter, Tensor):
        counter = torch.full((), counter, dtype=torch.int64, device=keys.device)
    keys, counter = (t.contiguous() for t in torch.broadcast_tensors(keys, counter))
    out, count = torch.empty_like(keys), keys.numel()
    _mix[(triton.cdiv(count, UNITS),)](keys, counter, out, count, BLOCK=UNITS)
    return out


@triton.jit
def _rectify(
    x, bias, keep, scale, units, hidden, between, words,
    HAS_BIAS: tl.constexpr, HAS_KEEP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64)
    u = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = u < units
    v = tl.load(x + row * units + u, mask=inside)
    if HAS_BIAS:
        v += tl.load(bias + row * between + u % hidden, mask=inside)
    v = tl.maximum(v, 0.0) * scale
    if HAS_KEEP:
        bits = tl.load(keep + row * words + u // 64, mask=inside)
        v = tl.where((bits >> (u % 64)) & 1 != 0, v, 0.0)
    tl.store(x + row * units + u, v, mask=inside)


@triton.jit
def _rectify_backward(
    gradient, y, out, part, scale, n, hidden,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row, tile = tl.program_id(1).to(tl.int64), tl.program_id(0)
    i = tile * BLOCK + tl.arange(0, BLOCK)
    h = tl.arange(0, WIDTH)
    inside = (i < n)[:, None] & (h < hidden)[None, :]
    at = (row * n + i)[:, None] * hidden + h[None, :]
    positive = tl.load(y + at, mask=inside, other=0.0) > 0
    g = tl.load(gradient + at, mask=inside, other=0.0) * scale
    g = tl.where(positive, g, 0.0)
    tl.store(out + at, g, mask=inside)
    total = tl.sum(g, axis=0)
    tl.store(part + (row * tl.num_programs(0) + tile) * hidden + h, total, mask=h < hidden)


@triton.jit
def _adam(
    weights, gradient, first, second, moving, size, scale,
    D, decay, old1, new1, old2, new2, epsilon, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64)
    d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (d < D) & (tl.load(moving + row) != 0)
    at = row * D + d
    w = tl.load(weights + at, mask=inside)
    g = tl.load(gradient + at, mask=inside) + decay * w
    m = old1 * tl.load(first + at, mask=inside) + new1 * g
    v = old2 * tl.load(second + at, mask=inside) + new2 * g * g
    tl.store(first + at, m, mask=inside)
    tl.store(second + at, v, mask=inside)
    step = tl.load(size + row) * m / (tl.sqrt(v) * tl.load(scale + row) + epsilon)
    tl.store(weights + at, w - step, mask=inside)


@triton.jit
def _scramble(x):
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * -4658895280553007687
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * -7723592293110705685
    return x ^ ((x >> 31) & ((1 << 33) - 1))


@triton.jit
def _mix(keys, counter, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < count
    c = tl.load(counter + i, mask=inside, other=0).to(tl.int64)
    x = tl.load(keys + i, mask=inside, other=0) + (c + 1) * -7046029254386353131
    tl.store(out + i, _scramble(x), mask=inside)


@triton.jit
def _random_words(keys, out, count, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(keys + row) + (i.to(tl.int64) + 1) * -7046029254386353131
    tl.store(out + row * count + i, _scramble(x), mask=i < count)


@triton.jit
def _short_bags(
    index, start, weight, rows, out, bags, hidden,
    HAS_WEIGHT: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    real, inside = b < bags, (h < hidden)[None, :]
    first = tl.load(start + b, mask=real, other=0)
    length = tl.load(start + b + 1, mask=real, other=0) - first
    total = tl.zeros((BLOCK, WIDTH), dtype=out.dtype.element_ty)
    for k in range(tl.max(length)):
        here = k < length
        member = tl.load(index + first + k, mask=here, other=0).to(tl.int64)
        v = tl.load(
            rows + member[:, None] * hidden + h[None, :], mask=here[:, None] & inside, other=0.0
        )
        if HAS_WEIGHT:
            v = v * tl.load(weight + first + k, mask=here, other=0.0)[:, None]
        total += v
    at = b.to(tl.int64)[:, None] * hidden + h[None, :]
    tl.store(out + at, total, mask=real[:, None] & inside)


@triton.jit
def _long_bags(
    index, start, weight, rows, out, hidden,
    HAS_WEIGHT: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = (h < hidden)[None, :]
    first, end = tl.load(start + b), tl.load(start + b + 1)
    total = tl.zeros((BLOCK, WIDTH), dtype=out.dtype.element_ty)
    for at in range(first, end, BLOCK):
        k = at + tl.arange(0, BLOCK)
        here = k < end
        member = tl.load(index + k, mask=here, other=0).to(tl.int64)
        v = tl.load(
            rows + member[:, None] * hidden + h[None, :], mask=here[:, None] & inside, other=0.0
        )
        if HAS_WEIGHT:
            v = v * tl.load(weight + k, mask=here, other=0.0)[:, None]
        total += v
    tl.store(out + b * hidden + h, tl.sum(total, axis=0), mask=h < hidden)


@triton.jit
def _dense(
    x, weight, bias, keep, y, scale, n, weight_row, bias_row, keep_row,
    INPUTS: tl.constexpr, HIDDEN: tl.constexpr, HAS_KEEP: tl.constexpr, BLOCK: tl.constexpr,
    DEEP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k, h = tl.arange(0, DEEP), tl.arange(0, WIDE)
    real = (i < n)[:, None]
    node = row * n + i
    inputs = tl.load(
        x + node[:, None] * INPUTS + k[None, :], mask=real & (k < INPUTS)[None, :], other=0.0
    )
    w = tl.load(
        weight + row * weight_row + k[:, None] * HIDDEN + h[None, :],
        mask=(k < INPUTS)[:, None] & (h < HIDDEN)[None, :],
        other=0.0,
    )
    b = tl.load(bias + row * bias_row + h, mask=h < HIDDEN, other=0.0)
    # Three TF32 products: about as exact as single precision, on tensor cores.
    v = tl.dot(inputs, w, input_precision="tf32x3") + b[None, :]
    v = tl.maximum(v, 0.0) * scale
    if HAS_KEEP:
        unit = i[:, None] * HIDDEN + h[None, :]
        bits = tl.load(keep + row * keep_row + unit // 64, mask=real & (h < HIDDEN)[None, :])
        v = tl.where((bits >> (unit % 64)) & 1 != 0, v, 0.0)
    tl.store(y + node[:, None] * HIDDEN + h[None, :], v, mask=real & (h < HIDDEN)[None, :])


@triton.jit
def _dense_backward(
    gradient, y, x, weight, gx, weights, biases, scale, n, weight_row,
    INPUTS: tl.constexpr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr,
    DEEP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    row, tile = tl.program_id(1).to(tl.int64), tl.program_id(0)
    k, h = tl.arange(0, DEEP), tl.arange(0, WIDE)
    deep, wide = (k < INPUTS)[None, :], (h < HIDDEN)[None, :]
    transposed = tl.load(
        weight + row * weight_row + k[None, :] * HIDDEN + h[:, None],
        mask=deep & (h < HIDDEN)[:, None],
        other=0.0,
    )
    of_weight = tl.zeros((DEEP, WIDE), dtype=tl.float32)
    of_bias = tl.zeros((WIDE,), dtype=tl.float32)
    for block in range(BLOCKS):
        i = (tile * BLOCKS + block) * BLOCK + tl.arange(0, BLOCK)
        real, node = (i < n)[:, None], row * n + i
        at = node[:, None] * HIDDEN + h[None, :]
        positive = tl.load(y + at, mask=real & wide, other=0.0) > 0
        g = tl.load(gradient + at, mask=real & wide, other=0.0) * scale
        g = tl.where(positive, g, 0.0)
        inputs = tl.load(x + node[:, None] * INPUTS + k[None, :], mask=real & deep, other=0.0)
        of_weight += tl.dot(tl.trans(inputs), g, input_precision="tf32x3")
        of_bias += tl.sum(g, axis=0)
        back = tl.dot(g, transposed, input_precision="tf32x3")
        tl.store(gx + node[:, None] * INPUTS + k[None, :], back, mask=real & deep)
    part = row * tl.num_programs(0) + tile
    tl.store(
        weights + (part * INPUTS + k[:, None]) * HIDDEN + h[None, :],
        of_weight,
        mask=(k < INPUTS)[:, None] & (h < HIDDEN)[None, :],
    )
    tl.store(biases + part * HIDDEN + h, of_bias, mask=h < HIDDEN)
