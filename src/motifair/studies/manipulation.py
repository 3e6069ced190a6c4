"""The gain of one dishonest agent, under the literal equations and under the default profile."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from motifair.experiments.packing import memory_needed, pack
from motifair.experiments.plan import Plan, split_data
from motifair.federation.history import History
from motifair.federation.loop import run_rounds
from motifair.federation.members import Members, prepare
from motifair.files import write_atomic
from motifair.learning.process import training_process
from motifair.methods import make_method
from motifair.studies import drawing
from motifair.studies.attacks import ATTACKS, HONEST, Attack, Attackers
from motifair.studies.dishonest import Dishonest
from motifair.studies.intervals import with_interval
from motifair.studies.study import Settings, Study, StudyResult

SEED = 70_000  # fixed in docs/results/seeds.toml before the mechanism was chosen
SPLITS = 20

# The literal equations without the prototype term, which destroys training: attacks on a federation
# that does not learn are not informative.
LITERAL_OPTIONS: Mapping[str, Any] = {"profile": "paper", "prototype_weight": 0}

RULES: Mapping[str, Mapping[str, Any]] = {
    "literal": LITERAL_OPTIONS,
    "default": {"profile": "default"},
}
ABOUT = ("dataset", "attacker", "rule", "attack")
# Vertical offset, colour and marker of a rule's dots.
DRAWN = {"literal": (-0.15, drawing.RED, "s"), "default": (0.15, drawing.BLUE, "o")}
MEASURES = ("payoff", "reward", "accuracy", "others", "server")


@dataclass(frozen=True)
class Case:
    """A federation and its attacker: number and kind of the agent, and options of the run."""

    dataset: str
    attacker: int
    kind: str
    options: Mapping[str, Any]


CASES = (
    Case("PROTEINS", 0, "typical", {"partition": "iid"}),
    Case("planted", 0, "good", {}),
    Case("planted", 2, "harmful", {}),
)


def run(settings: Settings) -> StudyResult:
    """Run every attack in every case under both rules."""
    return explore(settings, CASES, ATTACKS)


def explore(settings: Settings, cases: Sequence[Case], attacks: Sequence[Attack]) -> StudyResult:
    """Run attacks that are not stored, and compare each with the same agent when honest."""
    chosen = [c for c in cases if not settings.datasets or c.dataset in settings.datasets]
    parts = []
    with training_process():
        for scenario in (Scenario(settings, case, rule) for case in chosen for rule in RULES):
            possible = [a for a in attacks if scenario.uses_gradients or not a.by_gradient]
            parts += [scenario.outcomes(attack) for attack in (HONEST, *possible)]
    outcomes = pd.concat(parts, ignore_index=True)
    table = compared(outcomes)
    return StudyResult(
        title="What one agent gains by cheating",
        tables={"gain": gain_table(table), "effects": effects_table(table)},
        figures={"gain": gain_figure(table)},
        notes=notes(table),
        raw={"splits": outcomes[[*ABOUT, "split", *MEASURES]]},
    )


class Scenario:
    """One case under one rule: its plan, and its honest members on every split."""

    def __init__(self, settings: Settings, case: Case, rule: str) -> None:
        self.settings, self.case, self.rule = settings, case, rule
        options = {**case.options, **RULES[rule]}
        self.plan = settings.plan(case.dataset, seed=SEED, splits=SPLITS, **options)
        self.uses_gradients = make_method(self.plan.config).uses_gradients

    @cached_property
    def members(self) -> list[Members]:
        """Honest members of all splits, prepared at the first use."""
        config = self.plan.config
        return [
            prepare(config, split_data(self.plan, k), seed=config.seed + k)
            for k in range(config.splits)
        ]

    def outcomes(self, attack: Attack) -> pd.DataFrame:
        """Return the outcome of an attack on each split, from its file or by running it."""
        folder = self.settings.out / "runs" / "manipulation"
        folder.mkdir(parents=True, exist_ok=True)
        words = (self.case.dataset, self.case.kind, self.rule, attack.name)
        path = folder / (_file_name(" ".join(words)) + ".csv")
        digest = self._digest(attack)
        outcomes = _stored(path, digest)
        if outcomes is None:
            outcomes = self.measured(attack).assign(settings=digest)
            write_atomic(path, outcomes.to_csv(index=False))
        return outcomes.assign(**dict(zip(ABOUT, words, strict=True)))

    def measured(self, attack: Attack) -> pd.DataFrame:
        """Run an attack on all splits, as stacks where there is GPU memory."""
        attacked = [self.attacked(attack, m) for m in self.members]
        rows: dict[int, dict[str, float]] = {}
        for group in stacks(self.plan, [m for m, _ in attacked], alone=attack.away is not None):
            members = [attacked[k][0] for k in group]
            with closing(
                Dishonest(
                    self.plan.config,
                    members[0] if len(group) == 1 else members,
                    attack,
                    self.case.attacker,
                    device=self.plan.device,
                    threads=self.plan.threads,
                )
            ) as simulation:
                histories = self._run(simulation, group)
            size = sum(simulation.server.blocks)
            for k, history in zip(group, histories, strict=True):
                rows[k] = outcome(history, attacked[k][1], size)
        return pd.DataFrame([{"split": k, **rows[k]} for k in sorted(rows)])

    def attacked(self, attack: Attack, honest: Members) -> tuple[Members, Attackers]:
        """Return the members of a split under an attack, and the numbers of the attacker's agents.

        Agents that joined in addition to the honest ones belong to the attacker.
        """
        attacker = self.case.attacker
        rng = np.random.default_rng([honest.seed, attacker])
        split = attack.split(honest.split, attacker, rng)
        members = honest
        if split is not honest.split:
            members = prepare(self.plan.config, split, seed=honest.seed)
        attackers = (attacker, *range(len(honest.train), len(members.train)))
        return attack.members(members, attackers), attackers

    def _run(self, simulation: Dishonest, group: Sequence[int]) -> list[History]:
        progress = self.settings.progress(self.plan)
        histories = simulation.histories()
        run_rounds(
            simulation,
            simulation.start(),
            histories,
            callbacks=[[] if progress is None else [progress.part(k, "method")] for k in group],
            stop=self.settings.stop,
            eval_every=simulation.config.rounds,
        )
        return histories

    def _digest(self, attack: Attack) -> str:
        """Hash everything that the outcome of an attack depends on."""
        device = self.plan.device.type
        about = [self.plan.config.to_json(), device, self.case.attacker, attack.name, MEASURES]
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]


def outcome(history: History, attackers: Attackers, size: int) -> dict[str, float]:
    """Summarise a run: the attacker's payoff, reward and accuracy, the others' and the server's
    accuracy.

    Of an attacker with several agents the payoff per round is the sum over them; the share of
    received components of the update and the accuracy are means.
    """
    own, columns = list(attackers), history.columns
    others = [k for k in range(len(history.names)) if k not in attackers]
    return {
        "payoff": float(columns["payoff"][:, own].sum(axis=1).mean()),
        "reward": float(columns["kept"][:, own].mean() / size),
        "accuracy": float(columns["accuracy"][-1, own].mean()),
        "others": float(columns["accuracy"][-1, others].mean()),
        "server": float(history.global_accuracy[-1]),
    }


def stacks(plan: Plan, members: Sequence[Members], *, alone: bool) -> Iterator[list[int]]:
    """Group splits of equal inputs into stacks that fit into the memory, or each `alone`."""
    return pack(
        range(len(members)),
        shape=lambda k: members[k].model.width,
        need=lambda k: memory_needed(plan.config, members[k]),
        memory=0 if alone else plan.memory,
    )


def _stored(path: Path, digest: str) -> pd.DataFrame | None:
    """Read the outcomes of an earlier run, or return None if its settings were different."""
    if not path.exists():
        return None
    outcomes = pd.read_csv(path, dtype=str)  # converted from text, floats are exact
    if not (outcomes["settings"] == digest).all():
        return None
    return outcomes.astype({"split": int, **dict.fromkeys(MEASURES, float)})


def _file_name(words: str) -> str:
    """Convert words to a file name.

    >>> _file_name("update × 0.1")
    'update-x-0.1'
    """
    plain = words.replace("×", "x").replace("%", "percent").replace(",", "")
    return plain.replace(" ", "-")


# Tables


def compared(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Compare attacks with honest runs on the same splits: a row for each attack, case and rule.

    For every measure it has the honest mean, and the mean difference with its interval.
    """
    groups = outcomes.groupby(list(ABOUT), sort=False)
    runs = {keys: part.set_index("split") for keys, part in groups}
    rows = []
    for keys, own in runs.items():
        *scenario, attack = keys
        if attack == HONEST.name:
            continue
        honest = runs[(*scenario, HONEST.name)]
        row: dict[str, Any] = dict(zip(ABOUT, keys, strict=True))
        for measure in MEASURES:
            row[f"honest_{measure}"] = float(honest[measure].mean())
            row |= with_interval(measure, own[measure] - honest[measure])
        rows.append(row)
    return pd.DataFrame(rows)


