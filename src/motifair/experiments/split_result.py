"""The result of a method on one data split, and its metrics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from motifair.evaluation.fairness import (
    correlation_interval,
    fairness,
    gini,
    jain,
    rank_fairness,
    worse_off,
)
from motifair.evaluation.incentives import SHARES, Giving, rationality, rationality_retest
from motifair.evaluation.metrics import find_metric
from motifair.federation.history import History

METRICS = (
    "personalised_accuracy", "global_accuracy", "fairness", "gain", "worst_gain", "worse_off",
    "rationality", "rationality_retest", "alone_accuracy", "fairness_retest", "rank_fairness",
    "payoff_gini", "payoff_jain", "value_payoff", "contribution_payoff", "uploaded", "downloaded",
    "accuracy_slope", "pay_slope", "free_rider_gain",
)  # fmt: skip


@dataclass(frozen=True)
class SplitResult:
    """One data split: accuracies of agents alone (twice) and in the federation, and payoffs.

    Where another `metric` was chosen, its scores stand in the place of accuracies, of which more is
    better: those of an error are negative.

    The two trainings alone use the same graphs as the method, but share no random numbers with it
    or with each other. Fairness, gain and `worse_off` are measured against the first, rationality
    against both.
    """

    seed: int
    names: tuple[str, ...]
    roles: tuple[str, ...]
    graphs: tuple[int, ...]
    test_graphs: tuple[int, ...]
    alone: np.ndarray
    alone_again: np.ndarray
    alone_one_class: np.ndarray
    history: History
    giving: Giving | None = None  # with the option `incentives`
    metric: str = "accuracy"

    @property
    def accuracy(self) -> np.ndarray:
        """Each agent's accuracy on its own test set after the last round."""
        final: np.ndarray = self.history.columns["accuracy"][-1]
        return final

    @property
    def one_class(self) -> np.ndarray:
        """Which agents predict the same class for all their test graphs after the last round."""
        final: np.ndarray = self.history.columns["one_class"][-1]
        return final

    @property
    def compensation_paid(self) -> np.ndarray:
        """Payments to each agent for late contribution, in money, `(rounds, agents)`.

        The history has μ_i itself, in units of value; it is paid B·μ_i / Σ_j max(p_j, 0), where the
        payoffs of a round add up to its budget B. E5 also distributes the penalties of others in
        the same proportions; they are not included.
        """
        value, bonus, payoff = (
            self.history.columns[n] for n in ("value", "compensation", "payoff")
        )
        paid = np.where(value < 0, 0.0, bonus)
        gains = np.where(value < 0, 0.0, value + bonus).sum(axis=1, keepdims=True)
        budget = payoff.sum(axis=1, keepdims=True)
        money: np.ndarray = np.divide(budget * paid, gains, out=np.zeros_like(paid), where=paid > 0)
        return money

    def metrics(self) -> dict[str, float]:
        """Return the metrics of this split, named as in `METRICS`."""
        gain = self.accuracy - self.alone
        payoff = self.history.columns["payoff"].sum(axis=0)
        return {
            "personalised_accuracy": float(self.accuracy.mean()),
            "global_accuracy": float(self.history.global_accuracy[-1]),
            "fairness": fairness(self.alone, self.accuracy),
            "gain": float(gain.mean()),
            "worst_gain": float(gain.min()),
            "worse_off": worse_off(
                self.alone, self.accuracy, errors=find_metric(self.metric).is_error
            ),
            "rationality": rationality(self.alone, self.alone_again, self.accuracy),
            "rationality_retest": rationality_retest(self.alone, self.alone_again),
            "alone_accuracy": float(self.alone.mean()),
            "fairness_retest": fairness(self.alone, self.alone_again),
            "rank_fairness": rank_fairness(self.alone, self.accuracy),
            "payoff_gini": gini(payoff),
            "payoff_jain": jain(payoff),
            "value_payoff": fairness(self.history.columns["value"].mean(axis=0), payoff),
            "contribution_payoff": fairness(
                known_mean(self.history.columns["contribution"]), payoff
            ),
            "uploaded": float(self.history.columns["uploaded"].mean()),
            "downloaded": float(self.history.columns["downloaded"].mean()),
            **self._incentives(),
        }

    def _incentives(self) -> dict[str, float]:
        giving = self.giving
        if giving is None:
            return dict.fromkeys(("accuracy_slope", "pay_slope", "free_rider_gain"), math.nan)
        alone = float(self.alone[giving.agent]), float(self.alone_again[giving.agent])
        return {
            "accuracy_slope": giving.accuracy_slope,
            "pay_slope": giving.pay_slope,
            "free_rider_gain": giving.free_rider_gain(*alone),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the metrics, the interval of the fairness over agents, and the seed.

        With `incentives` also what the member that gave less had, for each share that it gave.
        """
        metrics = self.metrics()
        interval = correlation_interval(metrics["fairness"], len(self.names))
        summary = {"seed": self.seed, **metrics, "fairness_ci95": list(interval)}
        if self.giving is not None:
            summary["giving"] = {
                "agent": self.names[self.giving.agent],
                "share": list(SHARES),
                "accuracy": list(self.giving.accuracy),
                "payoff": list(self.giving.payoff),
            }
        return summary

    def agents_frame(self) -> pd.DataFrame:
        """Return one row for each agent: data, value, rewards, payoffs and accuracies.

        `payoff` and `compensation`, which is part of it, are money, summed over rounds.
        """
        columns = self.history.columns
        frame: dict[str, Any] = {"agent": self.names}
        if self.roles:
            frame["role"] = self.roles
        return pd.DataFrame(
            {
                **frame,
                "graphs": self.graphs,
                "test_graphs": self.test_graphs,
                "value": columns["value"][-1],
                "mean_alignment": columns["alignment"].mean(axis=0),
                "diversity": columns["diversity"][-1],
                "mean_kept": columns["kept"].mean(axis=0),
                "payoff": columns["payoff"].sum(axis=0),
                "compensation": self.compensation_paid.sum(axis=0),
                "uploaded": columns["uploaded"].mean(axis=0),
                "downloaded": columns["downloaded"].mean(axis=0),
                "contribution": known_mean(columns["contribution"]),
                "accuracy": self.accuracy,
                "alone": self.alone,
                "alone_again": self.alone_again,
                "gain": self.accuracy - self.alone,
                "one_class": self.one_class,
                "alone_one_class": self.alone_one_class,
            }
        )


def known_mean(column: np.ndarray) -> np.ndarray:
    """Return each agent's mean over its rounds that are not NaN; NaN if there are none."""
    known = ~np.isnan(column)
    total = np.where(known, column, 0.0).sum(axis=0)
    mean: np.ndarray = total / np.where(known.any(axis=0), known.sum(axis=0), np.nan)
    return mean
