"""The section of one run in a report: facts, tables, figures and motifs."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from motifair.config import OPTIONS, Config, make_config
from motifair.evaluation.fairness import LOSS
from motifair.evaluation.metrics import find_metric
from motifair.experiments.result import Result
from motifair.experiments.split_result import known_mean
from motifair.methods import component_options
from motifair.report.cast import Cast
from motifair.report.charts import Chart, Missing
from motifair.report.figures import run_figures
from motifair.report.gallery import Group, gallery
from motifair.report.source import Source
from motifair.report.timeline import Timeline, timeline
from motifair.report.verdicts import verdict_on_deployed, verdict_on_run
from motifair.table import NONE, Table, interval, number, percent

METRICS = {
    "personalised_accuracy": "accuracy",
    "global_accuracy": "global accuracy",
    "fairness": "fairness",
    "fairness_retest": "retest",
    "gain": "gain over alone",
    "worst_gain": "worst agent's gain",
    "rationality": "rationality",
}


@dataclass(frozen=True)
class Fact:
    """A main number of the run, and a note on how to read it."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class RunSection:
    """A run and its label, which is unique in a report."""

    label: str
    folder: Path | None  # None for a result in memory
    source: Source

    @cached_property
    def timeline(self) -> Timeline:
        """What happened in each round."""
        return timeline(self.source)

    @cached_property
    def cast(self) -> Cast:
        """The styles of the agents."""
        return Cast.of(self.timeline)

    @cached_property
    def figures(self) -> list[Chart | Missing]:
        """All figures, those that cannot be drawn included."""
        return run_figures(self.source, self.cast)

    @property
    def charts(self) -> list[Chart]:
        """The figures that can be drawn."""
        return [f for f in self.figures if isinstance(f, Chart)]

    @property
    def missing(self) -> list[Missing]:
        """The figures that cannot."""
        return [f for f in self.figures if isinstance(f, Missing)]

    @cached_property
    def motifs(self) -> list[Group]:
        """The gallery."""
        return gallery(self.source.motifs, molecules=self.molecules)

    @property
    def molecules(self) -> bool:
        """Whether the graphs are molecules."""
        return bool(self.source.config.smiles)

    @cached_property
    def facts(self) -> list[Fact]:
        """The main numbers."""
        result = self.source.result
        measured = []
        if result is not None:
            measured = [_fairness(result), _accuracy(result), _rationality(result)]
            measured += [_incentives(result)] if result.config.incentives else []
        return [
            *measured,
            _rounds(self.timeline, self.source),
            _payoffs(self.timeline),
            _head(self.source),
        ]

    @property
    def verdict(self) -> tuple[str, ...]:
        """What follows from the numbers, in one to three sentences."""
        result = self.source.result
        if result is None:
            return verdict_on_deployed(self.source, self.timeline)
        return verdict_on_run(result)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Reasons why the fairness means little here."""
        return () if self.source.result is None else self.source.result.caveats

    @property
    def agents(self) -> Table:
        """A row for each agent."""
        return agents_table(self.source, self.timeline)

    @property
    def when(self) -> str:
        """When a simulation ended, where that is known, and how long it took."""
        result = self.source.result
        if result is None:
            return ""
        ended = result.environment.get("finished")
        return f"{f'Finished {ended}, after' if ended else 'It took'} {result.seconds:.0f} s."

    @property
    def repeat(self) -> str:
        """The command that repeats a simulation; '' where there is none."""
        return "" if self.source.result is None else command_of(self.source.config)

    @property
    def tables(self) -> list[Table]:
        """What was configured, and with which versions."""
        return [options_table(self.source), *_versions(self)]


def make_sections(sources: Mapping[Path, Source]) -> list[RunSection]:
    """Return a section for each run, by the folder that it was read from."""
    names = labels(list(sources))
    return [RunSection(names[f], f, source) for f, source in sources.items()]


def labels(folders: Sequence[Path]) -> dict[Path, str]:
    """Name folders by their last part, or by as many as it takes to tell them apart.

    >>> list(labels([Path("/a/x"), Path("/b/x")]).values())
    ['a/x', 'b/x']
    """
    whole = [f.resolve() for f in folders]
    for parts in range(1, max(len(f.parts) for f in whole) + 1):
        names = ["/".join(f.parts[-parts:]) for f in whole]
        if len(set(names)) == len(names):
            break
    return dict(zip(folders, names, strict=True))


def metrics_table(results: dict[str, Result]) -> Table:
    """Compare runs: a row for each, metrics with their intervals."""
    rows = []
    for name, result in results.items():
        cells = [interval(*result.judged(m)) for m in METRICS]
        bound = interval(result.fairness_bound, math.nan, math.nan)
        rows.append((name, result.config.dataset, str(len(result.splits)), *cells, bound))
    judged = {result.metric.words for result in results.values()}
    words = judged.pop() if len(judged) == 1 else "score"
    titles = (title.replace("accuracy", words) for title in METRICS.values())
    head = ("run", "dataset", "splits", *titles, "bound")
    return Table(head, rows, "Metrics, with 95 % intervals", range(2, len(head)))


def agents_table(source: Source, timeline: Timeline) -> Table:
    """Return a row for each agent: its value, its reward, its payoff and its accuracy."""
    columns: dict[str, Iterable[str]] = {"agent": timeline.agents}
    if timeline.roles:
        columns["role"] = timeline.roles
    left = len(columns)
    if source.graphs:
        columns["graphs"] = [str(source.graphs.get(a, NONE)) for a in timeline.agents]
    last = _last(timeline.columns["value"])
    columns["value now"] = _cells(last, 3)
    columns["reward received"] = [percent(v) for v in known_mean(timeline.received)]
    columns[f"paid in all, {timeline.currency}"] = _cells(
        np.nansum(timeline.columns["payoff"], axis=0), 2
    )
    columns[f"of it late, {timeline.currency}"] = _cells(
        np.nansum(timeline.columns["compensation"], axis=0), 2
    )
    if source.ledger is not None:
        columns["missed"] = [str(n) for n in (timeline.status > 0).sum(axis=0)]
    metric = find_metric(source.config.metric)
    if source.result is not None:
        split = source.result.splits[source.split]
        columns[f"{metric.words} alone"] = _cells(metric.sign * split.alone, 3)
        columns["alone again"] = _cells(metric.sign * split.alone_again, 3)
        columns[f"{metric.words} together"] = _cells(metric.sign * split.accuracy, 3)
        columns["gain"] = [f"{g:+.3f}" for g in split.accuracy - split.alone]
    elif source.accuracy:
        reached = [metric.sign * source.accuracy.get(a, math.nan) for a in timeline.agents]
        columns[metric.words] = _cells(reached, 3)
    rows = tuple(zip(*columns.values(), strict=True))
    return Table(tuple(columns), rows, "Agents", range(left, len(columns)))


def command_of(config: Config) -> str:
    """Return the command that runs a configuration: options that are not usual, by name.

    >>> command_of(make_config({"dataset": "my data", "rounds": 5, "beta": 2}))
    "motifair run --set 'dataset=my data' --set rounds=5 --set beta=2.0"
    """
    given, usual = config.to_json(), usual_options(config)
    changed = [f"{k}={v}" for k, v in given.items() if str(v) != str(usual[k]) and k != "profile"]
    profile = [] if given["profile"] == "default" else [f"profile={given['profile']}"]
    return " ".join(["motifair run", *(f"--set {shlex.quote(x)}" for x in profile + changed)])


def usual_options(config: Config) -> dict[str, Any]:
    """Return the options as they are by default, with this profile, method, parts and scenario."""
    given = config.to_json()
    parts = ("profile", "method", "aggregator", "valuation", "scenario")
    base = make_config({name: given[name] for name in parts if name in given})
    usual = {name: base.value(name) for name in given}
    return usual | {name: OPTIONS[name].default for name in parts[1:]}


def options_table(source: Source) -> Table:
    """List every option, and its default where it differs."""
    given, usual = source.config.to_json(), usual_options(source.config)
    options = {**OPTIONS, **component_options(given)}
    rows = tuple(
        (
            name,
            str(value),
            "" if str(value) == str(usual[name]) else str(usual[name]),
            str(options[name].metadata["help"]),
        )
        for name, value in given.items()
    )
    return Table(("option", "value", "default", "what it is"), rows, "Configuration")


def _versions(section: RunSection) -> list[Table]:
    result = section.source.result
    if result is None:
        return []
    environment: dict[str, Any] = {
        **result.environment.get("versions", {}),
        **result.environment.get("layout", {}),
        "seconds": f"{result.seconds:.1f}",
    }
    rows = tuple((str(k), str(v)) for k, v in environment.items() if v is not None)
    return [Table(("what", "which"), rows, "Versions and machine")]


def _fairness(result: Result) -> Fact:
    mean, (low, high) = result.mean, result.ci95["fairness"]
    value = mean["fairness"]
    over = "agents" if len(result.splits) == 1 else f"{len(result.splits)} splits"
    note = (
        f"95 % interval over {over}. Retest {number(mean['fairness_retest'])}, "
        f"bound {number(result.fairness_bound)}: about the most that can be measured here."
    )
    if result.fairness_undefined:
        note += f" Undefined in {result.fairness_undefined} of {len(result.splits)} splits."
    words = "undefined" if math.isnan(value) else interval(value, low, high)
    return Fact("Fairness", words, note)


def _accuracy(result: Result) -> Fact:
    mean, metric = result.mean, result.metric
    note = (
        f"Mean over agents; alone {result.judged('alone_accuracy')[0]:.3f}, gain "
        f"{mean['gain']:+.3f}, worst agent {mean['worst_gain']:+.3f}; "
        f"{100 * mean['worse_off']:.0f} % of the agents lose more than "
        f"{f'{LOSS:.0%} of the error' if metric.is_error else LOSS} against training alone."
    )
    if not math.isnan(mean["global_accuracy"]):
        of_server = interval(*result.judged("global_accuracy"))
        note += f" The server's model, on graphs that it held out: {of_server}."
    return Fact(metric.title, interval(*result.judged("personalised_accuracy")), note)


def _rationality(result: Result) -> Fact:
    mean, metric = result.mean, "rationality"
    note = (
        f"Share of the agents whose {result.metric.words} is not worse than alone, averaged over "
        f"both trainings alone. Training alone again scores {number(mean['rationality_retest'])}."
    )
    return Fact("Rationality", interval(mean[metric], *result.ci95[metric]), note)


def _incentives(result: Result) -> Fact:
    mean, ends = result.mean, result.ci95
    accuracy, pay, gain = (
        interval(mean[m], *ends[m]) for m in ("accuracy_slope", "pay_slope", "free_rider_gain")
    )
    words = result.metric.words
    note = (
        f"Rise of one agent's {words} from giving none of its graphs to giving all. Of its pay, as "
        f"a share of that for giving all: {pay}. Its {words} for giving none, over alone: {gain}."
    )
    if result.metric.is_error:
        note += " Errors count with their sign turned: more is better."
    return Fact(f"Slope of {words}", accuracy, note)


def _rounds(timeline: Timeline, source: Source) -> Fact:
    done, agents = len(timeline.rounds), len(timeline.agents)
    missed = int((timeline.status > 0).sum())
    if source.ledger is None:
        splits = 0 if source.result is None else len(source.result.splits)
        others = f" Figures of rounds show split {source.split} of {splits}." if splits > 1 else ""
        return Fact("Rounds", str(done), f"{agents} agents, method {source.config.method}.{others}")
    away = f"{missed} uploads were missing or rejected." if missed else "None were missing."
    return Fact("Rounds", f"{done} of {source.terms.rounds}", f"{agents} agents. {away}")


def _payoffs(timeline: Timeline) -> Fact:
    total = np.nansum(timeline.columns["payoff"], axis=0)
    order = timeline.ranking()
    best, worst = order[0], order[-1]
    if np.ptp(total) < 1e-9:
        note = f"All agents were paid {total[best]:.2f}."
    else:
        note = (
            f"Most to {timeline.agents[best]} ({total[best]:.2f}), "
            f"least to {timeline.agents[worst]} ({total[worst]:.2f})."
        )
    return Fact("Paid out", f"{total.sum():.2f} {timeline.currency}", note)


def _head(source: Source) -> Fact:
    """Return the last hash of the ledger, and whether the ledger is verified."""
    if not source.entries:
        words = f"Payoffs by payoff={source.config.payoff} are a comparison and are never settled."
        return Fact("Head of the ledger", "none", words)
    if source.ledger is None:
        words = "This simulation kept no ledger: the head of the one that its values would give."
        return Fact("Head of the ledger", source.head, words)
    verdict = source.verdict
    assert verdict is not None
    words = (
        "Verified: chain, payoffs and signatures fit."
        if verdict.fits
        else f"DOES NOT FIT: {verdict.finding}."
    )
    return Fact("Head of the ledger", source.head, words)


def _last(table: np.ndarray) -> np.ndarray:
    """Return each agent's last known entry."""
    last = np.full(table.shape[1], np.nan)
    for row in table:
        last = np.where(np.isnan(row), last, row)
    return last


def _cells(values: Iterable[float], digits: int) -> list[str]:
    return [number(float(v), digits) for v in values]
