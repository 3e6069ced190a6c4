"""Sparse matrices that select, stack and number rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from motifair.graphs.graph_set import Ints
from motifair.graphs.kernels import number_sparse_rows


def selection(column: Ints, columns: int) -> sparse.csr_array:
    """Return the 0/1 matrix whose row k has a single 1, in `column[k]`."""
    n = len(column)
    return sparse.csr_array((np.ones(n, np.float32), column, np.arange(n + 1)), shape=(n, columns))


def stacked(blocks: Sequence[sparse.sparray], height: int | None, width: int) -> sparse.csr_array:
    """Return the block-diagonal matrix of blocks padded to `height` × `width`.

    Without `height` every block has its own. Joined by hand: for one small block, and agents have
    many, `scipy.sparse.block_diag` takes four times as long.

    >>> stacked([sparse.csr_array([[2, 3]]), sparse.csr_array([[4]])], 1, 2).toarray().tolist()
    [[2, 3, 0, 0], [0, 0, 4, 0]]
    """
    rows = [block.tocsr() for block in blocks]
    first = np.cumsum([0, *(len(r.data) for r in rows)])
    start = [np.zeros(1, np.int64)]
    for r, at, after in zip(rows, first, first[1:], strict=False):
        padding = 0 if height is None else height - r.shape[0]
        start += [at + r.indptr[1:], np.full(padding, after)]
    joined = sparse.csr_array(
        (
            np.concatenate([r.data for r in rows]),
            np.concatenate([k * width + r.indices for k, r in enumerate(rows)]),
            np.concatenate(start),
        ),
        shape=(sum(map(len, start)) - 1, width * len(rows)),
    )
    joined.sum_duplicates()  # sorts the columns of each row, too
    return joined


def distinct_rows(matrix: sparse.csr_array) -> tuple[sparse.csr_array, Ints]:
    """Return the distinct rows in order of first occurrence, and the number of each row."""
    # Compared as integers: rows are equal only if they are bit-identical.
    bits = matrix.data.view(f"i{matrix.data.itemsize}")
    kind, first = number_sparse_rows(matrix.indptr, matrix.indices, bits)
    return matrix[first], kind
