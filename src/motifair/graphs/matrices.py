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


def stacked(blocks: Sequence[sparse.sparray], height: int, width: int) -> sparse.csr_array:
    """Return the block-diagonal matrix of blocks padded to `height` × `width`."""
    padded = []
    for block in blocks:
        grown = sparse.csr_array(block)
        grown.resize((height, width))
        padded.append(grown)
    return sparse.csr_array(sparse.block_diag(padded, format="csr"))


def distinct_rows(matrix: sparse.csr_array) -> tuple[sparse.csr_array, Ints]:
    """Return the distinct rows in order of first occurrence, and the number of each row."""
    # Compared as integers: rows are equal only if they are bit-identical.
    bits = matrix.data.view(f"i{matrix.data.itemsize}")
    kind, first = number_sparse_rows(matrix.indptr, matrix.indices, bits)
    return sparse.csr_array(matrix[first]), kind