def verdict(low: float, high: float) -> str:
    """Classify the interval of a difference.

    >>> verdict(0.1, 0.2), verdict(-0.1, 0.2), verdict(-0.2, -0.1), verdict(float("nan"), 0.0)
    ('gains', 'no difference', 'loses', 'unknown')
    """
    if low != low or high != high:
        return "unknown"
    return "gains" if low > 0 else "loses" if high < 0 else "no difference"


def relative(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean, low and high of the gain, in percent of the absolute honest payoff."""
    ends = {"mean": "payoff", "low": "payoff_low", "high": "payoff_high"}
    size = table["honest_payoff"].abs()
    return pd.DataFrame({name: 100 * table[column] / size for name, column in ends.items()})


def gain_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return the effect of each attack on the attacker's payoff per round."""
    low, high = table["payoff_low"], table["payoff_high"]
    return table[["attack", *ABOUT[:3]]].assign(
        honest=table["honest_payoff"],
        attacked=table["honest_payoff"] + table["payoff"],
        difference=table["payoff"],
        low=low,
        high=high,
        percent=relative(table)["mean"],
        verdict=[verdict(*ends) for ends in zip(low, high, strict=True)],
    )


def effects_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return the effect of each attack on the attacker's reward and accuracy, the others and the
    server.

    For each measure: the honest mean, and the difference with its interval.
    """
    columns = [name for m in MEASURES[1:] for name in (f"honest_{m}", m, f"{m}_low", f"{m}_high")]
    return table[["attack", *ABOUT[:3], *columns]]


# Figure and notes


def gain_figure(table: pd.DataFrame) -> Figure:
    """Draw the relative gain of every attack with its interval, for both rules."""
    names = list(dict.fromkeys(table["attack"]))
    cases = list(dict.fromkeys(zip(table["dataset"], table["attacker"], strict=True)))
    height = 1.5 + 0.32 * len(names)
    figure, panels = drawing.panels(len(cases), width=2.5 + 2.6 * len(cases), height=height)
    for axes, (dataset, attacker) in zip(panels, cases, strict=True):
        here = table[(table["dataset"] == dataset) & (table["attacker"] == attacker)]
        for rule, (shift, colour, marker) in DRAWN.items():
            part = here[here["rule"] == rule]
            places = [names.index(a) + shift for a in part["attack"]]
            gain = relative(part)
            drawing.dots(axes, places, gain, label=rule, colour=colour, marker=marker)
        axes.axvline(0, color=drawing.BLACK, lw=0.8)
        axes.set_title(f"{dataset}, {attacker} agent", fontsize=10)
        axes.set_xlabel("gain in % of honest payoff")
        drawing.name_rows(axes, names if axes is panels[0] else [""] * len(names))
    drawing.legend_outside(figure, *panels)
    return figure


def notes(table: pd.DataFrame) -> list[str]:
    """Describe the comparison, and list the attacks that pay."""
    words = [
        "One agent cheats, all others are honest. Shown is the payoff a round of the attacker "
        "(budget 1 a round) less that of the same agent on the same split when it is honest, with "
        "Student's 95 % interval over splits. Of so many intervals about one in twenty misses. "
        f"Splits from seed {SEED} on, which served to choose nothing.",
        "`literal` is the profile `paper` with prototype_weight=0: with the literal prototype term "
        "nothing is learnt. An attacker that joins as two is paid twice; share of the reward and "
        "accuracy are means over its names. Attacks on gradients need a rule that asks for them.",
    ]
    for rule in RULES:
        own = gain_table(table[table["rule"] == rule])
        for (dataset, attacker), part in own.groupby(["dataset", "attacker"], sort=False):
            paying = part[part["verdict"] == "gains"]
            listed = "; ".join(
                f"{a} ({p:+.1f} %)"
                for a, p in zip(paying["attack"], paying["percent"], strict=True)
            )
            words.append(
                f"Under {rule}, {dataset}, {attacker} agent, {len(paying)} of {len(part)} attacks "
                f"pay{': ' + listed if listed else ''}."
            )
    return words


STUDY = Study("manipulation", "gain of one dishonest agent, for each attack", run)
