"""The comparison of several methods on the same splits: its tables, and reading it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from motifair.errors import MotifairError
from motifair.evaluation.metrics import find_metric
from motifair.evaluation.statistics import holm, mean_ranks, paired_difference
from motifair.experiments.published import published
from motifair.experiments.result import COMPARISON, Result, load_result
from motifair.experiments.split_result import METRICS
from motifair.files import file_errors, read_json, write_atomic, write_json

COMPARED = ("personalised_accuracy", "global_accuracy", "fairness")
# Trainings alone are the same for all methods.
OTHER_MEASURES = tuple(
    m for m in METRICS if m not in (*COMPARED, "alone_accuracy", "fairness_retest")
)


@dataclass(frozen=True)
class Comparison:
    """Results of several methods on the same splits, as `compare` returns them.

    Shown as a table in a notebook.

    Attributes:
        results: the result of each method, by name.
        baseline: the method that the others are compared with.

    >>> import motifair
    >>> comparison = motifair.compare("PROTEINS", methods="fedavg,motifair")  # doctest: +SKIP
    >>> comparison.results["motifair"].mean["fairness"]  # doctest: +SKIP
    """

    results: Mapping[str, Result]
    baseline: str

    @property
    def first(self) -> Result:
        """The first result, to read what all of them have in common."""
        return next(iter(self.results.values()))

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each method and compared metric.

        Columns: `mean`, `low`, `high` over splits; `difference` to the baseline method with its
        bootstrap interval; `p_holm`, Wilcoxon's p after Holm's correction over methods; `rank`,
        the mean over splits; `published`, the paper's figure, or NaN.
        """
        frames = [self._metric_frame(metric) for metric in COMPARED]
        return pd.concat(frames, ignore_index=True)

    def measures(self) -> pd.DataFrame:
        """Return one row for each method with the measures in addition to the compared metrics."""
        rows = [
            {"method": m, **{k: r.mean[k] for k in OTHER_MEASURES}} for m, r in self.results.items()
        ]
        return pd.DataFrame(rows).set_index("method")

    @property
    def caveats(self) -> dict[str, tuple[str, ...]]:
        """Reasons why a method's fairness is unreliable, for the methods that have some."""
        return {name: r.caveats for name, r in self.results.items() if r.caveats}

    def _repr_html_(self) -> str:
        from motifair.experiments.notebook import comparison_html

        return comparison_html(self)

    def save(self, folder: str | Path) -> None:
        """Write the comparison as CSV, Markdown, LaTeX and JSON to a folder."""
        from motifair.experiments.tables import comparison_table

        folder = Path(folder)
        with file_errors():
            folder.mkdir(parents=True, exist_ok=True)
        table = comparison_table(self)
        write_atomic(folder / "comparison.csv", self.to_frame().to_csv(index=False))
        write_atomic(folder / "measures.csv", self.measures().to_csv())
        write_atomic(folder / "comparison.md", table.to_markdown() + "\n")
        write_atomic(folder / "comparison.tex", table.to_latex())
        write_json(folder / COMPARISON, self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as values that JSON can hold."""
        return {
            "dataset": self.first.config.dataset,
            "metric": self.first.config.metric,
            "baseline": self.baseline,
            "fairness_retest": self.first.mean["fairness_retest"],
            "fairness_bound": self.first.fairness_bound,
            "caveats": {name: list(sentences) for name, sentences in self.caveats.items()},
            "comparison": self.to_frame().to_dict("records"),
            "measures": self.measures().reset_index().to_dict("records"),
        }

    def _metric_frame(self, metric: str) -> pd.DataFrame:
        names = list(self.results)
        values = {m: [s.metrics()[metric] for s in r.splits] for m, r in self.results.items()}
        pairs = [paired_difference(values[m], values[self.baseline]) for m in names]
        tested = [
            p.p if m != self.baseline else float("nan") for m, p in zip(names, pairs, strict=True)
        ]
        rank = mean_ranks([values[m] for m in names])
        # What is published are accuracies, which do not compare with another metric.
        comparable = self.first.metric == find_metric("accuracy")
        dataset = self.first.config.dataset if comparable else ""
        rows = []
        for k, (method, p) in enumerate(zip(names, holm(tested), strict=True)):
            low, high = self.results[method].ci95[metric]
            rows.append(
                {
                    "metric": metric,
                    "method": method,
                    "mean": self.results[method].mean[metric],
                    "low": low,
                    "high": high,
                    "difference": pairs[k].mean,
                    "difference_low": pairs[k].low,
                    "difference_high": pairs[k].high,
                    "p_holm": p,
                    "rank": rank[k],
                    "published": published(dataset, method, metric),
                }
            )
        return pd.DataFrame(rows)


def paired_runs(results: dict[str, Result]) -> Comparison | None:
    """Return the comparison of runs on the same splits; None if they are not."""
    splits = {tuple(split.seed for split in result.splits) for result in results.values()}
    if len(results) < 2 or len(splits) > 1 or unlike(results):
        return None
    return Comparison(results, "fedavg" if "fedavg" in results else next(iter(results)))


def unlike(results: dict[str, Result]) -> list[str]:
    """Name what keeps runs from being compared split by split."""
    differing = []
    for name in ("dataset", "partition", "agents", "rounds", "seed", "splits"):
        values = sorted({str(getattr(r.config, name)) for r in results.values()})
        if len(values) > 1:
            differing.append(f"{name} ({', '.join(values)})")
    return differing


def is_comparison(folder: Path) -> bool:
    """Return whether a folder is that of a finished comparison."""
    return (folder / COMPARISON).exists()


def load_comparison(folder: str | Path) -> Comparison:
    """Load a finished comparison from the folder given as `out` or `--out`.

    Arguments:
        folder: the folder with a subfolder for each method.

    Returns:
        The comparison, equal to the one that was written.
    """
    methods, baseline = read_compared(Path(folder))
    return Comparison({name: load_result(Path(folder) / name) for name in methods}, baseline)


def read_compared(folder: Path) -> tuple[list[str], str]:
    """Return the methods of a finished comparison, in their order, and its baseline."""
    try:
        stored = read_json(folder / COMPARISON)
        return [row["method"] for row in stored["measures"]], stored["baseline"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MotifairError(
            f"{folder} holds no comparison of this version of motifair ({error}); run motifair "
            "compare again into another folder."
        ) from error
