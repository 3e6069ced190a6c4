"""One picture of a run: values, payoffs, and accuracy alone against accuracy together."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from motifair.experiments.result import Result, SplitResult
from motifair.files import write_atomic
from motifair.report.colours import COLOURS, ROLE_COLOURS, ROLE_LINES

NAMED = 12


def save_overview(result: Result, path: Path) -> None:
    """Draw the first split of a result and write it as PNG."""
    figure = overview(result)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomic(path, buffer.getvalue())


def overview(result: Result) -> Figure:
    """Draw the first split: value over rounds, payoff summed up, accuracy together over alone."""
    split = result.splits[0]
    figure = Figure(figsize=(13, 4), layout="constrained", dpi=110)
    values, payoffs, accuracy = figure.subplots(1, 3)
    styles = _styles(split)
    rounds = np.arange(1, len(split.history.global_accuracy) + 1)
    for k, (colour, line, label) in enumerate(styles):
        history = split.history.columns
        values.plot(rounds, history["value"][:, k], color=colour, ls=line, lw=1.3, label=label)
        payoffs.plot(rounds, history["payoff"][:, k].cumsum(), color=colour, ls=line, lw=1.3)
        accuracy.scatter(split.alone[k], split.accuracy[k], color=colour, s=45, zorder=3)
    values.set(title="Value of each agent", xlabel="round", ylabel="value")
    values.axhline(1 / len(split.names), color="0.6", lw=0.8, ls=":")
    payoffs.set(title="Payoff, cumulative", xlabel="round", ylabel="payoff")
    payoffs.axhline(0, color="0.6", lw=0.8)
    lowest = min(split.alone.min(), split.accuracy.min())
    accuracy.plot([lowest, 1], [lowest, 1], color="0.6", lw=0.8, ls=":")
    fairness = split.metrics()["fairness"]
    accuracy.set(
        title=f"Accuracy: together over alone (fairness {fairness:.2f})",
        xlabel="trained alone",
        ylabel=f"in the federation ({result.config.method})",
    )
    handles, labels = values.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    if len(unique) <= NAMED:
        figure.legend(unique.values(), unique.keys(), loc="outside right center", frameon=False)
    figure.suptitle(f"{result.config.method} on {result.config.dataset}, seed {split.seed}")
    return figure


def _styles(split: SplitResult) -> list[tuple[str, str, str]]:
    """Colour, line and legend entry of each agent: by role where roles are known."""
    if split.roles:
        return [(ROLE_COLOURS[r], ROLE_LINES.get(r, ":"), r) for r in split.roles]
    lines = ("-", "--", "-.", ":")
    return [
        (COLOURS[k % len(COLOURS)], lines[k // len(COLOURS) % len(lines)], name)
        for k, name in enumerate(split.names)
    ]
