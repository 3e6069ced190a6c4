"""What dishonest agents gain, and what they do to the others: under the literal equations and under
the default profile, with the server of a deployed federation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from motifair.config import Config
from motifair.experiments.packing import memory_needed, pack
from motifair.experiments.plan import Plan, split_data
from motifair.federation.history import History
from motifair.federation.loop import run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.state import FederationState
from motifair.files import write_atomic
from motifair.learning.process import training_process
from motifair.mechanism.bounds import MAX_SIZE_RATIO
from motifair.methods import make_method
from motifair.studies import drawing
from motifair.studies.attacks import ATTACKS, Attack, Cast
from motifair.studies.dishonest import Dishonest
from motifair.studies.intervals import with_interval
from motifair.studies.study import Settings, Study, StudyResult

SEED = 431_000  # set down in docs/results/seeds.toml before anything was run on these splits
SPLITS = 20

# The literal equations without the prototype term, which destroys training: attacks on a federation
# that does not learn are not informative.
LITERAL_OPTIONS: Mapping[str, Any] = {"profile": "paper", "prototype_weight": 0}

RULES: Mapping[str, Mapping[str, Any]] = {
    "literal": LITERAL_OPTIONS,
    "default": {"profile": "default"},
}
ALL = "all"
EQUAL_SHARE = 1 / Config().agents  # of the budget of a round, which is 1 in all cases
ABOUT = ("dataset", "attacker", "rule", "attack")
# Vertical offset, colour and marker of a rule's dots.
DRAWN = {"literal": (-0.15, drawing.RED, "s"), "default": (0.15, drawing.BLUE, "o")}
MEASURES = ("payoff", "reward", "accuracy", "others", "server", "backdoor")
OTHER = 3  # place of the agent that attackers copy from: after three that may collude


@dataclass(frozen=True)
class Case:
    """A federation and its attacker: the role of the agent, and options of the run."""

    dataset: str
    kind: str
    options: Mapping[str, Any]
    role: str = ""

    def cast(self, roles: Sequence[str], agents: int, partners: int) -> Cast:
        """Return the first agents that have the role, then others, as attackers.

        >>> Case("PROTEINS", "harmful", {}, "bad").cast(["", "bad", "", "", ""], 5, partners=1)
        Cast(attackers=(1, 0), other=3)
        """
        order = sorted(range(agents), key=lambda k: bool(roles) and roles[k] != self.role)
        return Cast(tuple(order[: 1 + partners]), order[min(OTHER, agents - 1)])


KINDS = {
    "typical": ("iid", ""),  # all have the same kind of graphs
    "good": ("rewired", "high"),  # most others have damaged edges
    "harmful": ("inverted", "inverted"),  # its classes are inverted, as are another agent's
}
CASES = tuple(
    Case(dataset, kind, {"scenario": scenario}, role)
    for dataset in ("MUTAG", "IMDB-BINARY", "PROTEINS")
    for kind, (scenario, role) in KINDS.items()
)


def run(settings: Settings) -> StudyResult:
    """Run every attack in every case under both rules."""
    return explore(settings, CASES, ATTACKS)


def explore(
    settings: Settings,
    cases: Sequence[Case],
    attacks: Sequence[Attack],
    rules: Sequence[str] = tuple(RULES),
) -> StudyResult:
    """Run attacks that are not stored, and compare each with the same agents when honest."""
    chosen = [c for c in cases if not settings.datasets or c.dataset in settings.datasets]
    parts = []
    with training_process():
        for scenario in (Scenario(settings, case, rule) for case in chosen for rule in rules):
            possible = [a for a in attacks if scenario.uses_gradients or not a.by_gradient]
            honest = {a.baseline.name: a.baseline for a in possible}
            parts += [scenario.outcomes(attack) for attack in (*honest.values(), *possible)]
    outcomes = pd.concat(parts, ignore_index=True)
    table = compared(outcomes, attacks)
    return StudyResult(
        title="What agents gain by cheating",
        tables={
            "cheats": cheats_table(table, attacks),
            "gain": gain_table(table),
            "effects": effects_table(table),
        },
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
        self.members = cache(self._members)

    def _members(self, number: int) -> Members:
        """Return the honest members of a split."""
        config = self.plan.config
        return prepare(config, split_data(self.plan, number), seed=config.seed + number)

    def outcomes(self, attack: Attack) -> pd.DataFrame:
        """Return the outcome of an attack on each split, from its file or by running it.

        A file has all splits that were ever run, so that more of them can be asked for later.
        """
        folder = self.settings.out / "runs" / "manipulation"
        folder.mkdir(parents=True, exist_ok=True)
        words = (self.case.dataset, self.case.kind, self.rule, attack.name)
        path = folder / (_file_name(" ".join(words)) + ".csv")
        digest, wanted = self._digest(attack), range(self.plan.config.splits)
        stored = _stored(path, digest)
        missing = [k for k in wanted if k not in set(stored["split"])]
        if missing:
            stored = pd.concat([stored, self.measured(attack, missing).assign(settings=digest)])
            write_atomic(path, stored.to_csv(index=False))
        outcomes = stored[stored["split"].isin(wanted)]
        return outcomes.assign(**dict(zip(ABOUT, words, strict=True)))

    def measured(self, attack: Attack, splits: Sequence[int]) -> pd.DataFrame:
        """Run an attack on some splits, as stacks where there is GPU memory."""
        attacked = {k: self.attacked(attack, self.members(k)) for k in splits}
        rows: dict[int, dict[str, float]] = {}
        together = stacks(
            self.plan, {k: m for k, (m, _) in attacked.items()}, alone=attack.away is not None
        )
        for group in together:
            members, cast = zip(*(attacked[k] for k in group), strict=True)
            with closing(
                Dishonest(
                    self.plan.config,
                    members[0] if len(group) == 1 else members,
                    attack,
                    cast,
                    device=self.plan.device,
                    threads=self.plan.threads,
                )
            ) as simulation:
                histories, state = self._run(simulation, group)
                backdoor = simulation.backdoor(state)
            size = sum(simulation.server.blocks)
            for f, k in enumerate(group):
                rows[k] = outcome(histories[f], cast[f].attackers, size)
                rows[k]["backdoor"] = float(backdoor[f])
        return pd.DataFrame([{"split": k, **rows[k]} for k in sorted(rows)])

    def attacked(self, attack: Attack, honest: Members) -> tuple[Members, Cast]:
        """Return the members of a split under an attack, and who attacks.

        Agents that joined in addition to the honest ones belong to the attacker.
        """
        agents = len(honest.train)
        cast = self.case.cast(honest.split.roles, agents, attack.partners)
        attacker = cast.attackers[0]
        rng = np.random.default_rng([honest.seed, attacker])
        split = attack.split(honest.split, attacker, rng)
        members = honest
        if split is not honest.split:
            members = prepare(self.plan.config, split, seed=honest.seed)
        attackers = (*cast.attackers, *range(agents, len(members.train)))
        cast = replace(cast, attackers=attackers)
        return attack.members(members, cast), cast

    def _run(
        self, simulation: Dishonest, group: Sequence[int]
    ) -> tuple[list[History], FederationState]:
        progress = self.settings.progress(self.plan)
        histories = simulation.histories()
        state = run_rounds(
            simulation,
            simulation.start(),
            histories,
            callbacks=[[] if progress is None else [progress.part(k, "method")] for k in group],
            stop=self.settings.stop,
            eval_every=simulation.config.rounds,
        )
        return histories, state

    def _digest(self, attack: Attack) -> str:
        """Hash everything that the outcome of an attack on a split depends on."""
        config = {k: v for k, v in self.plan.config.to_json().items() if k != "splits"}
        about = [config, self.plan.device.type, self.case.role, attack.name, MEASURES]
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]


def outcome(history: History, attackers: Sequence[int], size: int) -> dict[str, float]:
    """Summarise a run: the attackers' payoff, reward and accuracy, the others' and the server's
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


