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
    bag_sum,
    dense,
    dense_backward,
    mix,
    random_words,
    rectify_,
    rectify_backward,
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
