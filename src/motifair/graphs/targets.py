"""Targets of graphs as a matrix of numbers: several binary tasks, or values to regress.

One row for each graph, one column for each target, NaN where a label is missing.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BINS = 4  # strata of a regression: quarters of the graphs


def as_matrix(target: ArrayLike) -> Floats | None:
    """Return targets as a matrix `(graphs, T)`, or None if they are classes.

    Classes are a vector of whole numbers, or one column of 0 and 1 without a missing label.

    >>> as_matrix([0, 2, 1]) is None, as_matrix([[0.0], [1.0]]) is None
    (True, True)
    >>> as_matrix([0.5, np.nan]).tolist()
    [[0.5], [nan]]
    """
    given = np.asarray(target)
    if given.ndim == 1 and given.dtype.kind in "iub":
        return None
    values = given.astype(np.float64)
    if values.ndim == 1:
        whole = np.isfinite(values).all() and (values == np.floor(values)).all()
        return None if whole else values[:, None]
    if values.shape[1:] == (1,) and np.isin(values, (0.0, 1.0)).all():
        return None
    return values


def is_binary(values: Floats) -> bool:
    """Whether all known labels are 0 or 1.

    >>> is_binary(np.array([[0.0, np.nan], [1.0, 1.0]])), is_binary(np.array([[0.5]]))
    (True, False)
    """
    return bool((np.isnan(values) | (values == 0) | (values == 1)).all())


def strata(values: Floats) -> tuple[Ints, int]:
    """Return a stratum for each graph, and their number, for draws that keep parts alike.

    Partitions and hold-outs treat them as classes. Of binary tasks: 1 for a graph with a positive
    label, else 0. Of a regression: quarters of the graphs by the mean of their standardised
    targets; graphs without a label are in the first.

    >>> strata(np.array([[0.0, np.nan], [np.nan, 1.0]]))[0].tolist()
    [0, 1]
    >>> strata(np.array([[0.1], [0.2], [0.3], [0.4]]))[0].tolist()
    [0, 1, 2, 3]
    """
    if is_binary(values):
        return (values == 1).any(axis=1).astype(np.int64), 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of rows and columns without a label
        deviation = np.nanstd(values, axis=0)
        standard = (values - np.nanmean(values, axis=0)) / np.where(deviation > 0, deviation, 1.0)
        level = np.nan_to_num(np.nanmean(standard, axis=1), nan=-np.inf)
    rank = np.empty(len(level), dtype=np.int64)
    rank[np.argsort(level, kind="stable")] = np.arange(len(level))
    return rank * BINS // max(len(level), 1), BINS


def default_names(targets: int) -> tuple[str, ...]:
    """Return names of targets that have none.

    >>> default_names(1), default_names(2)
    (('y',), ('y0', 'y1'))
    """
    return ("y",) if targets == 1 else tuple(f"y{k}" for k in range(targets))
