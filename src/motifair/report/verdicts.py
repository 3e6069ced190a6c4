"""The verdict on top of a page: one to three sentences that follow from its numbers.

A sentence never says more than its figures do: a gain is called one where its interval, or the
second training alone, leaves no doubt; what cannot be judged is said to be so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from motifair.evaluation.fairness import ROUNDING
from motifair.experiments.caveats import accuracy_caveats
from motifair.experiments.comparison import Comparison
from motifair.experiments.result import Result
from motifair.experiments.split_result import SplitResult
from motifair.experiments.tables import SIGNIFICANT, TITLES
from motifair.table import interval

if TYPE_CHECKING:  # with them comes torch, which the verdict on a run does not need
    from motifair.report.source import Source
    from motifair.report.timeline import Timeline
    from motifair.statements.payment import Payment
    from motifair.statements.statement import Statement

MOST_NAMES = 3
EQUAL = 0.005  # a payoff that differs by less from an equal share rounds to it
SAME = 1e-9  # totals of payoffs that differ by less are equal


def verdict_on_run(result: Result) -> tuple[str, ...]:
    """Say whether federating was worth it, for whom, and who was paid most and least."""
    sentences = (_worth(result), _who_gains(result), _who_is_paid(result))
    return tuple(sentence for sentence in sentences if sentence)


def verdict_on_comparison(comparison: Comparison) -> tuple[str, ...]:
    """Say which method is best by each metric, and whether it can be told from the baseline."""
    frame = comparison.to_frame()
    sentences = []
    for metric, title in TITLES.items():
        rows = frame[(frame["metric"] == metric) & frame["mean"].notna()]
        if metric == "global_accuracy" or rows.empty:
            continue
        best = rows.sort_values("mean", ascending=False, kind="stable").iloc[0]
        judged, ends = comparison.first.metric, (best["mean"], best["low"], best["high"])
        if metric == "personalised_accuracy":
            title, ends = judged.words, judged.interval(*ends)
        words = f"Best by {title}: {best['method']} ({interval(*ends)})"
        if best["method"] != comparison.baseline and not math.isnan(best["difference"]):
            told = "" if best["p_holm"] < SIGNIFICANT else "not significantly "
            side = "below" if judged.is_error and title == judged.words else "above"
            words += f", {told}{side} {comparison.baseline} by {best['difference']:.3f}"
        sentences.append(f"{words}.")
    gain = comparison.results[comparison.baseline].mean["gain"]
    sentences.append(f"{comparison.baseline} itself gains {gain:+.3f} over training alone.")
    return tuple(sentences)


def verdict_on_deployed(source: Source, timeline: Timeline) -> tuple[str, ...]:
    """Say whether the books of a federation fit, who was paid, and who was missing or harmed."""
    done, verdict = len(timeline.rounds), source.verdict
    if verdict is not None and not verdict.fits:
        return (f"The ledger does not fit ({verdict.finding}): pay nothing by this page.",)
    if not done:
        return ("No round is settled yet.",)
    total = np.nansum(timeline.columns["payoff"], axis=0)
    paid = most_and_least(timeline.agents, total, timeline.currency)
    books = f"The ledger is verified, {done} of {source.terms.rounds} rounds are done. {paid}"
    value = timeline.columns["value"]
    harmed = [a for a, v in zip(timeline.agents, value.T, strict=True) if np.nanmin(v) < 0]
    missed = [a for a, s in zip(timeline.agents, timeline.status.T, strict=True) if (s > 0).any()]
    unpaid = [a for a, paid in zip(timeline.agents, total, strict=True) if not paid]
    last = source.entries[-1]
    fined = [x.agent for x in last.lines if last.kind == "audit" and x.payoff]
    look = look_at(
        {
            "was fined by an audit": fined,
            "had a negative value": harmed,
            "was paid nothing": unpaid,
            "missed rounds": missed,
        }
    )
    worth = "Whether federating was worth it is not known here: nobody measures what members do "
    return (
        books,
        *([look] if look else []),
        f"{worth}alone.",
    )


def verdict_on_statement(s: Statement) -> str:
    """Say what a member was paid beside an equal share, and why."""
    paid = f"You were paid {s.money(s.payoff)} {s.currency}"
    rounds = [p for p in s.rounds if p.kind == "round"]
    settled = [p for p in rounds if p.settled and p.status == "present"]
    if not s.equal:
        return f"{paid}: no round in which you were present is settled."
    share = s.payoff / s.equal - 1
    away = len(rounds) - len(settled)
    missed = (
        f" In {away} of {len(rounds)} rounds you earned nothing; notes say why." if away else ""
    )
    if fine := -s.totals["fine"]:
        before = s.money(s.payoff + fine)
        return (
            f"{paid}: {before} for your updates, less a fine of {s.money(fine)}, since an audit "
            f"did not find graphs that you claimed.{missed}"
        )
    if "equal" in s.parts:
        return f"{paid}, as every member who was present: {s.method} pays all the same.{missed}"
    if abs(share) < EQUAL:
        return f"{paid}, about an equal share ({s.money(s.equal)}).{missed}"
    side = "above" if share > 0 else "below"
    words = f"{paid}, {100 * abs(share):.0f} % {side} an equal share ({s.money(s.equal)})"
    if not any(p.payoff or p.value for p in s.rounds):
        words = f"You were paid nothing (an equal share is {s.money(s.equal)} {s.currency})"
    return f"{words}: {_why(s, settled, share > 0)}.{missed}"


def _worth(result: Result) -> str:
    """Judge the mean gain by its interval over splits, or a single one by the second training."""
    mean, (low, high) = result.mean, result.ci95["gain"]
    splits = len(result.splits)
    metric = result.metric
    reached, alone = (metric.sign * mean[f"{m}_accuracy"] for m in ("personalised", "alone"))
    measured = f"{metric.words} {reached:.3f} instead of {alone:.3f} alone"
    if accuracy_caveats(result):
        return f"Whether federating is worth it cannot be told from this run ({measured})."
    if splits == 1:
        again = metric.sign * float(result.splits[0].alone_again.mean())
        return (
            f"On this one split federating brings {measured}; alone again it was {again:.3f}. "
            "More splits (--splits 5) tell whether that holds."
        )
    gain = f"gain {interval(mean['gain'], low, high)} over {splits} splits"
    if low > 0:
        return f"Federating is worth it on average: {measured}, {gain}."
    if high < 0:
        return f"Federating is not worth it on average: {measured}, {gain}."
    return f"Federating cannot be told from training alone: {measured}, {gain}."


def _who_gains(result: Result) -> str:
    """Count agents above, or below, both of their trainings alone."""
    if accuracy_caveats(result):
        return ""
    better, worse, every = 0, [], 0
    for split in result.splits:
        both = np.stack([split.alone, split.alone_again])
        better += int((split.accuracy > both.max(axis=0) + ROUNDING).sum())
        lost = split.accuracy < both.min(axis=0) - ROUNDING
        worse += [_called(split, k) for k in np.flatnonzero(lost).tolist()]
        every += len(split.names)
    names = f" ({name_some(worse)})" if worse and len(result.splits) == 1 else ""
    return (
        f"{better} of {every} agents do better than in both of their trainings alone, "
        f"{len(worse)} worse{names}."
    )


def _who_is_paid(result: Result) -> str:
    """Name the best and worst paid of a single split, or roles over several."""
    unit = "credits"
    if len(result.splits) == 1:
        split = result.splits[0]
        names = [_called(split, k) for k in range(len(split.names))]
        return most_and_least(names, split.history.columns["payoff"].sum(axis=0), unit)
    if not result.splits[0].roles:
        return ""
    paid = result.to_frame().groupby("role")["payoff"].mean()
    return most_and_least([f"{role} agents" for role in paid.index], paid.to_numpy(), unit)


def most_and_least(names: Sequence[str], total: np.ndarray, unit: str) -> str:
    """Say who was paid most and who least."""
    if np.ptp(total) < SAME:
        return f"All were paid the same, {_amount(total[0])} {unit}."
    best, worst = int(np.argmax(total)), int(np.argmin(total))
    return (
        f"Paid most: {names[best]} ({_amount(total[best])} {unit}); "
        f"least: {names[worst]} ({_amount(total[worst])})."
    )


def look_at(notable: Mapping[str, Sequence[str]]) -> str:
    """Name agents by what to look at, '' if there are none.

    >>> look_at({"missed rounds": ["a", "b"], "was paid nothing": []})
    'Look at who missed rounds: a; b.'
    """
    words = [f"{what}: {name_some(names)}" for what, names in notable.items() if names]
    return f"Look at who {'; '.join(words)}." if words else ""


def _why(s: Statement, settled: Sequence[Payment], above: bool) -> str:
    """Say when value and compensation were on this side of the average, and what a value is."""
    on_side = [p for p in settled if p.payoff != p.equal and (p.payoff > p.equal) is above]
    side = "above" if above else "below"
    where = f", with compensation, was {side} the average"
    if not any(p.value for p in settled):
        where = " was 0"
    words = f"{_since(on_side, settled)} your value{where}"
    if "value" not in s.parts:  # else the method has a rule of its own
        measured = [s.meaning["alignment"]]
        measured += [s.meaning["diversity"]] if "diversity" in s.parts else []
        words += re.sub(r"\bits\b", "your", f"; it measures {' and '.join(measured)}")
    if s.judged:
        when = " and ".join(f"round {number}" for number in s.judged)
        words += f". Before {when} the others judged a model that you trained alone"
    fined = [p for p in settled if p.value < 0]
    if fined:
        penalty = f"penalties of {s.money(-s.totals['penalty'])}"
        words += f". It was negative {_since(fined, settled)}, with {penalty}"
    return words


def _since(chosen: Sequence[Payment], of: Sequence[Payment]) -> str:
    """Say when: from a round on, where all later ones are chosen, else how often."""
    if len(chosen) == len(of):
        return "in every round"
    if chosen and list(of[-len(chosen) :]) == list(chosen):
        return f"from round {chosen[0].round} on"
    return f"in {len(chosen)} of {len(of)} rounds"


def _called(split: SplitResult, k: int) -> str:
    return split.names[k] + (f", {split.roles[k]}" if split.roles else "")


def name_some(names: Sequence[str]) -> str:
    """Return a few names, and how many more there are."""
    more = len(names) - MOST_NAMES
    return "; ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _amount(value: float) -> str:
    return f"{value:,.2f}"
