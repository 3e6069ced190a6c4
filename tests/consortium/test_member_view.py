"""The sentence that tells a member whether federating is worth it says no more than its counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from motifair.consortium.member_view import Worth


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_gain_is_one_only_beyond_the_sign_test(better: int, worse: int) -> None:
    worth = Worth(100, 0.5, 0.5, 0.5, better, worse)
    both = better + worse
    expected = min(1.0, 2 * float(binom.cdf(min(better, worse), both, 0.5)))
    assert abs(worth.p - expected) < 1e-9
    said = str(worth)
    assert ("beyond chance" in said) == (expected < 0.05)
    assert ("a gain" in said) == (expected < 0.05 and better > worse)
    assert ("a loss" in said) == (expected < 0.05 and better < worse)
