"""The figures of a run, and of several runs compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from motifair.evaluation.fairness import correlation_interval
from motifair.evaluation.incentives import SHARES
from motifair.evaluation.metrics import Metric, find_metric
from motifair.evaluation.statistics import mean_interval
from motifair.experiments.result import Result
from motifair.experiments.split_result import SplitResult
from motifair.report.cast import CROWD, Cast, look
from motifair.report.charts import (
    Bars,
    Chart,
    Curve,
    Dots,
    HeatMap,
    Missing,
    Reference,
    Style,
    curve,
    in_columns,
)
from motifair.report.colours import CURVES
from motifair.report.source import Source
from motifair.report.timeline import STATUS, timeline

MOST_COLUMNS = 200  # of a heat map
MEAN = Style("ink", width=2.8)
SIMULATION = "only a simulation has it; between machines nobody measures what agents do alone."


def run_figures(source: Source, cast: Cast | None = None) -> list[Chart | Missing]:
    """Return all figures of a run, in the order in which they are read."""
    cast = cast or Cast.of(timeline(source))
    makers: list[Callable[[Source, Cast], Chart | Missing | None]] = [
        accuracy, loss, values, payoffs, compensations, received, presence,
        gains, alone_and_together, fairness, contributions, incentives,
    ]  # fmt: skip
    figures = [make(source, cast) for make in makers]
    return [figure for figure in figures if figure is not None]


def accuracy(source: Source, cast: Cast) -> Chart | Missing:
    """Accuracy (or another metric) over rounds, with the mean and the server's model."""
    metric = find_metric(source.config.metric)
    title = f"{metric.title} over rounds"
    split = _split(source)
    if split is None:
        return _final_accuracy(source, cast)
    table = metric.sign * split.history.columns["accuracy"]
    series = cast.curves(table)
    known = ~np.isnan(table).all(axis=1)
    mean = np.full(len(table), np.nan)
    mean[known] = np.nanmean(table[known], axis=1)
    series.append(curve("mean of all agents", cast.timeline.rounds, mean, MEAN))
    of_server = curve(
        "server's model",
        cast.timeline.rounds,
        metric.sign * split.history.global_accuracy,
        Style("ink", "dot", width=2.8),
    )
    if len(of_server.y):
        series.append(of_server)
    how = (
        "Each agent's model on its own test graphs, at every evaluation (with few test graphs it "
        "moves in large steps); the server's model on graphs that it held out."
    )
    return Chart("accuracy", title, cast.reading(how), "round", metric.words, tuple(series))


def _final_accuracy(source: Source, cast: Cast) -> Chart | Missing:
    metric = find_metric(source.config.metric)
    if not source.accuracy:
        return Missing(f"{metric.title} over rounds", SIMULATION)
    names = sorted(source.accuracy, key=lambda n: source.accuracy[n], reverse=True)
    return Chart(
        "accuracy",
        f"{metric.title} after the last round",
        "As each agent measured it on its own test graphs and reported it.",
        metric.words,
        "",
        (
            Bars(
                metric.words,
                np.array([metric.sign * source.accuracy[n] for n in names]),
                Style(),
                tuple(names),
            ),
        ),
        rows=tuple(names),
    )


def loss(source: Source, cast: Cast) -> Chart | Missing:
    """Training loss over rounds."""
    split = _split(source)
    if split is None:
        return Missing("Loss over rounds", SIMULATION)
    how = cast.reading("Training loss of each agent in each round, all of its terms together.")
    series = tuple(cast.curves(split.history.columns["loss"]))
    return Chart("loss", "Loss over rounds", how, "round", "training loss", series)


def values(source: Source, cast: Cast) -> Chart | Missing:
    """Value curves of every agent."""
    table = cast.timeline.columns["value"]
    harmed = np.nanmin(table, initial=0.0) < 0
    zero = "an agent below zero harms" if harmed else "an agent at zero brings the others nothing"
    how = f"What an agent is worth to the others; values of a round add up to 1, and {zero}."
    equal = Reference("equal shares", 1 / len(cast.timeline.agents))
    return Chart(
        "value",
        "Value of each agent",
        cast.reading(how),
        "round",
        "value",
        tuple(cast.curves(table)),
        (equal, Reference("")) if harmed else (equal,),
    )


