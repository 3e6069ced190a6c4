"""Figure 3(b): payoff by quality of data, for six payoff rules; harm of low-quality data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from motifair.evaluation.fairness import rank_fairness
from motifair.evaluation.statistics import mean_interval
from motifair.experiments.comparison import Comparison
from motifair.experiments.plan import Plan, split_data
from motifair.experiments.result import Result
from motifair.graphs.dataset import EMBEDDED
from motifair.mechanism.payoff import SIZE_PAYOFFS
from motifair.report.colours import ROLE_COLOURS
from motifair.studies.drawing import legend_outside
from motifair.studies.harm import TIERS, harm_table
from motifair.studies.intervals import CORRELATION, SHARE, with_interval
from motifair.studies.late import (
    Course,
    course_by_role,
    course_of_late,
    course_table,
    draw_courses,
    turning_points,
)
from motifair.studies.study import PAYOFF_CONFIRMATION, Settings, Study, StudyResult, runs_folder

ON = ("IMDB-BINARY", "DD", EMBEDDED, "PROTEINS")
SPLITS, LATE_SPLITS = 40, 20
ROLES = "planted, by role"
VALUED: dict[str, dict[str, Any]] = {"motifair": {}, "motifair-paper": {"profile": "paper"}}
LEAST_RANK_CORRELATION = 0.6
DIGITS = 12  # payoffs that differ by rounding alone are equal


@dataclass(frozen=True)
class Paid:
    """Payments of a rule to the agents of one split, `(A,)` each.

    Attributes:
        payoff: Mean payoff per round.
        fined: Share of rounds with a negative payoff.
        tier: Quality tier.
        intact: Share of edges that were not rewired, 1 − ρ.
    """

    payoff: np.ndarray
    fined: np.ndarray
    tier: np.ndarray
    intact: np.ndarray

    def of(self, tier: str) -> np.ndarray:
        """Return the payoffs of a tier."""
        chosen: np.ndarray = self.payoff[self.tier == tier]
        return chosen


def run(settings: Settings) -> StudyResult:
    """Run the study."""
    datasets = settings.datasets or ON
    paid: dict[str, dict[str, list[Paid]]] = {}
    harm = []
    for dataset, plans in {d: _plans(settings, d) for d in datasets}.items():
        fedavg = plans["fedavg"]
        comparison = settings.execute(runs_folder(fedavg), plans, baseline="fedavg")
        paid[dataset] = paid_by_rule(comparison, fedavg)
        harm.append(harm_table(settings, dataset, fedavg, comparison.results["fedavg"]))
    tables = {
        "tiers": pd.concat([tier_table(d, p) for d, p in paid.items()], ignore_index=True),
        "order": pd.concat([order_table(d, p) for d, p in paid.items()], ignore_index=True),
        "bar": pd.concat([bar_table(d, p) for d, p in paid.items()], ignore_index=True),
        "harm": pd.concat(harm, ignore_index=True),
    }
    figures = {"payoff": draw(paid)}
    courses, turns = _courses(settings, datasets)
    if courses:
        late = [course_table(where, c, settings.rounds) for where, c in courses.items()]
        tables["late"] = pd.concat(late, ignore_index=True)
        figures["late"] = draw_courses(courses, turns)
    raw = pd.concat([raw_table(d, p) for d, p in paid.items()], ignore_index=True)
    across = {"tiers": "tier"}
    return StudyResult("Payoff by quality of data", tables, figures, NOTES, {"splits": raw}, across)


NOTES = (
    "Tiers are drawn anew in each split; the mean over a tier's agents in a split is one "
    "observation, and intervals are 95 % over splits. The rules equal, individual, union and "
    "shapley look at numbers of training graphs alone; they pay every round the same.",
    "`order`: Spearman's correlation over agents of payoff with 1 − ρ, undefined where all are "
    "paid the same; and how often, over pairs, an agent of the high tier is paid more than one of "
    "the low tier (equal payoffs count half).",
    "`harm`: global accuracy of FedAvg with everyone minus without the agents of a tier; "
    "positive means that the tier helps, for all its rewired edges.",
    "`late`: on planted by role; on PROTEINS an agent whose training graphs are rewired throughout "
    "until some round (the vertical line), and clean afterwards.",
)


def paid_splits(plan: Plan, result: Result) -> list[Paid]:
    """Return the payments of a run to the agents of each split."""
    paid = []
    for number, split in enumerate(result.splits):
        payoff = split.history.columns["payoff"]
        intact = np.array([1 - d.rewired for d in split_data(plan, number).damage])
        fined = (payoff < 0).mean(axis=0)
        paid.append(Paid(payoff.mean(axis=0), fined, np.array(split.roles), intact))
    return paid


def paid_by_rule(comparison: Comparison, plan: Plan) -> dict[str, list[Paid]]:
    """Return the payments of each rule on each split.

    Rules by size do not change training and pay the same in all rounds, so they are computed here;
    only the two valuations were run.
    """
    paid = {rule: paid_splits(plan, comparison.results[rule]) for rule in VALUED}
    like = paid_splits(plan, comparison.first)
    for rule, pay in SIZE_PAYOFFS.items():
        fixed = [
            pay(torch.tensor(s.graphs), plan.config.budget).numpy() for s in comparison.first.splits
        ]
        paid[rule] = [
            replace(p, payoff=f, fined=np.zeros(len(f))) for p, f in zip(like, fixed, strict=True)
        ]
    return paid


def tier_table(dataset: str, paid: Mapping[str, Sequence[Paid]]) -> pd.DataFrame:
    """Return the mean payoff per round by rule and tier, and the share of negative payoffs."""
    rows = [
        {
            "dataset": dataset,
            "rule": rule,
            "tier": tier,
            **with_interval("payoff", [s.of(tier).mean() for s in splits]),
            **with_interval("negative", [s.fined[s.tier == tier].mean() for s in splits], SHARE),
        }
        for rule, splits in paid.items()
        for tier in TIERS
    ]
    return pd.DataFrame(rows)


def raw_table(dataset: str, paid: Mapping[str, Sequence[Paid]]) -> pd.DataFrame:
    """Return what each agent of each split was paid by the rules that value it."""
    rows = [
        pd.DataFrame({"dataset": dataset, "rule": rule, "seed": PAYOFF_CONFIRMATION + k, **vars(p)})
        for rule in VALUED
        for k, p in enumerate(paid[rule])
    ]
    return pd.concat(rows, ignore_index=True)


def order_table(dataset: str, paid: Mapping[str, Sequence[Paid]]) -> pd.DataFrame:
    """Return how well payoffs follow quality, for each rule."""
    rows = [
        {
            "dataset": dataset,
            "rule": rule,
            **with_interval("spearman", [spearman(s) for s in splits], CORRELATION),
            **with_interval("high_above_low", [chance_above(s) for s in splits], SHARE),
        }
        for rule, splits in paid.items()
    ]
    return pd.DataFrame(rows)


def bar_table(dataset: str, paid: Mapping[str, Sequence[Paid]]) -> pd.DataFrame:
    """Say which rules clear the bar: tiers in order and apart, and payoffs that follow quality."""
    needed = f"spearman at least {LEAST_RANK_CORRELATION}"
    rows = []
    for rule, splits in paid.items():
        tiers = tier_table(dataset, {rule: splits})
        low, medium, high = tiers["payoff"]
        apart = tiers["payoff_low"].iloc[-1] > tiers["payoff_high"].iloc[0]
        follows = mean_interval([spearman(s) for s in splits])[0] >= LEAST_RANK_CORRELATION
        checks = {
            "high above low, intervals apart": bool(apart),
            "medium between": bool(low < medium < high),
            needed: bool(follows),
        }
        rows.append({"dataset": dataset, "rule": rule, **checks, "all": all(checks.values())})
    return pd.DataFrame(rows)


def spearman(paid: Paid) -> float:
    """Return Spearman's correlation of payoff with 1 − ρ; NaN if all payoffs are equal."""
    return rank_fairness(paid.payoff.round(DIGITS), paid.intact)


