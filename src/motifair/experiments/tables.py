"""A comparison as a table of text: cells, Markdown, LaTeX."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from motifair.experiments.compare import Comparison

TITLES = {
    "personalised_accuracy": "personalised",
    "global_accuracy": "global",
    "fairness": "fairness",
}
SIGNIFICANT = 0.05


def cells(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the header and, for each method, mean ± half interval, difference, published."""
    frame = comparison.to_frame()
    header = ["method"]
    for title in TITLES.values():
        header += [title, f"− {comparison.baseline}", "paper"]
    header += ["gain", "worst"]
    rows = []
    for method, result in comparison.results.items():
        row = [method]
        for metric in TITLES:
            found = frame[(frame.method == method) & (frame.metric == metric)].iloc[0]
            row += metric_cells(found, comparison.baseline)
        row += [f"{result.mean['gain']:+.3f}", f"{result.mean['worst_gain']:+.3f}"]
        rows.append(row)
    return header, rows


def metric_cells(row: pd.Series[Any], baseline: str) -> list[str]:
    """Return mean ± half interval, difference to the baseline, and the published figure."""
    return [_mean(row), _difference(row, baseline), _plain(row["published"])]


def note(comparison: Comparison) -> str:
    """Say what the figures are, and what the fairness is worth here."""
    first = comparison.first
    config = first.config
    return (
        f"{config.dataset}, splits {config.seed} to {config.seed + len(first.splits) - 1}, "
        f"{config.rounds} rounds, {config.agents} agents. Mean ± half of the 95 % interval over "
        f"splits; paired difference to {comparison.baseline}, * where Wilcoxon's p < 0.05 after "
        f"Holm's correction. Fairness: retest {first.mean['fairness_retest']:.3f}, bound "
        f"{first.fairness_bound:.3f}; gain over training alone: mean and worst agent."
    )


def to_markdown(comparison: Comparison) -> str:
    """Return the table as Markdown."""
    return f"{markdown_lines(*cells(comparison))}\n\n{note(comparison)}\n"


def markdown_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a header and rows of text as the lines of a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def to_latex(comparison: Comparison) -> str:
    """Return the table as a LaTeX tabular (needs booktabs)."""
    header, rows = cells(comparison)
    lines = [
        r"\begin{tabular}{l" + "r" * (len(header) - 1) + "}",
        r"\toprule",
        " & ".join(_escaped(h) for h in header) + r" \\",
        r"\midrule",
        *(" & ".join(_escaped(c) for c in row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        "% " + note(comparison),
    ]
    return "\n".join(lines) + "\n"


def _mean(row: pd.Series[Any]) -> str:
    if math.isnan(row["mean"]):
        return "-"
    half = (row["high"] - row["low"]) / 2
    return f"{row['mean']:.3f}" + ("" if math.isnan(half) else f" ± {half:.3f}")


def _difference(row: pd.Series[Any], baseline: str) -> str:
    if row["method"] == baseline or math.isnan(row["difference"]):
        return "-"
    star = "*" if row["p_holm"] < SIGNIFICANT else ""
    return f"{row['difference']:+.3f}{star}"


def _plain(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _escaped(text: str) -> str:
    words = {"±": r"$\pm$", "−": "$-$", "%": r"\%", "_": r"\_", "-": "-"}
    return "".join(words.get(c, c) for c in text)