def stacks(plan: Plan, members: Mapping[int, Members], *, alone: bool) -> Iterator[list[int]]:
    """Group splits of equal inputs into stacks that fit into the memory, or each `alone`."""
    return pack(
        members,
        shape=lambda k: (members[k].model.width, len(members[k].train)),
        need=lambda k: memory_needed(plan.config, members[k]),
        memory=0 if alone else plan.memory,
    )


def _stored(path: Path, digest: str) -> pd.DataFrame:
    """Read the outcomes of earlier runs; none if their settings were different."""
    if path.exists():
        outcomes = pd.read_csv(path, dtype=str)  # converted from text, floats are exact
        if (outcomes["settings"] == digest).all():
            return outcomes.astype({"split": int, **dict.fromkeys(MEASURES, float)})
    return pd.DataFrame({"split": np.zeros(0, dtype=np.int64)})


def _file_name(words: str) -> str:
    """Convert words to a file name.

    >>> _file_name("update × 0.1")
    'update-x-0.1'
    """
    plain = words.replace("×", "x").replace("%", "percent").replace(",", "")
    return plain.replace(" ", "-")


# Tables


def compared(outcomes: pd.DataFrame, attacks: Sequence[Attack]) -> pd.DataFrame:
    """Compare attacks with honest runs on the same splits: a row for each attack, case and rule.

    For every measure it has the honest mean, and the mean difference with its interval over splits;
    with the dataset `all`, over the splits of all datasets.
    """
    honest_name = {a.name: a.baseline.name for a in attacks}
    named = outcomes.set_index(outcomes["dataset"] + " " + outcomes["split"].astype(str))
    groups = pd.concat([named, named.assign(dataset=ALL)]).groupby(list(ABOUT), sort=False)
    runs = dict(iter(groups))
    rows = []
    for keys, own in runs.items():
        *scenario, attack = keys
        if attack not in honest_name:
            continue
        honest = runs[(*scenario, honest_name[attack])]
        row: dict[str, Any] = dict(zip(ABOUT, keys, strict=True)) | {"splits": len(own)}
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
    """Return mean, low and high of the gain, in percent of the absolute honest payoff.

    Where that is less than an equal share, as of an agent that is paid nothing, of the latter.
    """
    ends = {"mean": "payoff", "low": "payoff_low", "high": "payoff_high"}
    size = table["honest_payoff"].abs().clip(lower=EQUAL_SHARE)
    return pd.DataFrame({name: 100 * table[column] / size for name, column in ends.items()})


