"""Does low-quality data harm a federation? FedAvg trained without each quality tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TypeVar

import numpy as np
import pandas as pd

from motifair.evaluation.statistics import paired_difference
from motifair.experiments.plan import Plan, split_data
from motifair.experiments.result import Result
from motifair.federation.history import History
from motifair.federation.members import Members, prepare
from motifair.studies.intervals import SHARE, with_interval
from motifair.studies.stacks import Stages, Training, train
from motifair.studies.study import Settings, runs_folder

TIERS = ("low", "medium", "high")

T = TypeVar("T")


def harm_table(settings: Settings, dataset: str, plan: Plan, together: Result) -> pd.DataFrame:
    """Return the global accuracy of FedAvg with all agents and without each tier.

    `together` is FedAvg with all agents on the splits of `plan`; differences are paired over
    splits. The table also has the accuracy alone of the agents of the tier, on clean test graphs.
    """
    left = without_tiers(settings, plan, f"{runs_folder(plan)}-without")
    everyone = [float(s.history.global_accuracy[-1]) for s in together.splits]
    rows = []
    for tier in TIERS:
        others = [float(h.global_accuracy[-1]) for h in left[tier]]
        lost = paired_difference(everyone, others)
        alone = [s.alone[np.array(s.roles) == tier].mean() for s in together.splits]
        rows.append(
            {
                "dataset": dataset,
                "tier": tier,
                "with everyone": float(np.mean(everyone)),
                "without the tier": float(np.mean(others)),
                "difference": lost.mean,
                "difference_low": lost.low,
                "difference_high": lost.high,
                "p": lost.p,
                "the tier": effect(lost.low, lost.high),
                **with_interval("alone", alone, SHARE),
            }
        )
    return pd.DataFrame(rows)


def without_tiers(settings: Settings, plan: Plan, folder: str) -> dict[str, list[History]]:
    """Train the planned method without the agents of each tier, on every split."""

    @cache  # shared by the three federations of a split
    def members(number: int) -> Members:
        split = split_data(plan, number)
        return prepare(plan.config, split, seed=plan.config.seed + number)

    def rest(number: int, tier: str) -> Stages:
        whole = members(number)
        return (without(whole, [k for k, role in enumerate(whole.split.roles) if role == tier]),)

    numbers = range(plan.config.splits)
    trainings = [
        Training(k, f"without-{tier}", partial(rest, k, tier)) for tier in TIERS for k in numbers
    ]
    histories = train(settings, plan, folder, trainings)
    return {t: histories[n * len(numbers) :][: len(numbers)] for n, t in enumerate(TIERS)}


def without(members: Members, away: Sequence[int]) -> Members:
    """Remove agents; model, initial weights and the random streams of the others stay the same.

    Only for methods without motifs and lent graphs, which would have to be computed again.
    """
    assert members.index is None
    assert len(members.lent) == 0

    def stay(parts: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(part for k, part in enumerate(parts) if k not in away)

    split = members.split
    shares = split.partition
    partition = replace(
        shares, names=stay(shares.names), train=stay(shares.train), test=stay(shares.test)
    )
    return replace(
        members,
        split=replace(
            split, partition=partition, roles=stay(split.roles), damage=stay(split.damage)
        ),
        numbers=stay(members.numbers),
        train=stay(members.train),
        test=stay(members.test),
    )


def effect(low: float, high: float) -> str:
    """Classify a tier by the interval of (accuracy with the tier − without it).

    >>> effect(0.01, 0.03), effect(-0.03, -0.01), effect(-0.01, 0.01)
    ('helps', 'harms', 'cannot be told')
    """
    return "helps" if low > 0 else "harms" if high < 0 else "cannot be told"
