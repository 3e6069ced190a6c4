"""Rows are numbered exactly, however large the labels in them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from motifair.motifs.extract import number_rows

LARGE = st.sampled_from([-(2**40), -1, 0, 1, 2**31, 2**32, 2**40 - 1, 2**40])


@given(st.integers(1, 9).flatmap(lambda w: st.lists(st.tuples(*[LARGE] * w), min_size=1)))
def test_rows_have_one_number_exactly_where_they_are_equal(rows: list[tuple[int, ...]]) -> None:
    code, first = number_rows(np.array(rows, dtype=np.int64))
    assert sorted(set(code.tolist())) == list(range(len(set(rows))))
    assert len({(int(c), r) for c, r in zip(code, rows, strict=True)}) == len(set(rows))
    for number, row in enumerate(first):
        assert code[row] == number
        assert rows.index(rows[row]) == row


def test_many_wide_rows_of_large_labels_do_not_overflow() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(2**40, size=(20_000, 16))
    rows[10_000:] = rows[:10_000]
    code, first = number_rows(rows)
    assert np.array_equal(code[:10_000], code[10_000:])
    assert len(first) == len(np.unique(code)) == 10_000


def test_no_rows_have_no_numbers() -> None:
    code, first = number_rows(np.zeros((0, 4), dtype=np.int64))
    assert len(code) == len(first) == 0