def gain_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return the effect of each attack on the attacker's payoff per round."""
    low, high = table["payoff_low"], table["payoff_high"]
    return table[["attack", *ABOUT[:3], "splits"]].assign(
        honest=table["honest_payoff"],
        attacked=table["honest_payoff"] + table["payoff"],
        difference=table["payoff"],
        low=low,
        high=high,
        percent=relative(table)["mean"],
        verdict=[verdict(*ends) for ends in zip(low, high, strict=True)],
    )


def cheats_table(table: pd.DataFrame, attacks: Sequence[Attack]) -> pd.DataFrame:
    """Return what each attack is, brings and does to the others, over all datasets.

    `motifair check` has a copy of it: consortium/cheats.csv.
    """
    table = table[table["dataset"] == ALL]
    gain, about = relative(table), {a.name: a.about for a in attacks}
    return pd.DataFrame(
        {
            "rule": table["rule"],
            "attack": table["attack"],
            "about": [about[name] for name in table["attack"]],
            "attacker": table["attacker"],
            "splits": table["splits"],
            "gain": gain["mean"],
            "gain_low": gain["low"],
            "gain_high": gain["high"],
            "others": table["others"],
            "others_low": table["others_low"],
            "others_high": table["others_high"],
            "verdict": gain_table(table)["verdict"],
        }
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
    """Draw the relative gain of every attack over all datasets with its interval, by rule."""
    table = table[table["dataset"] == ALL]
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
        axes.set_title(f"{attacker} agent", fontsize=10)
        axes.set_xlabel("gain in % of the honest payoff\nor of an equal share, if more")
        drawing.name_rows(axes, names if axes is panels[0] else [""] * len(names))
    drawing.legend_outside(figure, *panels)
    return figure


def notes(table: pd.DataFrame) -> list[str]:
    """Describe the comparison, and list the attacks that pay, and those that harm the others."""
    words = [
        "One agent cheats, or two or three together; all others are honest. Shown is the payoff a "
        "round of the attackers (budget 1 a round) less that of the same agents on the same splits "
        "when they are honest, with Student's 95 % interval over splits, in percent of the latter, "
        "or of an equal share where that is more; dataset `all` has the splits of all datasets. Of "
        "so many intervals about one in twenty misses. Splits from seed "
        f"{SEED} on, which served to choose nothing.",
        "The server is that of a deployed federation: numbers of graphs count at most "
        f"{MAX_SIZE_RATIO:g} times the median's, updates over ten times as long as usual, or not a "
        "tenth as long, are rejected, and rounds without an update are not paid.",
        "`literal` is the profile `paper` with prototype_weight=0: with the literal prototype term "
        "nothing is learnt. An attacker that joins under several names is paid for all of them; "
        "share of the reward and accuracy are means over its names. Attacks on gradients need a "
        "rule that asks for them. `backdoor` is the share of unseen graphs of other classes that "
        "the server's model puts into the first class when they have the trigger.",
    ]
    together = table[table["dataset"] == ALL]
    for (rule, kind), part in together.groupby(["rule", "attacker"], sort=False):
        gain = gain_table(part)
        paying = gain[gain["verdict"] == "gains"]
        words.append(
            f"Under {rule}, {kind} agent, {len(paying)} of {len(part)} attacks pay"
            + _listed(paying["attack"], paying["percent"], "{:+.1f} %")
        )
        harm = part[part["others_high"] < 0]
        words.append(
            f"Under {rule}, {kind} agent, {len(harm)} attacks lower the others' accuracy"
            + _listed(harm["attack"], harm["others"], "{:+.3f}")
        )
    return words


def _listed(names: Iterable[str], numbers: Iterable[float], form: str) -> str:
    parts = [f"{n} ({form.format(x)})" for n, x in zip(names, numbers, strict=True)]
    return f": {'; '.join(parts)}." if parts else "."


STUDY = Study("manipulation", "gain of dishonest agents, for each attack", run)