def chance_above(paid: Paid) -> float:
    """Return P(payoff of a high-tier agent > that of a low-tier one); ties count half.

    >>> tier = np.array(["low", "high", "high"])
    >>> chance_above(Paid(np.array([0.2, 0.2, 0.3]), np.zeros(3), tier, np.zeros(3)))
    0.75
    """
    apart = (paid.of("high")[:, None] - paid.of("low")[None]).round(DIGITS)
    return float(((apart > 0) + 0.5 * (apart == 0)).mean())


def draw(paid: Mapping[str, Mapping[str, Sequence[Paid]]]) -> Figure:
    """Draw the mean payoff of a round as bars, by tier and rule, with intervals over splits."""
    figure = Figure(figsize=(10, 2.6 * len(paid)), layout="constrained", dpi=150)
    grid = figure.subplots(len(paid), 1, squeeze=False, sharex=True)[:, 0]
    for axis, (dataset, rules) in zip(grid, paid.items(), strict=True):
        _bars(axis, tier_table(dataset, rules), list(rules))
        axis.set(title=dataset, ylabel="payoff of a round")
        equal = 1 / len(next(iter(rules.values()))[0].payoff)
        axis.axhline(equal, color="0.5", lw=0.8, ls=":")
        axis.spines[["top", "right"]].set_visible(False)
    legend_outside(figure, grid[0])
    return figure


