"""Tests of the paper's claims in words: for each a number, an interval and a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from motifair.evaluation.fairness import rank_fairness
from motifair.experiments.comparison import Comparison
from motifair.experiments.jobs import checkpoint_path
from motifair.experiments.plan import Plan, split_data
from motifair.experiments.split_result import SplitResult
from motifair.extras import require
from motifair.federation.members import prepare
from motifair.federation.state import load_state
from motifair.mechanism.diversity import diversity
from motifair.studies.intervals import CORRELATION, SHARE, verdict, with_interval
from motifair.studies.prototype_attack import SECRETS, Guess, attack
from motifair.studies.study import CONFIRMATION, Settings, Study, StudyResult, runs_folder

SPLITS = 20
MEASURED = 20  # rounds in which contributions are measured
LITTLE = 0.1  # largest share of a guess's error that prototypes may remove to reveal little
AT_MOST_1 = (-np.inf, 1.0)
WINDOW = 10  # rounds over which the loss is averaged to remove the noise of dropout

ON = ("PROTEINS", "IMDB-BINARY")
OUR_DIVERSITY, THE_PAPERS = "diversity", "the paper's diversity"
LATE = "agents that contribute late are the diverse ones"
LIFT = "prototypes lift agents of low value"
APART = "diversity keeps the agents' models apart"
FALLS = "the local loss falls in every round"
PRIVATE = "prototypes reveal little"


def run(settings: Settings) -> StudyResult:
    """Run the study."""
    require("studies", "The study of claims")
    tables = [explore(settings, dataset) for dataset in settings.datasets or ON]
    return StudyResult(
        "The paper's claims", {"claims": pd.concat(tables, ignore_index=True)}, {}, NOTES
    )


def explore(settings: Settings, dataset: str) -> pd.DataFrame:
    """Test every claim on one dataset."""
    measured = {"contribution": True, "eval_every": max(1, settings.rounds // MEASURED)}
    asked: dict[str, dict[str, Any]] = {
        "motifair": measured,
        "fedavg": measured,
        "motifair-prototypes": {},
        "motifair-diversity": {},
    }
    where = {"seed": CONFIRMATION, "splits": SPLITS}
    plans = {m: settings.plan(dataset, **where, method=m, **o) for m, o in asked.items()}
    literal = settings.plan(dataset, **where, method="motifair", profile="paper")
    folder = f"{runs_folder(plans['motifair'])}-claims"
    comparison = settings.execute(folder, plans, baseline="motifair")
    runs = settings.out / "runs" / folder
    rows = [
        *late_rows(comparison, literal),
        *lift_rows(comparison),
        *apart_rows(comparison, runs),
        *loss_rows(comparison),
        *private_rows(plans["motifair"], runs / "motifair"),
    ]
    return pd.DataFrame([{"dataset": dataset, **row} for row in rows])


NOTES = (
    "Each number is a mean over splits, its interval 95 % over splits. A claim holds (or does not) "
    "where the whole interval lies on its side of the limit; else it cannot be told.",
    "Late: how far contribution (or value, or alignment) in the second half of the rounds exceeds "
    "that in the first, correlated by rank over agents with their diversity: ours, of motifs "
    "beyond chance that two agents hold, and the paper's, of all motifs. Splits in which all "
    "agents are equally diverse, or equally late, do not count. Value contains diversity, "
    "contribution and alignment do not.",
    "Low value: the third of agents with the least mean value in the run without prototypes.",
    "The loss is the recorded one, under dropout: part of its ups and downs is chance, so means of "
    f"{WINDOW} rounds stand beside. The theorem wants another λ and learning rate in every round "
    "than the paper, or anybody, sets.",
    "Prototypes: those of the agents' final weights, which the server knows. It learns on its own "
    "graphs to tell a graph's size from f_ω(G) and applies that to prototypes, and it applies the "
    "agent's own classifier to them; `gained` is the share of the squared error of its guess "
    "without prototypes that this takes away (negative: they mislead). An attack that fails is no "
    "proof that none succeeds.",
)


def late_rows(comparison: Comparison, literal: Plan) -> list[dict[str, object]]:
    """Correlate diversity, ours and that of the paper, with how late agents contribute."""
    ours, plain = (comparison.results[m].splits for m in ("motifair", "fedavg"))
    held = {
        OUR_DIVERSITY: [s.history.columns["diversity"][-1] for s in ours],
        THE_PAPERS: [paper_diversity(literal, k) for k in range(len(ours))],
    }
    cases = {
        "contribution under fedavg": (plain, "contribution"),
        "contribution under motifair": (ours, "contribution"),
        "alignment under motifair": (ours, "alignment"),
        "value under motifair": (ours, "value"),
    }
    rows = []
    for whose, diversities in held.items():
        for name, (splits, column) in cases.items():
            values = [
                rank_fairness(d, lateness(s, column))
                for d, s in zip(diversities, splits, strict=True)
            ]
            rows.append(
                _row(LATE, f"correlation of {whose} with rise of {name}", values, above=0.0)
            )
    return rows


def paper_diversity(plan: Plan, number: int) -> np.ndarray:
    """Return d_i as in the paper: the share of all agents' motifs that each agent has, `(A,)`."""
    members = prepare(plan.config, split_data(plan, number), seed=plan.config.seed + number)
    index = members.index
    assert index is not None
    motif, agent = torch.as_tensor(index.motif), torch.as_tensor(index.agent)
    return diversity(motif, agent, len(members.train)).numpy()


