"""The kernels for CUDA devices, in Triton, which PyTorch's CUDA builds include.

All sums are computed in an order that follows from the summed numbers alone: results are
bit-identical between runs, and a row's do not depend on what is stacked beside it. So blocks have
one size for all shapes, and padding adds zeros at the end. Sizes that depend on the stack are
not specialised: a kernel compiled for multiples of 16 may add in another order.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

UNITS = 1024  # elements per program
NODES = 64  # nodes per program
PRODUCT_NODES, BACKWARD_NODES, BLOCKS = 128, 32, 8  # the fastest of those tried on an H200
BAGS, MEMBERS = 16, 32  # bags per program where there are many; members of a long bag at a time
SHORT = 16  # most members of a bag that are added one after another
FEW_BAGS = 2**15
LANES, TILES = 512, 16  # partial sums of a row; of tiles
WIDEST = 128  # most inputs and outputs of the matrix products, which are held in registers


def bag_sum(
    index: Tensor,
    start: Tensor,
    weight: Tensor | None,
    rows: Tensor,
    stop: Tensor | None,
    shift: Tensor | None,
) -> Tensor:
    """See `kernels.bag_sum`."""
    hidden = rows.shape[1]
    bags = len(start) - 1 if stop is None else len(start)
    out = rows.new_empty(bags, hidden)
    if bags == 0:
        return out
    width = min(triton.next_power_of_2(hidden), 64)
    long = stop is None and len(index) > BAGS * bags
    block = 1 if long or bags <= FEW_BAGS else BAGS
    _bags[(triton.cdiv(bags, block), triton.cdiv(hidden, width))](
        index, start, start[1:] if stop is None else stop, weight, shift, rows, out, bags, hidden,
        HAS_WEIGHT=weight is not None, HAS_SHIFT=shift is not None,
        BLOCK=block, MEMBERS=MEMBERS, SHORT=SHORT, WIDTH=width,
    )  # fmt: skip
    return out


def row_sums(x: Tensor) -> Tensor:
    """See `kernels.row_sums`."""
    x = x.contiguous()
    out = x.new_empty(len(x))
    if len(x):
        _row_sums[(len(x),)](x, out, x[0].numel(), BLOCK=LANES)
    return out


def tile_sums(parts: Tensor) -> Tensor:
    """Sum `parts (R, tiles, ...)` over tiles."""
    parts = parts.contiguous()
    rows, tiles = parts.shape[:2]
    out = parts.new_empty(rows, *parts.shape[2:])
    size = out[0].numel()
    _tile_sums[(triton.cdiv(size, NODES), rows)](parts, out, tiles, size, BLOCK=TILES, WIDTH=NODES)
    return out


def fits(x: Tensor, weight: Tensor) -> bool:
    """Whether `dense` supports this type and these sizes."""
    return x.dtype == torch.float32 and max(weight.shape[1:]) <= WIDEST


def dense(
    x: Tensor, weight: Tensor, bias: Tensor | None, keep: Tensor | None, scale: float,
    *, rectified: bool = True,
) -> Tensor:  # fmt: skip
    """See `kernels.dense`; not `rectified` it is the product and the bias alone."""
    x = x.contiguous()
    (rows, n, inputs), hidden = x.shape, weight.shape[2]
    y = x.new_empty(rows, n, hidden)
    _dense[(triton.cdiv(n, PRODUCT_NODES), rows)](
        x, weight, bias, keep, y, scale, n, weight.stride(0),
        0 if bias is None else bias.stride(0), 0 if keep is None else keep.stride(0),
        INPUTS=inputs, HIDDEN=hidden, HAS_BIAS=bias is not None, HAS_KEEP=keep is not None,
        RECTIFIED=rectified, BLOCK=PRODUCT_NODES, DEEP=_padded(inputs), WIDE=_padded(hidden),
    )  # fmt: skip
    return y


def dense_backward(
    gradient: Tensor, y: Tensor | None, x: Tensor, weight: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """See `kernels.dense_backward`; without y that of the product and the bias alone."""
    x, gradient = x.contiguous(), gradient.contiguous()
    (rows, n, hidden), inputs = gradient.shape, x.shape[2]
    tiles = triton.cdiv(n, BACKWARD_NODES * BLOCKS)
    gx = torch.empty_like(x)
    weights, biases = x.new_empty(rows, tiles, inputs, hidden), x.new_empty(rows, tiles, hidden)
    _dense_backward[(tiles, rows)](
        gradient, y, x, weight, gx, weights, biases, scale, n, weight.stride(0),
        INPUTS=inputs, HIDDEN=hidden, RECTIFIED=y is not None, BLOCK=BACKWARD_NODES, BLOCKS=BLOCKS,
        DEEP=_padded(inputs), WIDE=_padded(hidden), num_stages=1,
    )  # fmt: skip
    return gx, tile_sums(weights), tile_sums(biases)


def _padded(size: int) -> int:
    """Return the size of a block that tensor cores can multiply."""
    return max(16, int(triton.next_power_of_2(size)))


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
    return out, tile_sums(part)


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


@triton.jit(do_not_specialize=["n"])
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


@triton.jit(do_not_specialize=["bags"])
def _bags(
    index, start, stop, weight, shift, rows, out, bags, hidden,
    HAS_WEIGHT: tl.constexpr, HAS_SHIFT: tl.constexpr, BLOCK: tl.constexpr, MEMBERS: tl.constexpr,
    SHORT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    # A bag's length alone decides how it is summed: in order, or by MEMBERS partial sums.
    b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    real, inside = b < bags, (h < hidden)[None, :]
    first = tl.load(start + b, mask=real, other=0)
    length = tl.load(stop + b, mask=real, other=0) - first
    short = length <= SHORT
    by = tl.zeros((BLOCK,), dtype=tl.int64)
    if HAS_SHIFT:
        by += tl.load(shift + b, mask=real, other=0)
    total = tl.zeros((BLOCK, WIDTH), dtype=out.dtype.element_ty)
    for k in range(tl.max(tl.where(short, length, 0))):
        here = (k < length) & short
        member = tl.load(index + first + k, mask=here, other=0).to(tl.int64) + by
        v = tl.load(
            rows + member[:, None] * hidden + h[None, :], mask=here[:, None] & inside, other=0.0
        )
        if HAS_WEIGHT:
            v = v * tl.load(weight + first + k, mask=here, other=0.0)[:, None]
        total += v
    at = b.to(tl.int64)[:, None] * hidden + h[None, :]
    tl.store(out + at, total, mask=(real & short)[:, None] & inside)
    if tl.max(length) > SHORT:
        for j in range(BLOCK):
            bag = tl.program_id(0).to(tl.int64) * BLOCK + j
            if bag < bags:
                begin, end = tl.load(start + bag), tl.load(stop + bag)
                if end - begin > SHORT:
                    sums = _long_bag(
                        index, weight, shift, rows, bag, begin, end, h, hidden,
                        out.dtype.element_ty, HAS_WEIGHT, HAS_SHIFT, MEMBERS, WIDTH,
                    )  # fmt: skip
                    tl.store(out + bag * hidden + h, sums, mask=h < hidden)


@triton.jit
def _long_bag(
    index, weight, shift, rows, bag, begin, end, h, hidden, number: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, HAS_SHIFT: tl.constexpr, MEMBERS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    sums = tl.zeros((MEMBERS, WIDTH), dtype=number)
    for block in range(begin, end, MEMBERS):
        k = block + tl.arange(0, MEMBERS)
        here = k < end
        member = tl.load(index + k, mask=here, other=0).to(tl.int64)
        if HAS_SHIFT:
            member += tl.load(shift + bag)
        v = tl.load(
            rows + member[:, None] * hidden + h[None, :],
            mask=here[:, None] & (h < hidden)[None, :],
            other=0.0,
        )
        if HAS_WEIGHT:
            v = v * tl.load(weight + k, mask=here, other=0.0)[:, None]
        sums += v
    return tl.sum(sums, axis=0)


@triton.jit(do_not_specialize=["size"])
def _row_sums(x, out, size, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=out.dtype.element_ty)
    for at in range(0, size, BLOCK):
        k = at + tl.arange(0, BLOCK)
        total += tl.load(x + row * size + k, mask=k < size, other=0.0)
    tl.store(out + row, tl.sum(total, axis=0))


@triton.jit(do_not_specialize=["tiles"])
def _tile_sums(parts, out, tiles, size, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    h = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros((BLOCK, WIDTH), dtype=out.dtype.element_ty)
    for at in range(0, tiles, BLOCK):
        t = at + tl.arange(0, BLOCK)
        total += tl.load(
            parts + (row * tiles + t)[:, None] * size + h[None, :],
            mask=(t < tiles)[:, None] & (h < size)[None, :],
            other=0.0,
        )
    tl.store(out + row * size + h, tl.sum(total, axis=0), mask=h < size)


@triton.jit(do_not_specialize=["n"])
def _dense(
    x, weight, bias, keep, y, scale, n, weight_row, bias_row, keep_row,
    INPUTS: tl.constexpr, HIDDEN: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_KEEP: tl.constexpr,
    RECTIFIED: tl.constexpr, BLOCK: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr,
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
    # Three TF32 products: about as exact as single precision, on tensor cores.
    v = tl.dot(inputs, w, input_precision="tf32x3")
    if HAS_BIAS:
        v += tl.load(bias + row * bias_row + h, mask=h < HIDDEN, other=0.0)[None, :]
    if RECTIFIED:
        v = tl.maximum(v, 0.0) * scale
    if HAS_KEEP:
        unit = i[:, None] * HIDDEN + h[None, :]
        bits = tl.load(keep + row * keep_row + unit // 64, mask=real & (h < HIDDEN)[None, :])
        v = tl.where((bits >> (unit % 64)) & 1 != 0, v, 0.0)
    tl.store(y + node[:, None] * HIDDEN + h[None, :], v, mask=real & (h < HIDDEN)[None, :])


@triton.jit(do_not_specialize=["n"])
def _dense_backward(
    gradient, y, x, weight, gx, weights, biases, scale, n, weight_row,
    INPUTS: tl.constexpr, HIDDEN: tl.constexpr, RECTIFIED: tl.constexpr,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr,
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
        g = tl.load(gradient + at, mask=real & wide, other=0.0)
        if RECTIFIED:
            positive = tl.load(y + at, mask=real & wide, other=0.0) > 0
            g = tl.where(positive, g * scale, 0.0)
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
