"""What dishonest agents gain, and what they do to the others: under the literal equations and under
the default profile, with the server of a deployed federation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from motifair.errors import MotifairError
from motifair.experiments.packing import memory_needed, pack
from motifair.experiments.plan import Plan, split_data
from motifair.federation.agents import AgentsState
from motifair.federation.history import History
from motifair.federation.loop import run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.state import FederationState
from motifair.files import write_atomic
from motifair.learning.process import training_process
from motifair.methods import make_method
from motifair.studies.attacks import ATTACKS, Attack, Cast
from motifair.studies.attacks.contract import honest_split
from motifair.studies.dishonest import Dishonest
from motifair.studies.gains import (
    ABOUT,
    MEASURES,
    cheats_table,
    compared,
    effects_table,
    gain_figure,
    gain_table,
    notes,
)
from motifair.studies.processes import ahead
from motifair.studies.study import Settings, Study, StudyResult

SEED = 530_000  # set down in docs/results/seeds.toml before anything was run on these splits
SPLITS = 20
PARTS = 6  # of the attacks of a case, for as many processes

# The literal equations without the prototype term, which destroys training: attacks on a federation
# that does not learn are not informative.
LITERAL_OPTIONS: Mapping[str, Any] = {"profile": "paper", "prototype_weight": 0}

RULES: Mapping[str, Mapping[str, Any]] = {
    "literal": LITERAL_OPTIONS,
    "default": {"profile": "default"},
}
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
    pieces = [(c, r, p) for p in range(PARTS) for r in RULES for c in _chosen(settings, CASES)]
    ahead(settings, compute, pieces)
    return explore(settings, CASES, ATTACKS)


def compute(settings: Settings, piece: tuple[Case, str, int]) -> None:
    """Run a part of the attacks in one case under one rule, for their files."""
    case, rule, part = piece
    scenario = Scenario(settings, case, rule)
    with training_process():
        for attack in scenario.runs(ATTACKS)[part::PARTS]:
            scenario.outcomes(attack)


def _chosen(settings: Settings, cases: Sequence[Case]) -> list[Case]:
    return [c for c in cases if not settings.datasets or c.dataset in settings.datasets]


def explore(
    settings: Settings,
    cases: Sequence[Case],
    attacks: Sequence[Attack],
    rules: Sequence[str] = tuple(RULES),
) -> StudyResult:
    """Run attacks that are not stored, and compare each with the same agents when honest."""
    chosen, parts = _chosen(settings, cases), []
    with training_process():
        for scenario in (Scenario(settings, case, rule) for case in chosen for rule in rules):
            parts += [scenario.outcomes(attack) for attack in scenario.runs(attacks)]
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
        notes=notes(table, SEED),
        raw={"splits": outcomes[[*ABOUT, "split", *MEASURES]]},
    )


class Scenario:
    """One case under one rule: its plan, and its honest members on every split."""

    def __init__(self, settings: Settings, case: Case, rule: str) -> None:
        self.settings, self.case, self.rule = settings, case, rule
        options = {**case.options, **RULES[rule]}
        self.plan = settings.plan(case.dataset, seed=SEED, splits=SPLITS, **options)
        self.uses_gradients = make_method(self.plan.config).uses_gradients
        self.members, self.splits = cache(self._members), cache(self._splits)
        self.own: dict[int, AgentsState] = {}  # own models, of splits with unchanged graphs

    def _splits(self) -> list[int]:
        """Return the splits in which every agent has something to learn.

        Of few graphs some agent's may all be of one class, which is refused.
        """
        numbers, refused = range(self.plan.config.splits), {}
        for k in numbers:
            try:
                split_data(self.plan, k)
            except MotifairError as error:
                refused[k] = error
        if len(refused) == len(numbers):
            raise refused[0]
        return [k for k in numbers if k not in refused]

    def runs(self, attacks: Sequence[Attack]) -> list[Attack]:
        """Return the attacks that are possible here, after the honest runs beside them."""
        possible = [a for a in attacks if self.uses_gradients or not a.by_gradient]
        return [*{a.baseline.name: a.baseline for a in possible}.values(), *possible]

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
        digest, wanted = self._digest(attack), self.splits()
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
                    self._trained_before(attack, group),
                    device=self.plan.device,
                    threads=self.plan.threads,
                )
            ) as simulation:
                histories, state = self._run(simulation, group)
                backdoor = simulation.backdoor(state)
            if attack.split is honest_split and simulation.own_trained is not None:
                for f, k in enumerate(group):
                    rows_of = slice(f * simulation.agents_each, (f + 1) * simulation.agents_each)
                    self.own[k] = simulation.own_trained.rows(rows_of)
            size = sum(simulation.server.blocks)
            for f, k in enumerate(group):
                rows[k] = outcome(histories[f], cast[f].attackers, size)
                rows[k]["backdoor"] = float(backdoor[f])
        return pd.DataFrame([{"split": k, **rows[k]} for k in sorted(rows)])

    def _trained_before(self, attack: Attack, group: Sequence[int]) -> AgentsState | None:
        """Return the own models of some splits, if another attack trained them."""
        if attack.split is not honest_split or not self.own.keys() >= set(group):
            return None
        return AgentsState.concatenate([self.own[k] for k in group])

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


STUDY = Study("manipulation", "gain of dishonest agents, for each attack", run, in_pieces=True)
