"""What attackers cost the others and the server's model, without and with the bounds on one
member's influence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import motifair.studies.attacks.rounds as rounds
import motifair.studies.attacks.uploads as on_uploads
from motifair.evaluation.accuracy import measure
from motifair.experiments.plan import Plan, split_data
from motifair.federation.agents import WORST_LOSS, AgentsState
from motifair.federation.loop import Stopped
from motifair.federation.members import Members, prepare
from motifair.federation.protocol import Uploads
from motifair.federation.state import FederationState
from motifair.files import write_atomic
from motifair.learning.process import training_process
from motifair.mechanism.bounds import MAX_SIZE_RATIO, capped_sizes
from motifair.mechanism.judgement import handed_out
from motifair.studies.attacks import Attack, AttackContext, Cast
from motifair.studies.attacks.graphs import backdoored
from motifair.studies.attacks.uploads import only
from motifair.studies.dishonest import Dishonest
from motifair.studies.intervals import with_interval
from motifair.studies.processes import ahead
from motifair.studies.study import Settings, Study, StudyResult

SEED, SPLITS = 540_000, 8  # set down in docs/results/seeds.toml before anything was run on them
DATASETS = ("MUTAG", "IMDB-BINARY", "planted")
CASES = {"one of six": (1, 6), "three of ten": (3, 10), "three of six": (3, 6)}
RULES: Mapping[str, Mapping[str, Any]] = {"before": {"bounded": False}, "after": {}}
CLAIM = 10**9  # graphs
KEPT = 3  # models of the server's among which members choose
MEASURES = ("others", "server", "last", "backdoor")
ABSENT = "absent"  # what anybody may be: an attacker costs the others at least its contribution


@dataclass(frozen=True)
class Harm:
    """An attack of this study, and whether its attackers claim 10⁹ graphs."""

    attack: Attack
    claims: bool = False


def against_others(uploads: Uploads, context: AttackContext) -> Uploads:
    """Send the reverse of the others' mean, nine times as long as their median: just not rejected.

    In a real federation attackers can only guess it, as uploads are simultaneous.
    """
    each = uploads.update.shape[0] // context.federations
    honest = torch.ones(len(uploads.update), dtype=torch.bool, device=uploads.update.device)
    honest[context.own] = False
    sent = uploads.update.clone()
    for f in range(context.federations):
        rows = torch.arange(f * each, (f + 1) * each, device=sent.device)
        others = uploads.update[rows[honest[rows]]]
        mean = others.mean(dim=0)
        sent[rows[~honest[rows]]] = -9 * others.norm(dim=-1).median() * mean / mean.norm()
    return replace(uploads, update=sent)


def once(context: AttackContext) -> bool:
    """Choose the round after a quarter of them."""
    return context.round == max(1, context.rounds // 4)


FAR = partial(on_uploads.reversed_far, length=999.0)
REVERSED = partial(on_uploads.scaled, by=-1.0)

HARMS = (
    Harm(Attack("honest")),
    Harm(Attack(ABSENT, away=rounds.always)),
    Harm(Attack("length 999, once", uploads=only(once, FAR))),
    Harm(Attack("length 999, in the last round", uploads=only(rounds.last_round, FAR))),
    Harm(Attack("length 999, every round", uploads=FAR)),
    Harm(Attack("update × 100", uploads=partial(on_uploads.scaled, by=100.0))),
    Harm(Attack("claim of 10⁹ graphs", uploads=REVERSED), claims=True),
    Harm(
        Attack("claim of 10⁹ graphs, update 0", uploads=partial(on_uploads.scaled, by=0.0)),
        claims=True,
    ),
    Harm(Attack("sign flipped", uploads=REVERSED)),
    Harm(Attack("sign flipped after a third", uploads=only(rounds.after_a_third, REVERSED))),
    Harm(Attack("noise", uploads=on_uploads.noise)),
    Harm(Attack("noise after a third", uploads=only(rounds.after_a_third, on_uploads.noise))),
    Harm(Attack("against the others", uploads=against_others)),
    Harm(
        Attack(
            "against the others after a third",
            uploads=only(rounds.after_a_third, against_others),
        )
    ),
    Harm(
        Attack(
            "against the others, in the last round",
            uploads=only(rounds.last_round, against_others),
        )
    ),
    Harm(Attack("backdoor", split=backdoored)),
)


class Influenced(Dishonest):
    """Attackers that may claim graphs they do not have, with or without the server's limits."""

    def __init__(
        self,
        plan: Plan,
        members: Members,
        harm: Harm,
        cast: Cast,
        *,
        limits: bool,
        own: AgentsState | None,
    ) -> None:
        where = {"device": plan.device, "threads": plan.threads}
        super().__init__(plan.config, members, harm.attack, [cast], own, **where)
        self.limits = limits
        if harm.claims:
            graphs = self.server.graphs.clone()
            graphs[self.own] = CLAIM
            graphs = capped_sizes(graphs, MAX_SIZE_RATIO) if limits else graphs
            self.server.graphs = graphs
            self.server.believed[self.own] = graphs[self.own].double()

    def _accepted(self, uploads: Uploads) -> Tensor:
        if self.limits:
            return super()._accepted(uploads)
        return torch.ones_like(self.server.graphs, dtype=torch.bool)

    def outcome(self, config_rounds: int) -> dict[str, float]:
        """Run all rounds; return the others' accuracy, the server's as handed out, that of its
        last model, and how often it follows the trigger of a backdoor.
        """
        state = self.start()
        recent: list[FederationState] = []
        for _ in range(config_rounds):
            state = self.play(state).state
            recent = [*recent, state][-KEPT:]
        (local,), _, (last,) = self.evaluate(state)
        honest = [k for k in range(len(local)) if k not in self.cast[0].attackers]
        kept = recent[self._choose(recent)] if self.limits else state
        rows = self.global_weights(kept)
        return {
            "others": float(local[honest].mean()),
            "server": float(measure(self.model, rows, self.global_test)[0]),
            "last": float(last),
            "backdoor": float(self.backdoor(kept)[0]),
        }

    def _choose(self, recent: Sequence[FederationState]) -> int:
        """Return which of the last models is handed out; attackers praise the last."""
        models = [self.global_weights(s).expand(self.agents_each, -1) for s in recent]
        loss, _ = self.agents.judge(models, as_they_are=True)
        loss[:, self.own] = WORST_LOSS
        loss[-1, self.own] = 0.0
        return handed_out(loss)


