"""Figure 1: contributions of agents, on graphs and images; and cosine against Shapley value."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from motifair.errors import MotifairError
from motifair.evaluation.fairness import fairness, rank_fairness
from motifair.evaluation.statistics import mean_interval
from motifair.experiments.plan import Plan
from motifair.experiments.result import Result
from motifair.studies.drawing import BLUE, GREEN, RED, panels
from motifair.studies.images import AGENTS, digits, image_contributions
from motifair.studies.intervals import CORRELATION, SHARE, with_interval
from motifair.studies.study import CONFIRMATION, Settings, Study, StudyResult, runs_folder

METHODS = ("fedavg", "motifair")
SPLITS = 20
MEASURED = 40  # rounds in which contributions are measured
COSINE = {"alignment_of": "update", "alignment_against": "all", "alignment_rate": 1.0}
IMAGES = "fedavg on images"

Maps = dict[str, np.ndarray]  # contributions by what was run: `(splits, measured rounds, agents)`


def run(settings: Settings) -> StudyResult:
    """Run the study."""
    dataset = (*settings.datasets, "PROTEINS")[0]
    plans = {m: _plan(settings, dataset, method=m, agents=AGENTS, partition="iid") for m in METHODS}
    first = next(iter(plans.values()))
    comparison = settings.execute(f"{runs_folder(first)}-contribution", plans)
    maps = {f"{m} on {dataset}": measured(r, "contribution") for m, r in comparison.results.items()}
    on_images, notes = _images(first)
    maps |= on_images
    agreement = _agreement(settings, dataset)
    tables = {"contribution": contribution_table(maps), "shapley": agreement_table(agreement)}
    rounds = measured_rounds(comparison.first)
    figures = {"contribution": draw(maps, rounds), "shapley": draw_agreement(agreement, rounds)}
    return StudyResult("What agents contribute", tables, figures, [*NOTES, *notes])


NOTES = (
    "c_i = (acc_N − acc_{−i}) / acc_{−i} on the server's test set, in the same round with and "
    "without the update of agent i; five agents with equal parts. A split's share of entries is "
    "one observation; intervals are 95 % over splits. `turns_positive`: agents whose mean is "
    "negative in the first third of the rounds and positive in the last. The map shows the first "
    "split.",
    "`shapley`: φ_i = cos(u_i, u_N) against the exact Shapley value of ν(S) = cos(u_S, u_N) over "
    "the ten agents of a round; `distance` is the mean absolute difference after both are scaled "
    "to add up to 1.",
)


def measured_rounds(result: Result) -> np.ndarray:
    """Return the rounds (counted from 1) in which contributions were measured."""
    known = ~np.isnan(result.splits[0].history.columns["shapley"]).all(axis=1)
    return np.flatnonzero(known) + 1


def measured(result: Result, column: str) -> np.ndarray:
    """Return a column in the measured rounds, `(splits, measured rounds, agents)`."""
    rows = measured_rounds(result) - 1
    return np.stack([s.history.columns[column][rows] for s in result.splits])


def contribution_table(maps: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return the shares of negative, zero and positive entries, with intervals over splits."""
    rows = []
    for name, entries in maps.items():
        shares = {
            "negative": [_share(s, s < 0) for s in entries],
            "zero": [_share(s, s == 0) for s in entries],
            "positive": [_share(s, s > 0) for s in entries],
            "negative_of_nonzero": [_share(s[s != 0], s[s != 0] < 0) for s in entries],
            "turns_positive": [turns_positive(s) for s in entries],
        }
        row: dict[str, object] = {"what": name, "splits": len(entries)}
        for what, values in shares.items():
            row |= with_interval(what, values, SHARE)
        rows.append(row)
    return pd.DataFrame(rows)


