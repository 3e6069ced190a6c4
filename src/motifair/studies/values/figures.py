"""Figures of the study: how near valuations are to the truth, and pay against truth."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from motifair.studies import drawing
from motifair.studies.values.measures import OTHER_TEST, RELIABILITY

SHOWN = ("pay of motifair", "pay of motifair 0.1", "size")
OURS, OTHERS = "tab:blue", "0.55"
COMPARED = {  # valuation: its name, colour, marker, and whether it is hollow
    RELIABILITY: ("two trainings of the truth", "0.35", "s", False),
    OTHER_TEST: ("two, on other test graphs", "0.35", "s", True),
    SHOWN[0]: ("pay", drawing.BLUE, "o", False),
    SHOWN[2]: ("numbers of graphs", drawing.ORANGE, "^", True),
}


def nearness(summary: pd.DataFrame) -> Figure:
    """Draw the mean rank correlation of each valuation with its interval, best on top."""
    rows = summary.sort_values("rank", ignore_index=True)
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    colours = [OURS if name.startswith("pay of motifair") else OTHERS for name in rows["valuation"]]
    axes.hlines(rows.index, rows["rank_low"], rows["rank_high"], colors=colours)
    axes.scatter(rows["rank"], rows.index, c=colours, zorder=3)
    axes.set_yticks(rows.index, rows["valuation"])
    axes.axvline(0, color="0.85", zorder=0)
    axes.set_xlabel("rank correlation with Shapley values by retraining, mean over splits")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


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
            drawn = {"s": 9, "alpha": 0.6, "label": scenario, "rasterized": True}
            place.scatter(points["truth"], points["share"], **drawn)
        place.set_title(name)
        place.set_xlabel("share of the Shapley value by retraining")
    axes[0].set_ylabel("share of pay, or of graphs")
    axes[-1].legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def by_scenario(ranks: pd.DataFrame) -> Figure:
    """Draw how near pay and numbers of graphs are to the truth in each scenario, beside how near
    two trainings of the truth are to each other.
    """
    figure, (axes,) = drawing.panels(1, width=9, height=5.5)
    scenarios = list(dict.fromkeys(ranks["scenario"]))
    for k, (valuation, (label, colour, marker, hollow)) in enumerate(COMPARED.items()):
        part = ranks[ranks["valuation"] == valuation].set_index("scenario").reindex(scenarios)
        frame = part.rename(columns={"rank": "mean", "rank_low": "low", "rank_high": "high"})
        places = [row + 0.18 * (k - 1.5) for row in range(len(scenarios))]
        drawing.dots(axes, places, frame, label=label, colour=colour, marker=marker, hollow=hollow)
    axes.axvline(0, color=drawing.GREY, lw=1)
    drawing.name_rows(axes, scenarios)
    axes.set_xlabel("rank correlation with the truth, mean over splits with 95 % interval")
    drawing.legend_outside(figure, axes)
    return figure
