"""The figures published in the paper, for comparison with ours."""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files

import pandas as pd

NAMES = {
    "self-train": "Self-train", "fedavg": "FedAvg", "fedprox": "FedProx", "fedsage": "FedSage",
    "gcfl": "GCFL", "gcfl+": "GCFL+", "fedstar": "FedStar", "dw": "DW", "eu": "EU", "cffl": "CFFL",
    "cgsv": "CGSV", "motifair": "ours", "motifair-alignment": "ours-gradient",
    "motifair-diversity": "ours-diversity", "motifair-allocation": "ours-model gradient",
    "motifair-aggregation": "ours-aggregation", "motifair-prototypes": "ours-prototype",
}  # fmt: skip
METRICS = {
    "personalised_accuracy": "personalized_accuracy",
    "global_accuracy": "global_accuracy",
    "fairness": "model_gradient_fairness",
}


@cache
def published_table() -> pd.DataFrame:
    """Return the published figures, one row for each table, dataset, method and metric."""
    with files("motifair.experiments").joinpath("published.csv").open() as file:
        return pd.read_csv(file, comment="#")


def published(dataset: str, method: str, metric: str, column: str = "mean") -> float:
    """Return the published figure, or with `std` what stands behind its ±; NaN if there is none.

    >>> [published("PROTEINS", "fedavg", "fairness", column) for column in ("mean", "std")]
    [0.7, 0.153]
    """
    table = published_table()
    rows = table[
        (table.dataset == dataset)
        & (table.method == NAMES.get(method))
        & (table.metric == METRICS.get(metric))
    ]
    return float(rows[column].iloc[0]) if len(rows) else math.nan
