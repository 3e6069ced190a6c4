"""The figure of pay against truth."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

SHOWN = ("pay of motifair", "pay of motifair 0.1", "size")


def pay_against_truth(table: pd.DataFrame) -> Figure:
    """Draw every agent's share of pay against its share of truth, a panel for each valuation."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplots(1, len(SHOWN), sharex=True, sharey=True)
    for place, name in zip(axes, SHOWN, strict=True):
        part = table[table["valuation"] == name]
        place.axhline(0, color="0.85", zorder=0)
        place.axvline(0, color="0.85", zorder=0)
        place.axline((0, 0), slope=1, color="0.6", linewidth=1, linestyle="--", zorder=0)
        for scenario, points in part.groupby("scenario", sort=False):
            place.scatter(points["truth"], points["share"], s=9, alpha=0.6, label=scenario)
        each = part.drop_duplicates(["dataset", "scenario", "split"])
        place.set_title(f"{name}: mean rank correlation {each['rank'].mean():.2f}", fontsize=10)
        place.set_xlabel("share of the Shapley value by retraining")
    axes[0].set_ylabel("share of pay or value")
    axes[-1].legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
