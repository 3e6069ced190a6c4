"""Sparse matrix × dense matrix products, as sums over bags of rows.

Neighbour sums, pooling, one-hot inputs and motif prototypes all add some input rows for every
output row. `torch.nn.functional.embedding_bag` does this several times faster than
gather + scatter on a CPU, and in a fixed order, so that results are reproducible on every device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from motifair.kernels import bag_sum


@dataclass(frozen=True)
class Bags:
    """A sparse matrix in CSR form: bag b sums the rows `index[start[b]:start[b+1]]`.

    `weight` has a factor for each entry of `index`; without it all factors are 1. With `stop
    (bags,)` bags lie anywhere in `index`, and bag b ends at `stop[b]`; `shift (bags,)` is added to
    the indices of each.
    """

    index: Tensor
    start: Tensor
    weight: Tensor | None = None
    stop: Tensor | None = None
    shift: Tensor | None = None

    @classmethod
    def of(
        cls, matrix: sparse.csr_array, device: torch.device | str, dtype: torch.dtype | None
    ) -> Bags:
        """Build from a scipy matrix (bags × inputs); without a dtype all entries count as 1."""
        weight = None if dtype is None else torch.as_tensor(matrix.data, dtype=dtype, device=device)
        return cls(_indices(matrix.indices, device), _indices(matrix.indptr, device), weight)

    def repeat(self, copies: int, inputs: int) -> Bags:
        """Return the block-diagonal matrix with this one, of so many columns, `copies` times."""
        copy = torch.arange(copies, dtype=self.index.dtype, device=self.index.device)[:, None]
        entries = len(self.index)
        start = (self.start[:-1] + entries * copy).flatten()
        return Bags(
            (self.index + inputs * copy).flatten(),
            torch.cat([start, start.new_full((1,), copies * entries)]),
            None if self.weight is None else self.weight.repeat(copies),
        )

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the sum of every bag: `(inputs, H) -> (bags, H)`."""
        return bag_sum(self.index, self.start, self.weight, rows, self.stop, self.shift)


@dataclass(frozen=True)
class BagSum:
    """A linear map `y = M x` with `M` sparse, and its transpose for the backward pass."""

    forward: Bags
    backward: Bags

    @classmethod
    def of(
        cls,
        matrix: sparse.csr_array,
        device: torch.device | str = "cpu",
        dtype: torch.dtype | None = None,
    ) -> BagSum:
        """Build from a scipy matrix (bags × inputs).

        Args:
            matrix: The sparse matrix `M`.
            device: Where its indices and weights are stored.
            dtype: Type of the weights, that of the rows it will be applied to. Without it all
                entries count as 1, and rows may be of any type.
        """
        return cls(
            Bags.of(matrix, device, dtype),
            Bags.of(matrix.T.tocsr(), device, dtype),
        )

    @classmethod
    def symmetric(cls, index: np.ndarray, start: np.ndarray, device: torch.device) -> BagSum:
        """Build from `indices` and `indptr` of a symmetric 0/1 matrix, its own transpose."""
        bags = Bags(_indices(index, device), _indices(start, device))
        return cls(bags, bags)

    def repeat(self, copies: int) -> BagSum:
        """Return the block-diagonal map with this one `copies` times.

        >>> twice = BagSum.of(sparse.csr_array([[0, 1], [1, 0]])).repeat(2)
        >>> twice(torch.tensor([[1.0], [2.0], [3.0], [4.0]])).flatten().tolist()
        [2.0, 1.0, 4.0, 3.0]
        """
        outputs, inputs = len(self.forward.start) - 1, len(self.backward.start) - 1
        return BagSum(self.forward.repeat(copies, inputs), self.backward.repeat(copies, outputs))

    def __call__(self, rows: Tensor) -> Tensor:
        """Apply to `(inputs, H)`, differentiably.

        >>> swap = BagSum.of(sparse.csr_array([[0, 1], [1, 0]]))
        >>> swap(torch.tensor([[1.0], [2.0]])).flatten().tolist()
        [2.0, 1.0]
        """
        if not (rows.requires_grad and torch.is_grad_enabled()):
            return self.forward(rows)
        result: Tensor = _BagSum.apply(rows, self.forward, self.backward)  # type: ignore[no-untyped-call]
        return result


class _BagSum(torch.autograd.Function):
    """`embedding_bag` whose backward pass is one `embedding_bag` with the transposed bags."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, forward: Bags, backward: Bags) -> Tensor:
        ctx.backward_bags = backward
        return forward(rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.backward_bags(grad.contiguous()), None, None


def _indices(values: np.ndarray, device: torch.device | str) -> Tensor:
    return torch.as_tensor(np.asarray(values, dtype=np.int32), device=device)
