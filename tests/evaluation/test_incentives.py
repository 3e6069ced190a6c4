"""Rationality: who is not worse off than alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motifair.evaluation.incentives import rationality, rationality_retest

three = st.lists(st.tuples(*[st.integers(0, 10)] * 3), min_size=1, max_size=12).map(
    lambda rows: np.array(rows).T / 10
)


@given(three)
def test_rationality_counts_members_against_both_trainings_alone(rows: np.ndarray) -> None:
    """Counted in whole test graphs, where equal is exactly equal."""
    alone, again, federated = np.rint(10 * rows).astype(int).tolist()
    fine = [f >= a for f, a in zip(federated, alone, strict=True)]
    fine += [f >= a for f, a in zip(federated, again, strict=True)]
    assert rationality(*rows) == pytest.approx(sum(fine) / len(fine))


@given(three)
def test_neither_training_alone_is_preferred(rows: np.ndarray) -> None:
    alone, again, federated = rows
    assert rationality(alone, again, federated) == rationality(again, alone, federated)


@given(three)
def test_a_method_that_changes_nothing_scores_half_and_half_of_the_ties(rows: np.ndarray) -> None:
    alone, again, _ = rows
    ties = float((np.rint(10 * alone) == np.rint(10 * again)).mean())
    assert rationality_retest(alone, again) == pytest.approx(0.5 + ties / 2)


def test_rounding_makes_nobody_worse_off() -> None:
    assert rationality([0.1 + 0.2], [0.1 + 0.2], [0.3]) == 1.0
