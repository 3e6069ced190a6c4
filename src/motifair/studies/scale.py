"""The large dataset: Twitter's graphs if the user has them, otherwise named substitutes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from motifair.errors import MotifairError
from motifair.experiments.comparison import COMPARED, Comparison
from motifair.experiments.published import published
from motifair.graphs.generated import TWITTER_LIKE
from motifair.graphs.tu import locate
from motifair.studies.drawing import LINES, TITLES, dots, legend_outside, name_rows, panels
from motifair.studies.study import CONFIRMATION, Settings, Study, StudyResult

TWITTER = "TWITTER-Real-Graph-Partial"
METHODS = ("self-train", "gcfl", "cgsv", "motifair")
SPLITS = 3
ABOUT = {
    TWITTER: "the paper's dataset",
    "DBLP_v1": "another large dataset of small graphs",
    TWITTER_LIKE: "generated to Twitter's published statistics",
}


def run(settings: Settings) -> StudyResult:
    """Run the study."""
    datasets = settings.datasets or present(settings.data_dir)
    compared = settings.compare(
        datasets, METHODS, "self-train", lambda _: SPLITS, seed=CONFIRMATION
    )
    table = pd.concat([scale_table(c) for c in compared], ignore_index=True)
    return StudyResult("Many graphs", {"scale": table}, {"scale": draw(table)}, notes(datasets))


def present(data_dir: Path | None) -> tuple[str, ...]:
    """Return Twitter if its files are in the data folder, otherwise its substitutes."""
    if is_there(TWITTER, data_dir):
        return (TWITTER,)
    return (*(("DBLP_v1",) if is_there("DBLP_v1", data_dir) else ()), TWITTER_LIKE)


def is_there(dataset: str, data_dir: Path | None) -> bool:
    """Whether a dataset is in the data folder; nothing is downloaded."""
    try:
        return locate(dataset, data_dir) is not None
    except MotifairError:
        return False


def scale_table(comparison: Comparison) -> pd.DataFrame:
    """Return the metrics of each method with intervals, and the paper's numbers for Twitter."""
    dataset = comparison.first.config.dataset
    graphs = sum(comparison.first.splits[0].graphs)
    rows = []
    for method, result in comparison.results.items():
        for metric in COMPARED:
            low, high = result.ci95[metric]
            rows.append(
                {
                    "dataset": dataset,
                    "what it is": ABOUT.get(dataset, "the user's choice"),
                    "training graphs": graphs,
                    "method": method,
                    "metric": metric,
                    "mean": result.mean[metric],
                    "low": low,
                    "high": high,
                    "published for Twitter": published(TWITTER, method, metric),
                    "seconds": round(result.seconds, 1),
                }
            )
    return pd.DataFrame(rows)


def notes(datasets: tuple[str, ...]) -> list[str]:
    """Describe the table, and its limits if Twitter's graphs are missing."""
    words = [
        "Means over splits with 95 % intervals; the fairness of self-train is that of training "
        "alone against training alone again. Seconds are those of all splits of a method; training "
        "alone, which all methods are compared with, counts for the first."
    ]
    if datasets != (TWITTER,):
        words.append(
            f"{TWITTER} is not among the data here: put {TWITTER}.zip into the folder that "
            "--data-dir names to run on it. The published column is Twitter's; on other graphs "
            "only its order of methods can be compared, and of generated ones only the time."
        )
    return words


def draw(table: pd.DataFrame) -> Figure:
    """Draw each metric as dots with intervals, by dataset; the paper's numbers as crosses."""
    figure, axes = panels(len(COMPARED), width=11, height=3.2)
    for axis, metric in zip(axes, COMPARED, strict=True):
        rows = table[table.metric == metric]
        for n, (dataset, part) in enumerate(rows.groupby("dataset", sort=False)):
            places = [k + 0.18 * n for k in range(len(part))]
            dots(axis, places, part, label=str(dataset), colour=LINES[n])
        first = rows.drop_duplicates("method")
        axis.scatter(
            first["published for Twitter"],
            [k - 0.18 for k in range(len(first))],
            marker="x",
            color="black",
            label="published (Twitter)",
        )
        name_rows(axis, list(first["method"]))
        axis.set_xlabel(TITLES[metric])
    legend_outside(figure, *axes)
    return figure


STUDY = Study("scale", "very many small graphs (the Twitter table)", run)