def _bars(axis: Axes, table: pd.DataFrame, rules: Sequence[str]) -> None:
    place = np.arange(len(rules))
    for n, tier in enumerate(TIERS):
        rows = table[table.tier == tier]
        mean = rows["payoff"].to_numpy()
        spread = np.stack([mean - rows["payoff_low"], rows["payoff_high"] - mean])
        axis.bar(
            place + (n - 1) * 0.27,
            mean,
            width=0.25,
            color=ROLE_COLOURS[tier],
            yerr=spread,
            capsize=2.5,
            error_kw={"lw": 1},
            label=f"{tier} quality",
        )
    axis.axhline(0, color="black", lw=0.8)
    axis.set_xticks(place, rules)


def _plans(settings: Settings, dataset: str) -> dict[str, Plan]:
    options = {m: {"method": "motifair", **o} for m, o in VALUED.items()}
    options["fedavg"] = {"method": "fedavg"}
    where = {"seed": PAYOFF_CONFIRMATION, "splits": SPLITS}
    return {
        m: settings.plan(dataset, **where, perturbation="tiers", **o) for m, o in options.items()
    }


def _courses(
    settings: Settings, datasets: Sequence[str]
) -> tuple[dict[str, Course], dict[str, int]]:
    """Return the courses of late agents on planted and PROTEINS, and the rounds they turn in."""
    courses: dict[str, Course] = {}
    turns: dict[str, int] = {}

    def plan(dataset: str) -> Plan:
        return settings.plan(
            dataset, seed=PAYOFF_CONFIRMATION, splits=LATE_SPLITS, method="motifair"
        )

    if EMBEDDED in datasets:
        chosen = plan(EMBEDDED)
        comparison = settings.execute(runs_folder(chosen), {"motifair": chosen})
        courses[ROLES] = course_by_role(comparison.first)
    if "PROTEINS" in datasets:
        chosen = plan("PROTEINS")
        folder = f"{runs_folder(chosen)}-late"
        for turn in turning_points(settings.rounds):
            where = f"PROTEINS, one agent clean from round {turn + 1} on"
            courses[where] = course_of_late(settings, chosen, folder, turn)
            turns[where] = turn
    return courses, turns


STUDY = Study("payoff", "payoff by quality of data, harm, and late contribution", run)
