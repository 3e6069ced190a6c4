"""Compiled kernels on sparse matrices in CSR form.

A matrix is `start` and `index`, the `indptr` and `indices` of scipy's `csr_array`: row k has its
entries in the columns `index[start[k]:start[k+1]]`. scipy has most of these operations, but its
input checks take longer than a training step on a mini-batch.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def number_sparse_rows(start: Any, index: Any, bits: Any) -> tuple[Any, Any]:
    """Number the distinct rows; return the number of each row, and the first row of each number.

    `bits` are the bit patterns of the values as integers. Rows are looked up in a hash table and
    compared entry by entry, so that hash collisions never merge different rows.
    """
    rows = len(start) - 1
    size = 1
    while size < 2 * rows:
        size *= 2
    table = np.full(size, -1, np.int64)
    number = np.empty(rows, np.int64)
    first = np.empty(rows, np.int64)
    distinct = 0
    for row in range(rows):
        slot = _hash(start, index, bits, row) & (size - 1)
        while table[slot] >= 0 and not _same(start, index, bits, first[table[slot]], row):
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            table[slot] = distinct
            first[distinct] = row
            distinct += 1
        number[row] = table[slot]
    return number, first[:distinct]


@numba.njit(nogil=True, cache=True)
def _hash(start: Any, index: Any, bits: Any, row: int) -> Any:
    """Hash the entries of a row (multiply and shift, as in SplitMix64)."""
    code = np.int64(start[row + 1] - start[row])
    for e in range(start[row], start[row + 1]):
        code = (code ^ np.int64(index[e])) * np.int64(-4658895280553007687)
        code = (code ^ (code >> 29) ^ np.int64(bits[e])) * np.int64(-7723592293110705685)
        code ^= code >> 32
    return code


@numba.njit(nogil=True, cache=True)
def _same(start: Any, index: Any, bits: Any, one: int, other: int) -> bool:
    length = start[one + 1] - start[one]
    if start[other + 1] - start[other] != length:
        return False
    for k in range(length):
        a, b = start[one] + k, start[other] + k
        if index[a] != index[b] or bits[a] != bits[b]:
            return False
    return True


@numba.njit(nogil=True, cache=True)
def gather_rows(rows: Any, start: Any, index: Any, shift: Any) -> tuple[Any, Any]:
    """Concatenate the given rows, adding `shift[k]` to the columns of the k-th.

    Returns the columns, and the position of each of them in `index`.
    """
    total = 0
    for row in rows:
        total += start[row + 1] - start[row]
    columns = np.empty(total, np.int32)
    entry = np.empty(total, np.int32)
    filled = 0
    for k in range(len(rows)):
        for e in range(start[rows[k]], start[rows[k] + 1]):
            columns[filled] = index[e] + shift[k]
            entry[filled] = e
            filled += 1
    return columns, entry


@numba.njit(nogil=True, cache=True)
def transpose(start: Any, index: Any, columns: int) -> tuple[Any, Any, Any]:
    """Return `start` and `index` of the transposed matrix, and the old position of each entry.

    Entries of a row keep their order, so that sums are added in a fixed order.
    """
    new_start = np.zeros(columns + 1, np.int32)
    for column in index:
        new_start[column + 1] += 1
    for column in range(columns):
        new_start[column + 1] += new_start[column]
    place = new_start[:-1].copy()
    rows = np.empty(len(index), np.int32)
    entry = np.empty(len(index), np.int32)
    for row in range(len(start) - 1):
        for e in range(start[row], start[row + 1]):
            at = place[index[e]]
            place[index[e]] += 1
            rows[at] = row
            entry[at] = e
    return new_start, rows, entry


@numba.njit(nogil=True, cache=True)
def number_values(values: Any, first: Any, least: Any) -> tuple[Any, Any, Any]:
    """Number the distinct values of each agent in ascending order, as `np.unique` does for one.

    Agent r has `values[first[r]:first[r+1]]`, which are in `range(least[r], least[r+1])`. Returns
    the distinct values of all agents in turn, the index of each value among them, and the index
    of each agent's first distinct value.
    """
    agents = len(first) - 1
    place = np.empty(np.max(np.diff(least)), np.int32)
    distinct = np.empty(len(values), np.int64)
    inverse = np.empty(len(values), np.int32)
    start = np.zeros(agents + 1, np.int64)
    for r in range(agents):
        size = least[r + 1] - least[r]
        place[:size] = -1
        for k in range(first[r], first[r + 1]):
            place[values[k] - least[r]] = 0
        count = start[r]
        for value in range(size):
            if place[value] == 0:
                place[value] = count
                distinct[count] = least[r] + value
                count += 1
        for k in range(first[r], first[r + 1]):
            inverse[k] = place[values[k] - least[r]]
        start[r + 1] = count
    return distinct[: start[agents]], inverse, start


@numba.njit(nogil=True, cache=True)
def padded_rows(first: Any) -> tuple[int, Any, Any]:
    """Pad the items of every agent to the largest number of them.

    Agent r has the items `first[r]:first[r+1]`. Returns the largest number, the agent of each item,
    and the row of each item in the padded stack.
    """
    largest = np.max(np.diff(first))
    agent = np.empty(first[-1], np.int64)
    row = np.empty(first[-1], np.int64)
    for r in range(len(first) - 1):
        for k in range(first[r], first[r + 1]):
            agent[k] = r
            row[k] = r * largest + k - first[r]
    return largest, agent, row


@numba.njit(nogil=True, cache=True)
def row_starts(row: Any, length: Any, rows: int) -> Any:
    """Return `start` of a matrix in which row `row[k]` has `length[k]` entries, other rows none."""
    start = np.zeros(rows + 1, np.int32)
    for k in range(len(row)):
        start[row[k] + 1] = length[k]
    for r in range(rows):
        start[r + 1] += start[r]
    return start


@numba.njit(nogil=True, cache=True)
def return_probabilities(
    edge_start: np.ndarray, neighbour: np.ndarray, degree: np.ndarray, steps: int
) -> np.ndarray:
    """Return the probability that a random walk is back at its node after 1..steps steps.

    `(nodes, steps)`, diag(S^k) with S = A·Deg⁻¹. Only walks of half the length are computed: S·Deg
    is symmetric, so that S^k[v,v] = Σ_u S^a[v,u] S^b[v,u] deg(u) / deg(v) for k = a + b.
    """
    nodes, half = len(degree), (steps + 1) // 2
    returned = np.zeros((nodes, steps))
    chance = np.zeros((nodes, half + 1))  # S^a[v, u] in row u, for the current node v
    ball = np.empty(nodes, np.int64)  # nodes that its walks can reach, nearest first
    inside = np.zeros(nodes, np.bool_)
    for v in range(nodes):
        ball[0], inside[v], chance[v, 0] = v, True, 1.0
        before, size = 0, 1
        for a in range(1, half + 1):
            before, size = size, _grow(edge_start, neighbour, ball, inside, before, size)
            for u in ball[:size]:
                for w in neighbour[edge_start[u] : edge_start[u + 1]]:
                    chance[u, a] += chance[w, a - 1] / degree[u]
        for u in ball[:size]:
            for k in range(1, steps + 1):
                there = chance[u, (k + 1) // 2] * chance[u, k // 2]
                returned[v, k - 1] += there * degree[u] / max(degree[v], 1)
        chance[ball[:size]] = 0.0
        inside[ball[:size]] = False
    return returned


@numba.njit(nogil=True, cache=True)
def _grow(
    edge_start: np.ndarray,
    neighbour: np.ndarray,
    ball: np.ndarray,
    inside: np.ndarray,
    first: int,
    size: int,
) -> int:
    """Add the neighbours of `ball[first:size]` to the ball, and return its new size."""
    for u in ball[first:size]:
        for w in neighbour[edge_start[u] : edge_start[u + 1]]:
            if not inside[w]:
                inside[w] = True
                ball[size] = w
                size += 1
    return size