def payoffs(source: Source, cast: Cast) -> Chart | Missing:
    """Payoff of each agent, added up."""
    how = "What each agent was paid up to a round."
    if np.nanmin(cast.timeline.columns["payoff"], initial=0.0) < 0:
        how += " Where a curve falls, it paid a penalty."
    return Chart(
        "payoff",
        "Payoff, cumulative",
        cast.reading(how),
        "round",
        f"payoff, {cast.timeline.currency}",
        tuple(cast.curves(_cumulative(cast.timeline.columns["payoff"]))),
        (Reference(""),),
    )


def compensations(source: Source, cast: Cast) -> Chart | Missing:
    """Compensation for late contribution, added up."""
    table = cast.timeline.columns["compensation"]
    if not np.nansum(np.abs(table)):
        return Missing(
            "Compensation, cumulative",
            "nobody's value rose above its own earlier mean while agents were paid by value.",
        )
    how = (
        "The part of the payoff that an agent got because its value exceeded its own earlier mean: "
        "it rewards those who contribute late."
    )
    series = tuple(cast.curves(_cumulative(table)))
    return Chart(
        "compensation",
        "Compensation, cumulative",
        cast.reading(how),
        "round",
        f"compensation, {cast.timeline.currency}",
        series,
    )


def received(source: Source, cast: Cast) -> Chart | Missing:
    """Who received how much of the gradient."""
    title = "Who received how much of the gradient"
    table = cast.timeline.received
    if np.isnan(table).all():
        return Missing(title, "this method gives agents no part of a common gradient.")
    x, z = in_columns(cast.timeline.rounds, 100 * table, MOST_COLUMNS)
    taken = len(cast.timeline.rounds) / max(len(x), 1)
    how = "The share of its components that the server gave to an agent: dark is little." + (
        f" A column is the mean of {math.ceil(taken)} rounds." if taken > 1 else ""
    )
    chart = HeatMap("% received", x, z.T, 0.0, 100.0, agents=cast.timeline.agents)
    return Chart("received", title, how, "round", "", (chart,), rows=_rows(cast))


def presence(source: Source, cast: Cast) -> Chart | None:
    """Rounds that agents missed, from a ledger; None where they missed none."""
    status = cast.timeline.status
    if not (status > 0).any():
        return None
    series = []
    for name, style in (
        ("absent", Style("orange", marker="circle", hollow=True)),
        ("rejected", Style("red", marker="x")),
    ):
        round_, agent = np.nonzero(status == STATUS[name])
        agents = tuple(cast.timeline.agents[k] for k in agent)
        if len(agent):
            x = cast.timeline.rounds[round_]
            series.append(Dots(name, x, agent.astype(float), style, agents, agents))
    return Chart(
        "presence",
        "Who was away",
        "Rounds in which an agent sent nothing in time (circle), or something that the server had "
        "to reject (cross); no mark means present.",
        "round",
        "",
        tuple(series),
        rows=_rows(cast),
        x_range=(float(cast.timeline.rounds[0]) - 0.5, float(cast.timeline.rounds[-1]) + 0.5),
    )


def gains(source: Source, cast: Cast) -> Chart | Missing:
    """Gain over training alone for each agent, in accuracy or another metric."""
    metric = find_metric(source.config.metric)
    title = f"{metric.title} gain over training alone"
    split = _split(source)
    if split is None:
        return Missing(title, SIMULATION)
    gain = split.accuracy - split.alone
    order = np.argsort(-gain, kind="stable")
    names = tuple(split.names[k] for k in order)
    again = (split.alone_again - split.alone)[order]
    labels = cast.timeline.labels
    repeated = Dots(
        "training alone, again",
        again,
        np.arange(len(order), dtype=float),
        Style("ink", marker="diamond", hollow=True),
        tuple(labels[n] for n in names),
        names,
    )
    return Chart(
        "gain",
        title,
        f"The bar is {_gained(metric)}. The diamond is what training "
        "alone once more, with another seed, changes: a bar no longer than that says little.",
        f"gain in {metric.words}",
        "",
        (Bars("in the federation", gain[order], Style(), names), repeated),
        (Reference("no gain", 0.0, "down"),),
        rows=tuple(labels[n] for n in names),
    )


