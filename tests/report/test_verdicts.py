"""Verdicts follow from the numbers, and never say more than they do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report_samples import made_up_source, made_up_split

from motifair.config import make_config
from motifair.experiments.comparison import Comparison
from motifair.experiments.result import Result
from motifair.report.timeline import timeline
from motifair.report.verdicts import (
    verdict_on_comparison,
    verdict_on_deployed,
    verdict_on_run,
    verdict_on_statement,
)
from motifair.statements.payment import Payment
from motifair.statements.statement import Statement
from motifair.statements.verification import Mismatch, Verdict

NAMES = ("a", "b", "c", "d")
ALONE = np.array([0.5, 0.6, 0.7, 0.8])


def made(*gains: float, test_graphs: int = 20, one_class: float = 0.0, **changed: Any) -> Result:
    """A split for each of `gains`, which every agent has over both of its trainings alone."""
    splits = []
    for k, gain in enumerate(gains):
        split = made_up_split(NAMES, 2, seed=k)
        split.history.columns["accuracy"][-1] = ALONE + gain
        split.history.columns["one_class"][-1] = one_class
        split.history.columns["payoff"] = np.array([[1.0, 2.0, 3.0, 4.0]] * 2)
        given = {"alone": ALONE, "alone_again": ALONE, "test_graphs": (test_graphs,) * 4}
        splits.append(replace(split, **{**given, **changed}))
    return Result(make_config({"agents": 4, "splits": len(splits)}), tuple(splits))


@pytest.mark.parametrize(
    ("result", "starts", "counted"),
    [
        (made(0.10, 0.11, 0.12), "Federating is worth it on average:", "12 of 12 agents do better"),
        (made(0.10, -0.1, 0.02), "Federating cannot be told from training alone:", "8 of 12"),
        (made(-0.10, -0.11, -0.12), "Federating is not worth it on average:", "12 worse."),
        (made(0.05), "On this one split federating brings accuracy 0.700 instead of 0.650", "4 of"),
        (made(0.0), "On this one split", "0 of 4 agents do better"),
        (made(-0.05), "On this one split", "4 worse (a; b; c and 1 more)."),
    ],
    ids=["gain", "no telling", "loss", "one split", "one split, no gain", "one split, loss"],
)
def test_worth_is_judged_by_the_interval_over_splits(
    result: Result, starts: str, counted: str
) -> None:
    said = " ".join(verdict_on_run(result))
    assert said.startswith(starts)
    assert counted in said
    if len(result.splits) > 1:
        low, high = result.ci95["gain"]
        assert f"gain {result.mean['gain']:.3f} [{low:.3f}, {high:.3f}] over 3 splits" in said


@pytest.mark.parametrize("doubt", [{"test_graphs": 2}, {"one_class": 1.0}], ids=str)
def test_nothing_is_judged_by_accuracies_that_mean_little(doubt: dict[str, Any]) -> None:
    said = verdict_on_run(made(0.1, 0.11, 0.12, **doubt))
    assert said[0].startswith("Whether federating is worth it cannot be told from this run")
    assert "worth it on average" not in " ".join(said)
    assert "better" not in " ".join(said)


def test_an_agent_between_its_two_trainings_alone_neither_gains_nor_loses() -> None:
    said = " ".join(verdict_on_run(made(0.05, alone_again=ALONE + 0.1)))
    assert "0 of 4 agents do better than in both of their trainings alone, 0 worse." in said


def test_who_is_paid_is_named_by_role_over_several_splits() -> None:
    one = verdict_on_run(made(0.0))[-1]
    assert one == "Paid most: d (8.00 credits); least: a (2.00)."
    roles = ("harmful", "good", "good", "good")
    several = verdict_on_run(made(0.0, 0.0, roles=roles))[-1]
    assert several == "Paid most: good agents (6.00 credits); least: harmful agents (2.00)."
    assert "Paid" not in " ".join(verdict_on_run(made(0.0, 0.0)))
    equal = made(0.0)
    equal.splits[0].history.columns["payoff"][:] = 1500.0
    assert verdict_on_run(equal)[-1] == "All were paid the same, 3,000.00 credits."


def test_a_comparison_says_what_is_significant_and_what_is_not() -> None:
    steps = np.linspace(0.0, 0.02, 12)
    base, better = made(*steps), made(*(steps + 0.15))
    near = made(*(steps + 0.01 * (-1.0) ** np.arange(12) + 0.001))
    clear = verdict_on_comparison(Comparison({"fedavg": base, "mine": better}, "fedavg"))
    assert clear[0].startswith("Best by accuracy: mine (")
    assert clear[0].endswith(", above fedavg by 0.150.")
    unclear = verdict_on_comparison(Comparison({"fedavg": base, "mine": near}, "fedavg"))
    assert "not significantly above fedavg" in unclear[0]
    own = verdict_on_comparison(Comparison({"fedavg": better, "mine": base}, "fedavg"))
    assert own[0].startswith("Best by accuracy: fedavg (")
    assert "above" not in own[0]


def test_a_ledger_that_does_not_fit_has_no_other_verdict() -> None:
    source = replace(made_up_source(), result=None, ledger="x")
    for verdict, words in (
        (
            Verdict("run", 3, 2, "", Mismatch(1, 1, "a", "payoff")),
            "pay nothing by this page",
        ),
        (Verdict("run", 3, 2, ""), "The ledger is verified, 30 of 30 rounds are done."),
    ):
        checked = replace(source, verdict=verdict)
        said = " ".join(verdict_on_deployed(checked, timeline(checked)))
        assert words in said
        assert ("Paid most" in said) is verdict.fits
        assert ("had a negative value: agent-04" in said) is verdict.fits


def paid(*rounds: tuple[int, int], value: int = 1, **changed: Any) -> Statement:
    """A statement of rounds with these payoffs, and what an equal share would have been."""
    payments = [
        Payment(
            round=t, number=t, hash="", settled=True, status="present", note="", value=value,
            value_parts=None, compensation=0, amounts={"alignment": payoff} if payoff else {},
            payoff=payoff, equal=equal, shapley=None, lean=None,
        )
        for t, (payoff, equal) in enumerate(rounds, start=1)
    ]  # fmt: skip
    made = Statement(
        run="r", agent="a", method="motifair", currency="EUR", digits=2, entries=1, head="",
        rounds=tuple(payments), alignments=("coverage",), motifs=None, sentences=(),
        verification=(),
    )  # fmt: skip
    return replace(made, **changed)


MEASURES = (
    "it measures what your graphs are worth to the others, as far as your updates stand for them."
)
VERDICTS = {
    "below from a round on": (
        paid((110, 100), (50, 100), (50, 100)),
        "You were paid 2.10 EUR, 30 % below an equal share (3.00): from round 2 on your value, "
        f"with compensation, was below the average; {MEASURES}",
    ),
    "above in some": (
        paid((150, 100), (90, 100), (150, 100)),
        "You were paid 3.90 EUR, 30 % above an equal share (3.00): in 2 of 3 rounds your value, "
        f"with compensation, was above the average; {MEASURES}",
    ),
    "below in all": (
        paid((50, 100), (50, 100)),
        "You were paid 1.00 EUR, 50 % below an equal share (2.00): in every round your value, "
        f"with compensation, was below the average; {MEASURES}",
    ),
    "nothing": (
        paid((0, 100), (0, 100), value=0, judged=(1,)),
        "You were paid nothing (an equal share is 2.00 EUR): in every round your value was 0; "
        f"{MEASURES} Before round 1 the others judged a model that you trained alone.",
    ),
    "nothing, under one name twice": (
        paid((0, 100), value=0, judged=(3, 7)),
        "You were paid nothing (an equal share is 1.00 EUR): in every round your value was 0; "
        f"{MEASURES} Before round 3 and round 7 the others judged a model that you trained alone.",
    ),
    "as all": (
        paid((1000, 1000), (1001, 1000)),
        "You were paid 20.01 EUR, about an equal share (20.00).",
    ),
    "unpaid": (
        paid((0, 0)),
        "You were paid 0.00 EUR: no round in which you were present is settled.",
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_a_statement_says_why_in_a_sentence(case: str) -> None:
    statement, sentence = VERDICTS[case]
    assert verdict_on_statement(statement) == sentence


def test_penalties_absences_and_equal_pay_are_named() -> None:
    fined = paid((50, 100), (-20, 100))
    first, last = fined.rounds
    last = replace(last, value=-1, amounts={"penalty": -20})
    said = verdict_on_statement(replace(fined, rounds=(first, last)))
    assert said.endswith("It was negative from round 2 on, with penalties of 0.20.")
    away = replace(last, status="absent", value=1, amounts={}, payoff=0, equal=0)
    said = verdict_on_statement(replace(fined, rounds=(first, away)))
    assert said.endswith("In 1 of 2 rounds you earned nothing; notes say why.")
    same = replace(first, amounts={"equal": 100}, payoff=100)
    said = verdict_on_statement(replace(fined, rounds=(same,), method="fedavg"))
    assert (
        said == "You were paid 1.00 EUR, as every member who was present: fedavg pays all the same."
    )
