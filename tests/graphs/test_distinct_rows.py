"""Distinct rows of a sparse matrix, against a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from motifair.graphs.matrices import distinct_rows

# Few values, so that rows repeat; some differ from others in their last bits only.
VALUES = st.sampled_from([1.0, 2.0, -1.0, 1e-40, 0.3, 0.1 + 0.2])


@st.composite
def matrices(draw: st.DrawFn) -> sparse.csr_array:
    width = draw(st.integers(1, 4))
    row = st.dictionaries(st.integers(0, width - 1), VALUES)
    rows = [sorted(r.items()) for r in draw(st.lists(row, max_size=40))]
    start = np.cumsum([0] + [len(r) for r in rows])
    index = np.array([c for r in rows for c, _ in r], dtype=np.int32)
    data = np.array([v for r in rows for _, v in r], dtype=draw(st.sampled_from(["f4", "f8"])))
    return sparse.csr_array((data, index, start), shape=(len(rows), width))


@given(matrices())
def test_rows_are_numbered_by_first_occurrence(matrix: sparse.csr_array) -> None:
    dense = matrix.toarray()
    number: dict[bytes, int] = {}
    expected = [number.setdefault(row.tobytes(), len(number)) for row in dense]
    kinds, kind = distinct_rows(matrix)
    assert kind.tolist() == expected
    assert kinds.shape == (len(number), matrix.shape[1])
    assert np.array_equal(kinds.toarray()[kind], dense)


def test_a_hundred_thousand_unlike_rows_stay_apart() -> None:
    n = 100_000
    index = np.stack([np.arange(n) % 317, 317 + np.arange(n) // 317], axis=1).ravel()
    matrix = sparse.csr_array((np.ones(2 * n), index, 2 * np.arange(n + 1)))
    twice = sparse.csr_array(sparse.vstack([matrix, matrix], format="csr"))
    assert distinct_rows(twice)[1].tolist() == [*range(n), *range(n)]