def alone_and_together(source: Source, cast: Cast) -> Chart | Missing:
    """Accuracy in the federation over accuracy alone: what the fairness is the correlation of."""
    metric = find_metric(source.config.metric)
    title = f"{metric.title} together over {metric.words} alone"
    split = _split(source)
    if split is None:
        return Missing(title, SIMULATION)
    labels, place = cast.timeline.labels, {n: k for k, n in enumerate(split.names)}

    def dots(name: str, style: Style, agents: list[str]) -> Dots:
        rows = [place[n] for n in agents]
        called = tuple(labels[n] for n in agents)
        x, y = (metric.sign * scores[rows] for scores in (split.alone, split.accuracy))
        return Dots(name, x, y, style, called, tuple(agents))

    crowd = [n for n in split.names if n not in cast.named]
    series = [dots("other agents", CROWD, crowd)] if crowd else []
    for name in split.names:
        if name in cast.named:
            series.append(dots(labels[name], cast.styles[name], [name]))
    return Chart(
        "together",
        title,
        "Fairness is the correlation of these points: who is better alone should be better "
        f"together. {'Below' if metric.is_error else 'Above'} the line the federation helps. "
        "Points may lie on top of each other.",
        f"{metric.words}, trained alone",
        f"{metric.words} in the federation",
        tuple(series),
        (Reference("as good as alone", kind="diagonal"),),
    )


def fairness(source: Source, cast: Cast) -> Chart | Missing:
    """Fairness with its interval, its retest and its bound."""
    title = "Fairness, and how far to trust it"
    if source.result is None:
        return Missing(title, SIMULATION)
    rows = fairness_rows(source.result)
    means = np.array([mean for mean, _, _ in rows.values()])
    span = np.array([[low, high] for _, low, high in rows.values()]).T
    places = np.arange(len(rows), dtype=float)
    series: list[Dots] = [
        Dots("mean, with 95 % interval", means, places, Style(), tuple(rows), x_span=span)
    ]
    splits = source.result.splits
    if len(splits) > 1:
        each = [(s.metrics(), s.seed) for s in splits]
        points = [
            (m[key], row, f"seed {seed}") for m, seed in each for row, key in enumerate(_ROWS)
        ]
        x, y, names = zip(*points, strict=True)
        style = Style("faint", marker="x", opacity=0.8)
        series.append(Dots("single splits", np.array(x), np.array(y, float), style, names))
    bound = source.result.fairness_bound
    lines = [] if math.isnan(bound) else [Reference(f"bound {bound:.2f}", bound, "down")]
    over = "agents (Fisher's)" if len(splits) == 1 else "splits (Student's)"
    how = (
        f"Intervals are over {over}. Retest is training alone against training alone again: the "
        "reliability of the figure. The bound that follows from it is about the most that can be "
        "measured: a fairness near it cannot be distinguished from a perfect one."
    )
    zero = Reference("", 0.0, "down")
    return Chart(
        "fairness", title, how, "correlation over agents", "", tuple(series), (zero, *lines),
        rows=tuple(rows), x_range=(-1.05, 1.05),
    )  # fmt: skip


_ROWS = {"fairness": "fairness", "rank_fairness": "fairness of ranks", "fairness_retest": "retest"}


def fairness_rows(result: Result) -> dict[str, tuple[float, float, float]]:
    """Return mean, low and high of the fairness, of that of ranks, and of the retest."""
    rows = {}
    agents = len(result.splits[0].names)
    for metric, words in _ROWS.items():
        mean = result.mean[metric]
        low, high = result.ci95[metric]
        if len(result.splits) == 1:
            low, high = correlation_interval(mean, agents)
        rows[words] = (mean, low, high)
    return rows


