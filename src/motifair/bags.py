"""Sums over bags of rows: the one sparse operation of the whole project.

Neighbour sums, pooling, one-hot inputs and motif prototypes are all "for every output row, add
some input rows". `torch.nn.functional.embedding_bag` does this several times faster than
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
    """A sparse matrix in compressed rows: `index[start[b]:start[b+1]]` are the rows bag b adds."""

    index: Tensor
    start: Tensor
    weight: Tensor | None = None

    @classmethod
    def of(cls, matrix: sparse.csr_array, device: torch.device | str, dtype: torch.dtype) -> Bags:
        """Build from a scipy matrix (bags × inputs)."""
        weight = torch.as_tensor(matrix.data, dtype=dtype, device=device)
        return cls(_indices(matrix.indices, device), _indices(matrix.indptr, device), weight)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the sum of every bag: `(inputs, H) -> (bags, H)`."""
        weight = None if self.weight is None else self.weight.to(rows.dtype)
        return bag_sum(self.index, self.start, weight, rows)


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
        *,
        weighted: bool,
    ) -> BagSum:
        """Build from a scipy matrix (bags × inputs); without `weighted` entries count as one."""
        return cls(
            _bags(matrix, device, weighted),
            _bags(sparse.csr_array(matrix.T.tocsr()), device, weighted),
        )

    @classmethod
    def symmetric(cls, index: np.ndarray, start: np.ndarray, device: torch.device) -> BagSum:
        """Build from the compressed rows of a symmetric 0/1 matrix, which is its own transpose."""
        bags = Bags(_indices(index, device), _indices(start, device))
        return cls(bags, bags)

    def __call__(self, rows: Tensor) -> Tensor:
        """Apply to `(inputs, H)`, differentiably.

        >>> swap = BagSum.of(sparse.csr_array([[0, 1], [1, 0]]), weighted=False)
        >>> swap(torch.tensor([[1.0], [2.0]])).flatten().tolist()
        [2.0, 1.0]
        """
        result: Tensor = _BagSum.apply(rows, self.forward, self.backward)  # type: ignore[no-untyped-call]
        return result


class _BagSum(torch.autograd.Function):
    """`embedding_bag` whose backward is again one `embedding_bag`, by the transposed bags."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, forward: Bags, backward: Bags) -> Tensor:
        ctx.backward_bags = backward
        return forward(rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.backward_bags(grad.contiguous()), None, None


def _bags(matrix: sparse.csr_array, device: torch.device | str, weighted: bool) -> Bags:
    bags = Bags.of(matrix, device, torch.float64)
    return bags if weighted else Bags(bags.index, bags.start)


def _indices(values: np.ndarray, device: torch.device | str) -> Tensor:
    return torch.as_tensor(np.asarray(values, dtype=np.int32), device=device)
