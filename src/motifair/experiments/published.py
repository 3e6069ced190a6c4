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


def published(dataset: str, method: str, metric: str) -> float:
    """Return the published figure, or NaN if there is none.

    >>> published("PROTEINS", "fedavg", "fairness")
    0.7
    """
    if method not in NAMES or metric not in METRICS:
        return math.nan
    table = published_table()
    rows = table[
        (table.dataset == dataset)
        & (table.method == NAMES[method])
        & (table.metric == METRICS[metric])
    ]
    return float(rows["mean"].iloc[0]) if len(rows) else math.nan
