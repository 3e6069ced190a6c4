"""Every kernel against plain tensor operations, on a CPU and, where there is one, on a GPU."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from worlds import pack_bits, unpack_bits

from motifair.kernels import (
    Adam,
    adam_,
    add_bias,
    bag_sum,
    column_sums,
    dense,
    dense_backward,
    linear,
    linear_backward,
    mix,
    norms,
    random_words,
    rectify_,
    rectify_backward,
    row_sums,
)

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
EVERYWHERE = pytest.mark.parametrize("device", DEVICES)
SHAPES = pytest.mark.parametrize("shape", [(1, 1, 8), (3, 70, 64), (2, 130, 24), (2, 5, 128)])
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
MASK64 = (1 << 64) - 1


def drawn(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@EVERYWHERE
@SHAPES
@TYPES
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dropped", [False, True])
def test_rectify_is_bias_relu_and_dropout(
    device: str, shape: tuple[int, int, int], dtype: torch.dtype, biased: bool, dropped: bool
) -> None:
    x, bias = drawn(shape, dtype), drawn((shape[0], shape[2]), dtype, 1)
    mask = (drawn(shape, dtype, 2) > 0).to(dtype)
    expected = (x + bias[:, None] * biased).clamp(min=0)
    if dropped:
        expected = expected * mask * 2
    found = rectify_(
        x.to(device),
        bias.to(device) if biased else None,
        pack_bits(mask).to(device) if dropped else None,
        2.0 if dropped else 1.0,
    )
    assert torch.allclose(found.cpu(), expected)


@EVERYWHERE
@SHAPES
@TYPES
def test_the_backward_pass_is_what_autograd_finds(
    device: str, shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    x = drawn(shape, dtype).requires_grad_()
    bias = drawn((shape[0], shape[2]), dtype, 1).requires_grad_()
    mask = (drawn(shape, dtype, 2) > 0).to(dtype)
    y = torch.relu(x + bias[:, None]) * mask * 2
    gradient = drawn(shape, dtype, 3)
    expected = torch.autograd.grad(y, (x, bias), gradient)
    found = rectify_backward(gradient.to(device), y.detach().to(device), 2.0)
    assert torch.equal(found[0].cpu(), expected[0])
    assert torch.allclose(found[1].cpu(), expected[1], atol=1e-4)


@EVERYWHERE
def test_bits_of_a_slice_are_read_where_they_lie(device: str) -> None:
    x = drawn((2, 3, 64), torch.float64)
    bits = random_words(torch.tensor([5, 6]), 9)
    expected = x.clamp(min=0) * unpack_bits(bits[:, :3], (3, 64))
    found = rectify_(x.to(device), None, bits.to(device)[:, :3], 1.0)
    assert torch.equal(found.cpu(), expected)


@EVERYWHERE
def test_a_row_that_keeps_everything_does_not_speak_for_the_others(device: str) -> None:
    x = drawn((2, 4, 16), torch.float64)
    bits = torch.tensor([[-1], [0]])  # one word a row: all units of the first, none of the second
    found = rectify_(x.clone().to(device), None, bits.to(device), 1.0).cpu()
    assert torch.equal(found[0], x[0].clamp(min=0))
    assert (found[1] == 0).all()


@EVERYWHERE
def test_random_words_are_splitmix64(device: str) -> None:
    keys = [0, 1, 1234567, MASK64]
    signed = torch.tensor([k - (1 << 64) if k >> 63 else k for k in keys], device=device)
    words = random_words(signed, 3).cpu()
    for row, key in enumerate(keys):
        assert [int(w) & MASK64 for w in words[row]] == splitmix(key, 3)
    assert torch.equal(mix(signed, 1).cpu(), words[:, 1])
    assert torch.equal(mix(signed, torch.tensor(2, device=device)).cpu(), words[:, 2])


def splitmix(state: int, count: int) -> list[int]:
    """The generator as its authors write it, in plain integers."""
    found = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK64
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        found.append(z ^ (z >> 31))
    return found


@EVERYWHERE
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "shape", [(2, 700, 64, 64), (3, 33, 128, 64), (1, 5, 24, 40), (2, 9, 8, 8)]
)
def test_dense_is_linear_relu_dropout_and_its_gradients(
    device: str, dtype: torch.dtype, shape: tuple[int, int, int, int]
) -> None:
    rows, n, inputs, hidden = shape
    given = [drawn((rows, n, inputs), dtype), drawn((rows, inputs, hidden), dtype, 1)]
    given.append(drawn((rows, hidden), dtype, 2))
    mask = (drawn((rows, n, hidden), dtype, 3) > 0).to(dtype)
    x, weight, bias = (t.clone().requires_grad_() for t in given)
    expected = torch.relu(x @ weight + bias[:, None]) * mask * 2
    gradient = drawn(expected.shape, dtype, 4)
    gradients = torch.autograd.grad(expected, (x, weight, bias), gradient)
    x, weight, bias = (t.to(device) for t in given)
    y = dense(x, weight, bias, pack_bits(mask).to(device), 2.0)
    tolerance = {"rtol": 1e-4, "atol": 2e-4} if dtype == torch.float32 else {"rtol": 1e-9}
    assert torch.allclose(y.cpu(), expected, **tolerance)
    found = dense_backward(gradient.to(device), y, x, weight, 2.0)
    for ours, theirs in zip(found, gradients, strict=True):
        assert torch.allclose(ours.cpu(), theirs, **tolerance)


@EVERYWHERE
@pytest.mark.parametrize("longest", [3, 200])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("hidden", [8, 64, 100])
def test_bags_add_up_what_is_in_them(
    device: str, longest: int, weighted: bool, hidden: int
) -> None:
    generator = torch.Generator().manual_seed(longest)
    length = torch.randint(0, longest, (37,), generator=generator)
    start = torch.cat([torch.zeros(1), length.cumsum(0)]).int()
    index = torch.randint(0, 50, (int(start[-1]),), generator=generator).int()
    rows, weight = drawn((50, hidden), torch.float64), drawn((len(index),), torch.float64, 1)
    factor = weight if weighted else torch.ones_like(weight)
    expected = torch.stack(
        [
            (rows[index[a:b].long()] * factor[a:b, None]).sum(dim=0)
            for a, b in itertools.pairwise(start)
        ]
    )
    given = weight.to(device) if weighted else None
    found = bag_sum(index.to(device), start.to(device), given, rows.to(device))
    assert torch.allclose(found.cpu(), expected)


@EVERYWHERE
@pytest.mark.parametrize("longest", [3, 200])
@pytest.mark.parametrize("weighted", [False, True])
def test_bags_may_lie_anywhere_and_be_shifted(device: str, longest: int, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(longest)
    index = torch.randint(0, 40, (300,), generator=generator).int()
    start = torch.randint(0, 100, (37,), generator=generator).int()
    stop = start + torch.randint(0, longest, (37,), generator=generator).int()
    shift = torch.randint(0, 10, (37,), generator=generator).int()
    rows, weight = drawn((50, 8), torch.float64), drawn((300,), torch.float64, 1)
    factor = weight if weighted else torch.ones_like(weight)
    expected = torch.stack(
        [
            (rows[index[a:b].long() + s] * factor[a:b, None]).sum(dim=0)
            for a, b, s in zip(start, stop, shift, strict=True)
        ]
    )
    given = weight.to(device) if weighted else None
    where = (t.to(device) for t in (stop, shift))
    found = bag_sum(index.to(device), start.to(device), given, rows.to(device), *where)
    assert torch.allclose(found.cpu(), expected)


@EVERYWHERE
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 700, 64, 2), (3, 33, 128, 64), (1, 5, 3, 40)])
def test_linear_layers_and_their_gradients(
    device: str, dtype: torch.dtype, shape: tuple[int, int, int, int]
) -> None:
    rows, n, inputs, outputs = shape
    sizes = ((rows, n, inputs), (rows, inputs, outputs), (rows, outputs), (rows, n, outputs))
    x, weight, bias, gradient = (drawn(s, dtype, k) for k, s in enumerate(sizes))
    tolerance = {"rtol": 1e-4, "atol": 5e-4} if dtype == torch.float32 else {"rtol": 1e-9}
    given = [t.clone().requires_grad_() for t in (x, weight, bias)]
    expected = add_bias(given[0] @ given[1], given[2])
    gradients = torch.autograd.grad(expected, given, gradient)
    ours = [t.to(device).requires_grad_() for t in (x, weight, bias)]
    found = linear(*ours)
    assert torch.allclose(found.cpu(), expected, **tolerance)
    back = torch.autograd.grad(found, ours, gradient.to(device))
    explicit = linear_backward(*(t.to(device) for t in (gradient, x, weight)))
    for mine, again, theirs in zip(back, explicit, gradients, strict=True):
        assert torch.allclose(mine.cpu(), theirs, **tolerance)
        assert torch.allclose(again.cpu(), theirs, **tolerance)
    without = linear(ours[0], ours[1], None)
    assert torch.allclose(without.cpu(), x @ weight, **tolerance)


@EVERYWHERE
def test_sums_and_norms_of_rows(device: str) -> None:
    x = drawn((3, 700, 5), torch.float64).to(device)
    assert torch.allclose(row_sums(x), x.sum(dim=(1, 2)))
    assert torch.allclose(column_sums(x), x.sum(dim=1))
    assert torch.allclose(norms(x), x.norm(dim=-1))
    leaf = x.clone().requires_grad_()
    factor = torch.arange(3.0, dtype=torch.float64, device=device)
    (gradient,) = torch.autograd.grad((row_sums(leaf) * factor).sum(), leaf)
    assert torch.equal(gradient, factor[:, None, None].expand_as(x))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_a_sum_does_not_depend_on_what_is_beside_it_nor_on_padding() -> None:
    rows = drawn((500, 64), torch.float32).cuda()
    generator = torch.Generator().manual_seed(0)
    length = torch.randint(0, 8, (40_000,), generator=generator)  # more than `FEW_BAGS`
    length[::7] = torch.randint(0, 90, (len(length[::7]),), generator=generator)
    start = torch.cat([torch.zeros(1), length.cumsum(0)]).int()
    index = torch.randint(0, 500, (int(start[-1]),), generator=generator).int().cuda()
    weight = drawn((len(index),), torch.float32, 1).cuda()
    for factor in (None, weight):
        many = bag_sum(index, start.cuda(), factor, rows)
        few = bag_sum(index, start[:50].cuda(), factor, rows)
        assert torch.equal(many[:49], few)
    x = drawn((40, 333, 3), torch.float32).cuda()
    padded = torch.cat([x, torch.zeros_like(x)[:, :179]], dim=1)
    for total in (row_sums, column_sums):
        assert torch.equal(total(padded)[:2], total(x[:2]))
    assert torch.equal(norms(x)[:2], norms(x[:2]))
    nodes, matrix = drawn((30, 700, 64), torch.float32).cuda(), drawn((30, 64, 2), torch.float32)
    gradient = drawn((30, 700, 2), torch.float32, 2).cuda()
    stacked = linear_backward(gradient, nodes, matrix.cuda())
    for mine, theirs in zip(
        stacked, linear_backward(gradient[:1], nodes[:1], matrix[:1].cuda()), strict=True
    ):
        assert torch.equal(mine[:1], theirs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_adam_on_a_gpu_is_adam_on_a_cpu() -> None:
    start = [drawn((3, 2000), torch.float64, k) for k in range(4)]
    start[3] = start[3].abs()
    steps, moving = torch.tensor([0, 4, 9]), torch.tensor([True, False, True])
    ends = []
    for device in DEVICES:
        weights, gradient, first, second = (t.to(device).clone() for t in start)
        counts = steps.to(device).clone()
        adam_(weights, gradient, first, second, counts, moving.to(device), Adam(0.01, 0.1))
        ends.append([t.cpu() for t in (weights, first, second, counts)])
    for ours, theirs in zip(*ends, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-7)