def turns_positive(entries: np.ndarray) -> float:
    """Return the share of agents that do harm at first and good at last, `(rounds, agents)`.

    >>> turns_positive(np.array([[-1.0, 1.0], [0.0, 1.0], [2.0, 1.0]]))
    0.5
    """
    third = max(1, len(entries) // 3)
    early, late = np.nanmean(entries[:third], axis=0), np.nanmean(entries[-third:], axis=0)
    return float(((early < 0) & (late > 0)).mean())


def agreement(result: Result) -> dict[str, np.ndarray]:
    """Compare φ with the exact Shapley value over agents, `(splits, measured rounds)` each."""
    cosine, exact = measured(result, "alignment"), measured(result, "shapley")
    pairs = [list(zip(c, e, strict=True)) for c, e in zip(cosine, exact, strict=True)]
    return {
        "pearson": np.array([[fairness(*pair) for pair in split] for split in pairs]),
        "spearman": np.array([[rank_fairness(*pair) for pair in split] for split in pairs]),
        "distance": np.abs(_shares(cosine) - _shares(exact)).mean(axis=-1),
    }


def agreement_table(agreement: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return the mean agreement over all rounds, the first third and the last third.

    A split is one observation.
    """
    rows = []
    for measure, values in agreement.items():
        third = max(1, values.shape[1] // 3)
        parts = {"all": values, "first third": values[:, :third], "last third": values[:, -third:]}
        for name, part in parts.items():
            means = [mean_interval(split)[0] for split in part]
            limits = (0.0, math.inf) if measure == "distance" else CORRELATION
            rows.append(
                {"measure": measure, "rounds": name, **with_interval("mean", means, limits)}
            )
    return pd.DataFrame(rows).rename(columns={"mean_low": "low", "mean_high": "high"})


def draw(maps: Mapping[str, np.ndarray], rounds: np.ndarray) -> Figure:
    """Draw the first split's contributions as maps, and the share of negative ones as bars."""
    figure, axes = panels(len(maps) + 1, width=3.6 * (len(maps) + 1), height=2.9)
    most = max(float(np.nanquantile(np.abs(entries[0]), 0.98)) for entries in maps.values())
    for axis, (name, entries) in zip(axes, maps.items(), strict=False):
        picture = _map(axis, entries[0], rounds, most or 1.0)
        axis.set_title(name, fontsize=10)
    figure.colorbar(picture, ax=axes[-2], label="contribution")
    _negative(axes[-1], contribution_table(maps))
    return figure


def draw_agreement(agreement: Mapping[str, np.ndarray], rounds: np.ndarray) -> Figure:
    """Draw the correlations of a round, with 95 % bands over splits."""
    figure, (axis,) = panels(1, width=5.5, height=3.2)
    for measure, colour, line in (("pearson", BLUE, "-"), ("spearman", RED, "--")):
        spread = [mean_interval(column) for column in agreement[measure].T]
        mean, low, high = (np.array(v) for v in zip(*spread, strict=True))
        low, high = low.clip(*CORRELATION), high.clip(*CORRELATION)
        axis.fill_between(rounds, low, high, color=colour, alpha=0.18, lw=0)
        axis.plot(rounds, mean, color=colour, ls=line, lw=1.4, label=measure)
    axis.set(xlabel="round", ylabel="correlation with Shapley value")
    axis.legend(frameon=False)
    return figure


def _map(axis: Axes, entries: np.ndarray, rounds: np.ndarray, most: float) -> QuadMesh:
    edges = np.concatenate([[rounds[0] - 1], rounds]) + 0.5
    agents = np.arange(entries.shape[1] + 1) + 0.5
    axis.grid(visible=False)
    axis.set(xlabel="round", ylabel="agent", yticks=agents[:-1] + 0.5)
    return axis.pcolormesh(edges, agents, entries.T, cmap="RdBu_r", vmin=-most, vmax=most)


def _negative(axis: Axes, table: pd.DataFrame) -> None:
    mean = table["negative"].to_numpy()
    reach = np.stack([mean - table["negative_low"], table["negative_high"] - mean])
    colours = (BLUE, GREEN, RED)[: len(table)]
    axis.bar(range(len(table)), mean, yerr=reach, capsize=3, width=0.6, color=colours)
    axis.set_xticks(
        range(len(table)), [w.replace(" on ", "\non ") for w in table["what"]], fontsize=8
    )
    axis.set(ylabel="share of negative entries", ylim=(0, None))


def _share(entries: np.ndarray, chosen: np.ndarray) -> float:
    known = ~np.isnan(entries)
    return float(chosen[known].mean()) if known.any() else math.nan


def _shares(values: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = values / values.sum(axis=-1, keepdims=True)
    return scaled


def _plan(settings: Settings, dataset: str, **options: object) -> Plan:
    given = {"contribution": True, "eval_every": max(1, settings.rounds // MEASURED), **options}
    return settings.plan(dataset, seed=CONFIRMATION, splits=SPLITS, **given)


def _agreement(settings: Settings, dataset: str) -> dict[str, np.ndarray]:
    plan = _plan(settings, dataset, method="motifair", **COSINE)
    return agreement(settings.execute(f"{runs_folder(plan)}-shapley", {"motifair": plan}).first)


def _images(plan: Plan) -> tuple[Maps, list[str]]:
    """Measure contributions on images; without scikit-learn return a note that it is missing."""
    try:
        images, labels = digits()
    except MotifairError as error:
        return {}, [f"No contrast on images: {error}"]
    c = plan.config
    seeds = range(c.seed, c.seed + c.splits)
    entries, final = image_contributions(
        images, labels, seeds=seeds, rounds=c.rounds, every=c.eval_every, device=plan.device
    )
    mean, low, high = with_interval("accuracy", final.tolist(), SHARE).values()
    note = (
        "Images: scikit-learn's digits in place of CIFAR-10, a network with one hidden layer; "
        f"final accuracy {mean:.3f} [{low:.3f}, {high:.3f}]."
    )
    return {IMAGES: entries}, [note]


STUDY = Study("contribution", "contributions of agents in each round (Figure 1)", run)