def lateness(split: SplitResult, column: str) -> np.ndarray:
    """Return the mean of the second half of the rounds minus that of the first, `(A,)`."""
    rows = split.history.columns[column]
    known = rows[~np.isnan(rows).all(axis=1)]
    half = len(known) // 2
    later: np.ndarray = np.nanmean(known[half:], axis=0) - np.nanmean(known[:half], axis=0)
    return later


def lift_rows(comparison: Comparison) -> list[dict[str, object]]:
    """Measure the effect of prototypes on the accuracy of agents of low value, and of the rest."""
    lowest, beyond = [], []
    pairs = (comparison.results[m].splits for m in ("motifair", "motifair-prototypes"))
    for having, lacking in zip(*pairs, strict=True):
        value = lacking.history.columns["value"].mean(axis=0)
        low = np.argsort(value, kind="stable")[: max(1, len(value) // 3)]
        gain = having.accuracy - lacking.accuracy
        lowest.append(gain[low].mean())
        beyond.append(gain[low].mean() - np.delete(gain, low).mean())
    return [
        _row(LIFT, "accuracy with minus without prototypes, lowest third", lowest, above=0.0),
        _row(LIFT, "the same, minus that of the other agents", beyond, above=0.0),
    ]


def apart_rows(comparison: Comparison, folder: Path) -> list[dict[str, object]]:
    """Compare the distances between the agents' final models, with and without diversity."""
    numbers = range(len(comparison.first.splits))
    ours, without = (
        np.array([distance(final_weights(folder / method, k)) for k in numbers])
        for method in ("motifair", "motifair-diversity")
    )
    return [
        _row(APART, "mean distance of two agents' weights, with minus without", ours - without,
             above=0.0),
        _row(APART, "the same, relative to without", ours / without - 1, above=0.0),
    ]  # fmt: skip


def distance(weights: torch.Tensor) -> float:
    """Return the mean distance of two rows.

    >>> distance(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    5.0
    """
    return float(torch.pdist(weights.double()).mean())


def loss_rows(comparison: Comparison) -> list[dict[str, object]]:
    """Measure the share of rounds in which the local loss falls."""
    losses = [s.history.columns["loss"] for s in comparison.results["motifair"].splits]
    window = min(WINDOW, max(1, len(losses[0]) // 2))
    whole = len(losses[0]) // window * window
    smooth = [x[:whole].reshape(-1, window, x.shape[1]).mean(axis=1) for x in losses]
    # The claim is a share of 1; anything less is a counterexample.
    return [
        _row(FALLS, "share of rounds in which it falls", map(falls, losses), SHARE, above=0.999),
        _row(FALLS, f"the same for means of {window} rounds", map(falls, smooth), SHARE,
             above=0.999),
        _row(FALLS, f"mean of the last {window} rounds minus that of the first",
             [(x[-1] - x[0]).mean() for x in smooth], below=0.0),
    ]  # fmt: skip


def falls(losses: np.ndarray) -> float:
    """Return the share of steps in which losses `(rounds, agents)` fall.

    >>> falls(np.array([[3.0, 1.0], [2.0, 2.0], [1.0, 1.0]]))
    0.75
    """
    return float((np.diff(losses, axis=0) < 0).mean())


def private_rows(plan: Plan, folder: Path) -> list[dict[str, object]]:
    """Attack the prototypes of each split's final models."""
    guesses: list[dict[str, Guess]] = []
    single = []
    for number in range(plan.config.splits):
        split = split_data(plan, number)
        members = prepare(plan.config, split, seed=plan.config.seed + number)
        weights = final_weights(folder, number).to(plan.device)
        guesses.append(attack(plan.config, members, weights))
        count = [np.asarray(s.motifs.sum(axis=0)).ravel() for s in members.train]
        single.append(float((np.concatenate(count) == 1).mean()))
    rows = []
    for secret in SECRETS:
        of_secret = [g[secret] for g in guesses]
        gained = [g.gained for g in of_secret]
        what = f"{secret} of the graphs with a motif"
        rows += [
            _row(PRIVATE, f"{what}: gained", gained, AT_MOST_1, below=LITTLE),
            _row(PRIVATE, f"{what}: R² from prototypes", [g.r2[0] for g in of_secret], AT_MOST_1),
            _row(PRIVATE, f"{what}: R² without them", [g.r2[1] for g in of_secret], AT_MOST_1),
        ]
    rows.append(_row(PRIVATE, "share of prototypes that are one graph's own f_ω(G)", single, SHARE))
    return rows


def final_weights(folder: Path, number: int) -> torch.Tensor:
    """Read the agents' weights after the last round of a run, `(A, D)`."""
    path = checkpoint_path(folder, number, "method")
    return load_state(path, torch.device("cpu")).agents.weights


def _row(
    claim: str,
    measured: str,
    values: Iterable[float],
    within: tuple[float, float] = (-np.inf, np.inf),
    **limit: float,
) -> dict[str, object]:
    """Return a row of the table, with a verdict if there is a limit."""
    samples = list(values)
    if "correlation" in measured:
        within = CORRELATION
    mean, low, high = with_interval("mean", samples, within).values()
    return {
        "claim": claim, "measured": measured, "mean": mean, "low": low, "high": high,
        "splits": int(np.isfinite(samples).sum()),
        "verdict": verdict(low, high, **limit) if limit else "-",
    }  # fmt: skip


STUDY = Study("claims", "tests of the claims that the paper makes in words", run)
