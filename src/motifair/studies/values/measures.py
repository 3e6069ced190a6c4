"""How near the values of agents are to the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from motifair.studies.values.truth import TRUTHS, Array, shapley

RELIABILITY = "(reliability)"
OTHER_TEST = "(reliability, other test graphs)"
OTHER_TRUTHS = tuple(name for name in TRUTHS if name != "Shapley")


def measured(
    about: Mapping[str, Any],
    roles: tuple[str, ...],
    graphs: Array,
    utility: Array,
    values: Mapping[str, Array],
    halves: Array | None = None,
) -> pd.DataFrame:
    """Return a row for each valuation and agent of a split: its share, and how near all are.

    `utility` `(2, 2^A)` has two trainings. `rank` is the rank correlation with the mean of their
    Shapley values, a column of `OTHER_TRUTHS` that with another truth, `l1` is the distance between
    shares, `spread` the coefficient of variation, and `largest_most` whether the agent with most
    graphs has most. The first rows are those of the first training against the second, then those
    where each has half of the test graphs; `halves` `(2, 2, 2^A)` are both's utilities on each,
    and without them neither is there.
    """
    first, second = shapley(utility)
    others = {name: TRUTHS[name](utility) for name in OTHER_TRUTHS}
    rows = []
    if halves is not None:
        again = {name: rank_correlation(*two) for name, two in others.items()}
        rows.append(_rows(RELIABILITY, first, second, graphs).assign(**again))
        rows.append(_other_test(halves, graphs))
    for name, value in values.items():
        ranks = {k: rank_correlation(value, two.mean(axis=0)) for k, two in others.items()}
        rows.append(_rows(name, value, (first + second) / 2, graphs).assign(**ranks))
    table = pd.concat(rows, ignore_index=True)
    table.insert(0, "role", list(roles or ("",) * len(graphs)) * len(rows))
    for place, (name, value) in enumerate(about.items()):
        table.insert(place, name, value)
    return table


def _other_test(halves: Array, graphs: Array) -> pd.DataFrame:
    """Return the first training on one half of the test graphs against the second on the other."""
    one, other = halves[0, 0], halves[1, 1]
    again = {
        name: rank_correlation(TRUTHS[name](one), TRUTHS[name](other)) for name in OTHER_TRUTHS
    }
    return _rows(OTHER_TEST, shapley(one), shapley(other), graphs).assign(**again)


def _rows(name: str, value: Array, truth: Array, graphs: Array) -> pd.DataFrame:
    share, due = shares(value), shares(truth)
    return pd.DataFrame(
        {
            "valuation": name,
            "agent": np.arange(len(value)),
            "graphs": graphs,
            "share": share,
            "truth": due,
            "rank": rank_correlation(value, truth),
            "l1": np.abs(share - due).sum(),
            "spread": share.std(ddof=1) / abs(share.mean()),
            "largest_most": float(share.argmax() == graphs.argmax()),
        }
    )


def shares(value: Array) -> Array:
    """Return values as shares of the sum of their sizes: negative ones stay negative.

    >>> shares(np.array([3.0, -1.0])).tolist()
    [0.75, -0.25]
    """
    total = np.abs(value).sum()
    share: Array = value / total if total > 0 else np.full(len(value), 1 / len(value))
    return share


def rank_correlation(value: Array, truth: Array) -> float:
    """Return Spearman's rank correlation; 0 where all values are equal, which tell nothing.

    >>> rank_correlation(np.array([1.0, 1.0]), np.array([1.0, 2.0]))
    0.0
    """
    if np.ptp(value) <= 1e-12 * np.abs(value).max(initial=1e-300):
        return 0.0
    return float(spearmanr(value, truth).statistic)
