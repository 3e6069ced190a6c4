"""Late contribution: value, payoff and compensation of an agent that becomes useful late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from motifair.evaluation.statistics import mean_interval
from motifair.experiments.plan import Plan, split_data
from motifair.experiments.result import Result
from motifair.federation.history import History
from motifair.federation.members import Members, prepare
from motifair.graphs.perturb import Damage, rewire
from motifair.graphs.split import Split
from motifair.report.colours import ROLE_COLOURS
from motifair.studies.intervals import with_interval
from motifair.studies.stacks import Stages, Training, train
from motifair.studies.study import Settings

MEASURES = ("value", "payoff", "compensation")
LATE, OTHERS, CONTROL = "late agent", "the others", "the agent, were it clean"
COLOURS = {**ROLE_COLOURS, LATE: "#009E73", OTHERS: "#0072B2", CONTROL: "#000000"}
LINES = {"late": "-.", "noisy": "--", "harmful": ":", OTHERS: "--", CONTROL: ":"}

# For each kind of agent, each measure: a row for each split, a column for each round.
Course = Mapping[str, Mapping[str, np.ndarray]]


def course_by_role(result: Result) -> Course:
    """Return the course of the agents of each role; their mean in a split is one observation."""
    roles = dict.fromkeys(role for s in result.splits for role in s.roles)
    return {
        role: _followed(
            [s.history for s in result.splits], [np.array(s.roles) == role for s in result.splits]
        )
        for role in roles
    }


def course_of_late(settings: Settings, plan: Plan, folder: str, turn: int) -> Course:
    """Return the courses of a late agent, of the others, and of the same agent as a control.

    The training graphs of the late agent are fully rewired (ρ = 1) in the first `turn` rounds and
    clean afterwards; in the control run they are clean in all rounds. Which agent is late changes
    from split to split.
    """
    numbers = range(plan.config.splits)

    @cache
    def clean(number: int) -> Members:
        return prepare(plan.config, split_data(plan, number), seed=plan.config.seed + number)

    def improved(number: int) -> Stages:
        good = clean(number)
        bad = damaged(good.split, number % len(good.train), seed=good.seed)
        return prepare(plan.config, bad, seed=good.seed), good

    def untouched(number: int) -> Stages:
        return (clean(number),)

    late = [Training(k, f"late-{turn}", partial(improved, k), (turn,)) for k in numbers]
    control = [Training(k, "clean", partial(untouched, k)) for k in numbers]
    trained = train(settings, plan, folder, [*late, *control])
    histories, controls = trained[: len(numbers)], trained[len(numbers) :]
    agent = [np.arange(len(h.names)) == k % len(h.names) for k, h in enumerate(histories)]
    return {
        LATE: _followed(histories, agent),
        OTHERS: _followed(histories, [~a for a in agent]),
        CONTROL: _followed(controls, agent),
    }


def turning_points(rounds: int) -> list[int]:
    """Return the rounds after which the late agent is clean: after a tenth and half of them.

    >>> turning_points(200)
    [20, 100]
    """
    return sorted({max(1, rounds // 10), max(1, rounds // 2)})


def marked_rounds(rounds: int) -> list[int]:
    """Return the rounds in the table: the first, around both turning points, and the last.

    >>> marked_rounds(200)
    [1, 20, 30, 50, 100, 110, 150, 200]
    """
    turns = turning_points(rounds)
    marks = {1, *turns, *(t + rounds // 20 for t in turns), rounds // 4, 3 * rounds // 4, rounds}
    return sorted(m for m in marks if m >= 1)


def damaged(split: Split, agent: int, *, seed: int) -> Split:
    """Rewire the training graphs of an agent with ratio 1."""
    ratio = np.zeros(len(split.graphs))
    ratio[split.partition.train[agent]] = 1.0
    damage = list(split.damage)
    damage[agent] = Damage(rewired=1.0)
    graphs = rewire(split.graphs, ratio, np.random.default_rng([seed, 2]))
    return replace(split, graphs=graphs, damage=tuple(damage))


def course_table(where: str, course: Course, rounds: int) -> pd.DataFrame:
    """Return value, payoff and cumulative compensation in the marked rounds, with intervals.

    If the late agent has a control, the table also has their difference, paired over splits.
    """
    if CONTROL in course:
        gap = {m: course[LATE][m] - course[CONTROL][m] for m in MEASURES}
        course = {**course, f"{LATE} − {CONTROL}": gap}
    rows = []
    for agents, measures in course.items():
        for round in marked_rounds(rounds):
            row: dict[str, object] = {"where": where, "agents": agents, "round": round}
            for name, values in measures.items():
                row |= with_interval(name, values[:, round - 1])
            rows.append(row)
    return pd.DataFrame(rows)


def draw_courses(courses: Mapping[str, Course], turns: Mapping[str, int]) -> Figure:
    """Draw each course as a row: value, payoff, cumulative compensation, with 95 % bands."""
    figure = Figure(figsize=(13, 3.1 * len(courses)), layout="constrained", dpi=150)
    grid = figure.subplots(len(courses), len(MEASURES), squeeze=False)
    for axes, (where, course) in zip(grid, courses.items(), strict=True):
        for axis, measure in zip(axes, MEASURES, strict=True):
            for agents, measures in course.items():
                _band(axis, measures[measure], agents)
            if where in turns:
                axis.axvline(turns[where] + 0.5, color="0.5", lw=0.8)
            axis.set(xlabel="round", ylabel=measure)
            axis.spines[["top", "right"]].set_visible(False)
        axes[1].set_title(where)
        axes[2].set_ylabel("compensation, cumulative")
        axes[2].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _band(axis: Axes, values: np.ndarray, agents: str) -> None:
    mean, low, high = (np.array(v) for v in zip(*map(mean_interval, values.T), strict=True))
    rounds = np.arange(1, values.shape[1] + 1)
    axis.fill_between(rounds, low, high, color=COLOURS[agents], alpha=0.18, lw=0)
    axis.plot(rounds, mean, color=COLOURS[agents], ls=LINES.get(agents, "-"), lw=1.4, label=agents)


def _followed(histories: Sequence[History], chosen: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the mean measures of the chosen agents, `(splits, rounds)`; compensation cumulated."""
    pairs = list(zip(histories, chosen, strict=True))
    means = {m: np.stack([h.columns[m][:, c].mean(axis=1) for h, c in pairs]) for m in MEASURES}
    return {**means, "compensation": means["compensation"].cumsum(axis=1)}
