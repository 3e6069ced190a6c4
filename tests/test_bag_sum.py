"""Sums over bags of rows: forward and backward equal a dense product."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from motifair.bag_sum import BagSum

CPU = torch.device("cpu")
# Tenths are not exact in single precision: the product shows in which precision weights are kept.
TENTHS = st.integers(-20, 20).map(lambda k: k / 10)
MATRICES = st.tuples(st.integers(0, 6), st.integers(0, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=TENTHS | st.just(0.0))
)


def rows(count: int, width: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, width, dtype=torch.float64, generator=generator, requires_grad=True)


@given(MATRICES, st.booleans())
def test_forward_and_backward_equal_the_dense_product(dense: np.ndarray, weighted: bool) -> None:
    bags = BagSum.of(sparse.csr_array(dense), CPU, torch.float64 if weighted else None)
    matrix = torch.tensor(dense if weighted else (dense != 0).astype(float))
    x = rows(dense.shape[1])
    y = bags(x)
    assert y.shape == (dense.shape[0], 3)
    assert torch.allclose(y, matrix @ x, rtol=0, atol=1e-12)
    upstream = rows(dense.shape[0]).detach()
    y.backward(upstream)
    assert x.grad is not None
    assert torch.allclose(x.grad, matrix.T @ upstream, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weighted", [True, False])
def test_the_gradient_is_that_of_finite_differences(weighted: bool) -> None:
    dense = np.array([[0, 0.5, 2], [0, 0, 0], [1, 0, -1.25], [0.75, 0, 0]])
    bags = BagSum.of(sparse.csr_array(dense), CPU, torch.float64 if weighted else None)
    assert torch.autograd.gradcheck(lambda x: bags(x), (rows(3),))


@given(st.integers(1, 7), st.data())
def test_a_symmetric_map_is_its_own_transpose(n: int, data: st.DataObject) -> None:
    half = data.draw(arrays(np.int64, (n, n), elements=st.integers(0, 1)))
    matrix = sparse.csr_array(np.triu(half) | np.triu(half).T)
    bags = BagSum.symmetric(matrix.indices, matrix.indptr, CPU)
    x, upstream = rows(n), rows(n, 3).detach() + 1
    y = bags(x)
    y.backward(upstream)
    dense = torch.tensor(matrix.toarray(), dtype=torch.float64)
    assert x.grad is not None
    assert torch.allclose(y, dense @ x, rtol=0, atol=1e-12)
    assert torch.allclose(x.grad, dense @ upstream, rtol=0, atol=1e-12)


def test_empty_bags_are_zero_and_inputs_in_no_bag_get_no_gradient() -> None:
    dense = np.array([[0, 0, 0], [1, 0, 1], [0, 0, 0]])
    x = rows(3)
    y = BagSum.of(sparse.csr_array(dense), CPU)(x)
    y.sum().backward()
    assert not y[[0, 2]].any()
    assert x.grad is not None
    assert x.grad.tolist() == [[1, 1, 1], [0, 0, 0], [1, 1, 1]]


def test_a_gradient_that_is_not_contiguous_is_summed_the_same() -> None:
    dense = np.array([[1, 0, 1], [0, 1, 1]])
    x, upstream = rows(3), rows(3, 2).detach().T
    assert not upstream.is_contiguous()
    BagSum.of(sparse.csr_array(dense), CPU)(x).backward(upstream)
    assert x.grad is not None
    assert torch.allclose(x.grad, torch.tensor(dense).double().T @ upstream)


def test_single_precision_stays_single_precision() -> None:
    bags = BagSum.of(sparse.csr_array(np.eye(2) / 2), CPU, torch.float32)
    y = bags(torch.ones(2, 2))
    assert y.dtype == torch.float32
    assert y.tolist() == [[0.5, 0.5], [0.5, 0.5]]