def run(settings: Settings) -> StudyResult:
    """Run every attack in every case, without and with the bounds."""
    pieces = [
        (dataset, case, rule, k)
        for dataset in settings.datasets or DATASETS
        for case in CASES
        for rule in RULES
        for k in range(settings.splits or SPLITS)
    ]
    ahead(settings, outcomes_of, pieces)
    parts = [outcomes_of(settings, piece) for piece in pieces]
    outcomes = pd.concat(parts, ignore_index=True)
    return StudyResult(
        title="What attackers cost the others",
        tables={"cost": cost_table(outcomes)},
        notes=NOTES,
        raw={"splits": outcomes},
    )


NOTES = (
    "Accuracy of the members that do not attack, on their own test graphs, and of the server's "
    "model on graphs of none: the mean over splits when all are honest, and the difference that "
    "attackers make with its 95 % interval. `before`: `bounded=false`, no upload rejected, no "
    "claim capped, the server's last model handed out. `after`: the default, with the rejections, "
    "caps and choice of the model handed out of a deployed federation. Attackers are honest when "
    "their models are judged before the first round, and praise the server's last model at the "
    "end. `others after, minus absent` is the difference to attackers that never send anything, "
    "which costs the others what these would contribute. `backdoor` is the share of unseen graphs "
    "of other classes that get the first class when they have the trigger.",
)


def outcomes_of(settings: Settings, piece: tuple[str, str, str, int]) -> pd.DataFrame:
    """Return a row for each attack on one split in a case, from its file or by running them."""
    dataset, case, rule, number = piece
    attackers, agents = CASES[case]
    cast = Cast(tuple(range(attackers)), attackers)
    plan = settings.plan(
        dataset, seed=SEED, splits=SPLITS, agents=agents, partition="iid", **RULES[rule]
    )
    about = "-".join((dataset, case, rule, str(plan.config.rounds), f"{number:03d}"))
    path = settings.out / "runs" / "influence" / (about.replace(" ", "-") + ".csv")
    if not path.exists():
        if settings.stop():
            raise Stopped
        with training_process():
            made = pd.DataFrame(_attacked(plan, number, cast, limits=rule == "after"))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, made.to_csv(index=False))
    stored = pd.read_csv(path)
    keys = pd.DataFrame([piece] * len(stored), columns=["dataset", "case", "rule", "split"])
    return pd.concat([keys, stored], axis=1)


def _attacked(plan: Plan, number: int, cast: Cast, *, limits: bool) -> list[dict[str, Any]]:
    """Return the outcome of every attack on one split."""
    config = plan.config
    seed = config.seed + number
    split = split_data(plan, number)

    @cache  # graphs are prepared, and own models trained, once for all that share them
    def members(backdoor: bool) -> Members:
        changed = split
        for agent in cast.attackers if backdoor else ():
            changed = backdoored(changed, agent, np.random.default_rng([seed, agent]))
        return prepare(config, changed, seed=seed)

    own: dict[bool, AgentsState | None] = {}
    rows = []
    for harm in HARMS:
        backdoor = harm.attack.split is backdoored
        with closing(
            Influenced(plan, members(backdoor), harm, cast, limits=limits, own=own.get(backdoor))
        ) as simulation:
            outcome = simulation.outcome(config.rounds)
        own[backdoor] = simulation.own_trained
        rows.append({"attack": harm.attack.name, **outcome})
    return rows


def cost_table(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Compare each attack with honest members under the same rule, and these with each other."""
    by = outcomes.set_index(["dataset", "case", "attack", "rule", "split"])[list(MEASURES)]
    by = by.sort_index()
    rows = []
    for dataset, case in dict.fromkeys(zip(outcomes["dataset"], outcomes["case"], strict=True)):
        here = by.loc[dataset, case]
        for attack in dict.fromkeys(outcomes["attack"]):
            row: dict[str, Any] = {"dataset": dataset, "attackers": case, "attack": attack}
            for name in MEASURES[:2]:
                for rule in RULES:
                    honest = here.loc["honest", rule][name]
                    if attack == "honest":
                        row[f"{name} {rule}"] = float(honest.mean())
                        continue
                    cost = here.loc[attack, rule][name] - honest
                    row |= with_interval(f"{name} {rule}", cost)
            beside = here.loc[attack, "after"]["others"] - here.loc[ABSENT, "after"]["others"]
            row |= with_interval("others after, minus absent", beside)
            row["backdoor"] = float(here.loc[attack, "after"]["backdoor"].mean())
            rows.append(row)
    return pd.DataFrame(rows)


STUDY = Study(
    "influence", "what attackers cost the others, without and with the bounds", run, in_pieces=True
)
