"""The search for the default profile: one option changed at a time, on separate splits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from motifair.evaluation.statistics import mean_interval, paired_difference
from motifair.experiments.plan import Plan
from motifair.experiments.result import Result
from motifair.studies.harm import TIERS
from motifair.studies.payoff import paid_splits, spearman
from motifair.studies.rows import measured
from motifair.studies.study import DATASETS, Settings, Study, StudyResult

SEARCH, PAYOFF_SEARCH = 10_000, 30_000
SPLITS = {"PROTEINS": 40, "IMDB-BINARY": 40, "DD": 20}
TIERED = ("PROTEINS", "IMDB-BINARY", "DD", "planted")
BASELINES = ("fedavg", "cffl")

# The options in which each variant differs from the default profile.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "retention=0.1": {"retention": 0.1},
    "retention=0.1 instead of own_weight": {"retention": 0.1, "own_weight": 0.0},
    "aggregate_length=mean": {"aggregate_length": "mean"},
    "aggregate_length=mean, reward_step=2": {"aggregate_length": "mean", "reward_step": 2.0},
    "own_weight=0": {"own_weight": 0.0},
    "own_weight=0.2": {"own_weight": 0.2},
    "own_weight=0.4": {"own_weight": 0.4},
    "own_weight=0.5": {"own_weight": 0.5},
    "prototype_weight=0": {"prototype_weight": 0.0},
    "prototype_weight=1": {"prototype_weight": 1.0},
    "value_rate=0.05": {"value_rate": 0.05},
    "value_rate=0.3": {"value_rate": 0.3},
    "diversity_weight=0.1": {"diversity_weight": 0.1},
    "diversity_weight=1": {"diversity_weight": 1.0},
    "alignment_against=all": {"alignment_against": "all"},
    "alignment_against=others": {"alignment_against": "others"},
    "alignment_against=peers": {"alignment_against": "peers"},
    "alignment_against=peers-by-value": {"alignment_against": "peers-by-value"},
    "alignment_rate=0.1": {"alignment_rate": 0.1},
    "size=claimed": {"size": "claimed"},
    "chance=false": {"chance": False},
    "aggregation=value": {"aggregation": "value"},
    "aggregation=size": {"aggregation": "size"},
    "beta=inf": {"beta": math.inf},
    "share=conv": {"share": "conv"},
}


def run(settings: Settings) -> StudyResult:
    """Compare all variants by accuracy on clean data, and by payoffs on quality tiers."""
    clean = [_clean(settings, d) for d in settings.datasets or DATASETS]
    tiers = [_tiers(settings, d) for d in settings.datasets or TIERED]
    return StudyResult(
        "The search for the default profile",
        {"search": pd.concat(clean), "search-tiers": pd.concat(tiers)},
        notes=(
            "One option changed at a time. Differences are paired over splits, with the lower end "
            "of the 95 % interval. Nothing here is a claim: these splits served to choose.",
        ),
    )


def _clean(settings: Settings, dataset: str) -> pd.DataFrame:
    splits = SPLITS.get(dataset, 20)
    plans = {m: settings.plan(dataset, seed=SEARCH, splits=splits, method=m) for m in BASELINES}
    plans |= _plans(settings, dataset, SEARCH, splits)
    results = settings.execute(f"search-{dataset}", plans, "fedavg").results
    return pd.DataFrame([{"dataset": dataset, **_row(r, n, results)} for n, r in results.items()])


def _tiers(settings: Settings, dataset: str) -> pd.DataFrame:
    plans = _plans(settings, dataset, PAYOFF_SEARCH, 20, perturbation="tiers")
    results = settings.execute(f"search-tiers-{dataset}", plans).results
    return pd.DataFrame(
        [{"dataset": dataset, "variant": n, **paid(plans[n], r)} for n, r in results.items()]
    )


def _plans(
    settings: Settings, dataset: str, seed: int, splits: int, **options: Any
) -> dict[str, Plan]:
    return {
        name: settings.plan(dataset, seed=seed, splits=splits, **{**options, **changed})
        for name, changed in VARIANTS.items()
    }


def _row(result: Result, name: str, results: Mapping[str, Result]) -> dict[str, Any]:
    """Return the means of one variant and its differences to FedAvg, and to CFFL in fairness."""
    row: dict[str, Any] = {"variant": name}
    for metric in ("personalised_accuracy", "global_accuracy", "fairness"):
        pair = paired_difference(measured(result, metric), measured(results["fedavg"], metric))
        row |= {
            metric: result.mean[metric],
            f"{metric} − fedavg": pair.mean,
            f"{metric} − fedavg_low": pair.low,
        }
    pair = paired_difference(measured(result, "fairness"), measured(results["cffl"], "fairness"))
    row |= {"fairness − cffl": pair.mean, "fairness − cffl_low": pair.low}
    return row


def paid(plan: Plan, result: Result) -> dict[str, float]:
    """Return the mean payoff per round by tier, and its rank correlation with data quality."""
    splits = paid_splits(plan, result)
    return {t: mean_interval([s.of(t).mean() for s in splits])[0] for t in TIERS} | {
        "rank correlation": mean_interval([spearman(s) for s in splits])[0],
        "personalised_accuracy": result.mean["personalised_accuracy"],
        "global_accuracy": result.mean["global_accuracy"],
    }


STUDY = Study("search", "one option of the default profile changed at a time", run)
