"""Tables of the study: valuations over splits, scenarios and datasets, and what roles are paid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from motifair.studies.intervals import CORRELATION, with_interval
from motifair.studies.values.measures import OTHER_TRUTHS
from motifair.studies.values.truth import Array

NOTHING = 1e-9  # of an equal share


def ranks(each: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the rank correlation with truth, its mean over splits, by some keys."""
    return pd.DataFrame(
        {
            **dict(zip(keys, key, strict=True)),
            **with_interval("rank", part["rank"], CORRELATION),
        }
        for key, part in each.groupby(keys, sort=False)
    )


def summary(each: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each valuation.

    The mean rank correlation, the mean in the worst dataset and scenario, in how many it is
    negative, the mean with other truths, the distance of shares from the truth, and how they
    spread where all agents are alike.
    """
    rows = []
    for name, part in each.groupby("valuation", sort=False):
        cells = part.groupby(["dataset", "scenario"])["rank"].mean()
        rows.append(
            {
                "valuation": name,
                **with_interval("rank", part["rank"], CORRELATION),
                "worst": float(cells.min()),
                "negative": f"{(cells < 0).sum()} of {len(cells)}",
                **{f"with {truth}": float(part[truth].mean()) for truth in OTHER_TRUTHS},
                "L1": float(part["l1"].mean()),
                "spread (iid)": float(part[part["scenario"] == "iid"]["spread"].mean()),
                "largest has most": float(part[part["scenario"] == "sizes"]["largest_most"].mean()),
            }
        )
    return pd.DataFrame(rows)


def roles_table(paid: pd.DataFrame) -> pd.DataFrame:
    """Return the mean share of a member by scenario and role: of pay, of the truth."""
    known = paid[paid["role"] != ""]
    means = known.groupby(["scenario", "role"], sort=False)[["share", "truth"]].mean()
    return means.reset_index().rename(columns={"share": "paid"})


def inverted_pay(roles: Sequence[str], paid: Array) -> dict[str, float]:
    """Return whether members with inverted labels have been paid least after 20 rounds, and what
    they are paid in round 40 and in the last, over an equal share; NaN where there are none.
    """
    inverted = np.array([role == "inverted" for role in roles], dtype=bool)
    if not inverted.any():
        return {"least": np.nan, "in 40": np.nan, "at the end": np.nan}
    soon = paid[:20].sum(axis=0)
    equal = paid.sum(axis=1, keepdims=True) / len(roles)
    relative = (paid / equal)[:, inverted].max(axis=1)
    return {
        "least": float(soon[inverted].max() <= soon[~inverted].min()),
        "in 40": float(relative[min(39, len(paid) - 1)]),
        "at the end": float(relative[-1]),
    }


def inverted_table(paid: pd.DataFrame) -> pd.DataFrame:
    """Return in which share of the splits inverted labels are found out, by dataset."""
    inverted = paid.dropna(subset="least")
    rows = [
        {
            "dataset": dataset,
            "splits": len(part),
            "paid least after 20 rounds": float(part["least"].mean()),
            "paid nothing in round 40": float((part["in 40"] <= NOTHING).mean()),
            "paid nothing at the end": float((part["at the end"] <= NOTHING).mean()),
        }
        for dataset, part in inverted.groupby("dataset", sort=False)
    ]
    return pd.DataFrame(rows)
