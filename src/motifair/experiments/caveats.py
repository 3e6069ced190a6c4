"""Reasons why measured accuracies and fairness are unreliable, as sentences to print with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from motifair.graphs.task import BINARY, REGRESSION

if TYPE_CHECKING:
    from motifair.experiments.result import Result

FEWEST_TEST_GRAPHS = 5  # with fewer, an accuracy changes in steps of more than .2
MOST_CONSTANT = 0.5  # share of models that predict one class


def accuracy_caveats(result: Result) -> tuple[str, ...]:
    """Return one sentence for each reason why accuracies, and so gains, mean little."""
    return tuple(filter(None, (check(result) for check in (_few_graphs, _constant))))


def fairness_caveats(result: Result) -> tuple[str, ...]:
    """Return one sentence for each reason why the fairness of a result is unreliable."""
    own = (check(result) for check in (_unreliable, _above_bound))
    return (*accuracy_caveats(result), *filter(None, own))


def _few_graphs(result: Result) -> str:
    typical = float(np.median([n for s in result.splits for n in s.test_graphs]))
    if typical >= FEWEST_TEST_GRAPHS:
        return ""
    return (
        f"Half of the agents are tested on {typical:g} graphs or fewer, so {_scores(result)} are "
        "too coarse to compare; use fewer agents, a larger test_fraction or more graphs."
    )


def _constant(result: Result) -> str:
    columns = {
        "in the federation": [s.one_class for s in result.splits],
        "alone": [s.alone_one_class for s in result.splits],
    }
    shares = {where: float(np.mean(np.concatenate(c))) for where, c in columns.items()}
    where, share = max(shares.items(), key=lambda pair: pair[1])
    if share < MOST_CONSTANT:
        return ""
    if result.config.task in (BINARY, REGRESSION):
        return (
            f"Trained {where}, {100 * share:.0f} % of the agents' models predict the same for all "
            f"their test graphs, so {_scores(result)} say nothing of these; train longer, or "
            "change learning_rate."
        )
    return (
        f"Trained {where}, {100 * share:.0f} % of the agents' models predict one class for all "
        f"their test graphs, so {_scores(result)} only say how common that class is; train longer, "
        "or change learning_rate."
    )


def _scores(result: Result) -> str:
    """Return what agents are judged by, in words."""
    words = result.metric.words
    return "accuracies" if words == "accuracy" else f"scores by {words}"


def _unreliable(result: Result) -> str:
    retest = result.mean["fairness_retest"]
    low = result.ci95["fairness_retest"][0]
    if not (retest <= 0 or low <= 0):  # NaN: unknown with one split, or undefined
        return ""
    return (
        f"Training alone twice does not agree on who is better (retest {retest:.3f}), so there is "
        "nothing that fairness could follow; use more test graphs or more splits."
    )


def _above_bound(result: Result) -> str:
    measured, bound = result.mean["fairness"], result.fairness_bound
    if not measured > bound:
        return ""
    return (
        f"The fairness {measured:.3f} is above its bound {bound:.3f}: with so few agents and "
        "splits both are uncertain by more than they differ."
    )