def contributions(source: Source, cast: Cast) -> Chart | Missing:
    """What each agent contributed, round by round."""
    title = "What each agent contributed"
    split = _split(source)
    if split is None:
        return Missing(title, SIMULATION)
    table = split.history.columns["contribution"]
    measured = ~np.isnan(table).all(axis=1)
    if not measured.any():
        return Missing(title, "it was not measured; run with --set contribution=true.")
    x, z = in_columns(cast.timeline.rounds[measured], table[measured], MOST_COLUMNS)
    most, agents = float(np.nanquantile(np.abs(z), 0.98)) or 1.0, cast.timeline.agents
    return Chart(
        "contribution",
        title,
        "How much worse the server's model would be in a round without the agent's update, as a "
        "share of its accuracy; a minus marks updates that did harm. Measured at evaluations.",
        "round",
        "",
        (HeatMap("contribution", x, z.T, -most, most, diverging=True, agents=agents),),
        rows=_rows(cast),
    )


def incentives(source: Source, cast: Cast) -> Chart | Missing:
    """One agent's accuracy and pay against the share of its graphs that it gives."""
    title = "What giving more brings"
    result = source.result
    if result is None:
        return Missing(title, "only a simulation can train again with an agent that gives less.")
    measured = [(s, s.giving) for s in result.splits if s.giving is not None]
    if not measured:
        return Missing(title, "it was not measured; run with --set incentives=true.")
    metric = result.metric
    possible = (0.0, math.inf if metric.is_error else 1.0)
    reached = metric.sign * np.array([g.accuracy for _, g in measured])
    tables = {
        metric.words: (reached, look(0), possible),
        "pay": (np.array([g.pay for _, g in measured]), look(1), (-math.inf, math.inf)),
    }
    series: list[Curve | Dots] = []
    for name, (table, style, possible) in tables.items():
        mean, *span = np.array([mean_interval(column) for column in table.T.tolist()]).T
        if not np.isnan(mean).all():
            ends = np.clip(span, *possible)
            series.append(curve(name, np.array(SHARES), mean, style, legend=False))
            series.append(Dots(name, np.array(SHARES), mean, style, y_span=ends))
    alone = [(s.alone[g.agent] + s.alone_again[g.agent]) / 2 for s, g in measured]
    over = f", with 95 % intervals over {len(measured)} splits" if len(measured) > 1 else ""
    return Chart(
        "incentives",
        title,
        f"{metric.title} and total pay of one agent of each split{over}; pay is a share of that "
        f"for giving all. Where the {metric.words} does not {'fall' if metric.is_error else 'rise'}"
        ", giving more brings no better model; at 0, what is "
        f"{'below' if metric.is_error else 'above'} the line is what a free rider gains over "
        "training alone.",
        "share of its graphs that it gives",
        f"{metric.words}, pay",
        tuple(series),
        (Reference(f"{metric.words} alone", metric.sign * float(np.mean(alone))),),
    )


def tradeoff(results: Mapping[str, Result]) -> Chart:
    """Accuracy over fairness of several runs, with intervals."""
    series = []
    for k, (name, result) in enumerate(results.items()):
        (x, *x_span), (y, *y_span) = (np.array(result.judged(m)).reshape(3, 1) for m in _AXES)
        style = replace(look(k), hollow=k >= len(CURVES))
        series.append(
            Dots(name, x, y, style, (name,), x_span=np.array(x_span), y_span=np.array(y_span))
        )
    metric = next(iter(results.values())).metric
    return Chart(
        "tradeoff",
        f"{metric.title} over fairness",
        f"{'Down' if metric.is_error else 'Up'} and to the right is better. Bars are 95 % "
        "intervals, where there are some; where they overlap, look at the paired differences of "
        "motifair compare.",
        "fairness",
        f"personalised {metric.words}",
        tuple(series),
    )


def _gained(metric: Metric) -> str:
    """Return what a gain is, in words."""
    words = metric.words
    if metric.is_error:
        return f"{words} alone minus {words} in the federation"
    return f"{words} in the federation minus {words} alone"


_AXES = ("fairness", "personalised_accuracy")


def _split(source: Source) -> SplitResult | None:
    return None if source.result is None else source.result.splits[source.split]


def _rows(cast: Cast) -> tuple[str, ...]:
    return tuple(cast.timeline.labels[n] for n in cast.timeline.agents)


def _cumulative(table: np.ndarray) -> np.ndarray:
    """Sum over rounds; NaN until an agent joins, constant after it has left."""
    total: np.ndarray = np.nancumsum(table, axis=0)
    joined = np.maximum.accumulate(~np.isnan(table), axis=0)
    return np.where(joined, total, np.nan)
