"""What a member can see by itself: its rounds, its pay, and whether federating is worth it.

All of it is read from the member's kit, its state, a copy of the ledger and its own graphs; nothing
is written or sent.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from motifair.consortium.agent import HEADS
from motifair.consortium.agent_process import state_of
from motifair.consortium.member_data import member_holdout, prepare_member_data
from motifair.consortium.members_key import hashed_motif, read_members_key
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.terms import TERMS, FederationTerms, read_terms
from motifair.errors import MotifairError
from motifair.evaluation.metrics import THRESHOLD, find_metric, score
from motifair.evaluation.own_weight import HELD_BACK
from motifair.export import load_model, predict
from motifair.graphs.csv_file import Columns
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.read import read_graphs
from motifair.graphs.schema import conform
from motifair.graphs.task import BINARY, CLASSES, Task
from motifair.statements.signatures import read_public
from motifair.statements.statement import Statement, make_statement
from motifair.statements.verification import Head, Verdict, read_heads, verify_run

CHANCE = 0.05  # a p-value below is called a difference


@dataclass(frozen=True)
class Member:
    """A member's name, terms and state in one run, with the heads of the ledger that it kept."""

    name: str
    kit: Path
    state: Path
    terms: FederationTerms
    run: str
    answered: int
    heads: tuple[Head, ...]

    def __str__(self) -> str:
        rounds = f"answered {self.answered} of {self.terms.config.rounds} rounds"
        kept = f"{len(self.heads)} heads of the ledger kept"
        if self.heads:
            last = self.heads[-1]
            kept += f", the last of entry {last.number}, {last.hash}"
        return f"{self.name} in federation {self.terms.name}, run {self.run}: {rounds}; {kept}."

    def to_json(self) -> dict[str, Any]:
        """Return the member as JSON values."""
        return {
            "member": self.name,
            "federation": self.terms.name,
            "run": self.run,
            "answered": self.answered,
            "rounds": self.terms.config.rounds,
            "heads": [head._asdict() for head in self.heads],
        }


@dataclass(frozen=True)
class Worth:
    """Scores on a member's own test graphs: of the model it trained alone, of the federation's,
    and of both together, as it predicts; `better` and `worse` count graphs whose targets together
    predicts better than alone (more of them right, or nearer), and the reverse. `held_back`
    training graphs were kept from the model it trained alone.
    """

    graphs: int
    alone: float
    federated: float
    together: float
    better: int
    worse: int
    metric: str = "accuracy"
    held_back: int = 0

    @property
    def p(self) -> float:
        """How likely counts as unequal as these are by chance: the exact sign test (McNemar's)."""
        differ = self.better + self.worse
        return float(binomtest(self.better, differ).pvalue) if differ else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        return {**asdict(self), "p": self.p}

    def __str__(self) -> str:
        if self.p >= CHANCE:
            told = "cannot be told from chance"
        else:
            told = f"is {'a gain' if self.better > self.worse else 'a loss'} beyond chance"
        fewer = ""
        if self.held_back:
            fewer = (
                f" The model trained alone has not seen {self.held_back} of your training graphs, "
                "by which its weight was chosen."
            )
        metric = find_metric(self.metric)
        alone, federated, together = (
            f"{metric.sign * score:.3f}" for score in (self.alone, self.federated, self.together)
        )
        return (
            f"{metric.title} on your {self.graphs} test graphs, which no model was trained on: "
            f"alone {alone}, the federation's model {federated}, both together, as you predict, "
            f"{together}. Of these graphs together is better than alone on {self.better}, and "
            f"worse on {self.worse}: this {told} (p = {self.p:.2g}).{fewer} Only you see this."
        )


def read_member(kit: Path, state: Path | None, run: str | None) -> Member:
    """Read a member's kit and state; name the `run` if it took part in several."""
    from motifair.consortium.transports.nvflare.kits import name_of

    name, place = name_of(kit), state or state_of(kit)
    rounds: dict[str, int] = {}
    for path in place.glob("*/round-*.safetensors"):
        rounds[path.parent.name] = max(rounds.get(path.parent.name, 0), int(path.stem[6:]))
    if not rounds:
        raise MotifairError(
            f"{place} has no rounds of {name}; name the folder of its agent's state with --state."
        )
    if run is None and len(rounds) > 1:
        raise MotifairError(
            f"{name} took part in {', '.join(sorted(rounds))}; name one with --run."
        )
    chosen = run or next(iter(rounds))
    if chosen not in rounds:
        raise MotifairError(f"{name} took part in {', '.join(sorted(rounds))}, not in {chosen}.")
    terms = read_terms(kit / "local" / TERMS)
    heads = read_heads(place / HEADS)[0].get(chosen, []) if (place / HEADS).exists() else []
    answered = min(rounds[chosen], terms.config.rounds)  # the task after the last round trains none
    return Member(name, kit, place, terms, chosen, answered, tuple(heads))


def read_pay(member: Member, ledger: str) -> tuple[Verdict, Statement]:
    """Verify a copy of the ledger with the kit's operator key and the member's heads, and return
    its statement; refuse a ledger that fails.
    """
    operator = read_public(member.kit / "local" / "operator.pub")
    with open_ledger(ledger, write=False) as opened:
        verdict = verify_run(opened, member.run, member.heads, operator)
        entries = tuple(opened.entries(member.run))
    if not verdict.fits:
        raise MotifairError(f"This ledger is not the one that {member.name} was told of: {verdict}")
    made = make_statement(entries, member.name, ledger=ledger, federation=member.terms.name)
    return verdict, made


def read_worth(member: Member, graphs: Path) -> Worth:
    """Compare the models of a finished run on the test graphs that the member's agent set aside."""
    folder = member.state / member.run / "model"
    if not folder.exists():
        raise MotifairError(
            f"Run {member.run} is not finished; compare the models after its last round."
        )
    together = load_model(folder, member.terms.config.model or None)
    if together.own is None:
        raise MotifairError(
            f"{member.terms.config.method} trains no model of {member.name}'s own to compare with."
        )
    config = member.terms.config
    found = read_graphs(graphs, Columns(config.smiles, config.targets))
    read = conform(found, member.terms.schema)
    seed = int((member.state / "seed").read_text())
    train, held_out = member_holdout(config, member.name, read, seed)
    test = read.select(held_out)
    models = {
        "alone": replace(together, weights=together.own, own=None),
        "federated": replace(together, own=None),
        "together": together,
    }
    task = replace(together.model.task, metric=config.metric)
    judged = {name: judge(task, test, predict(model, test)) for name, model in models.items()}
    graph = judged["together"][1] - judged["alone"][1]
    return Worth(
        graphs=len(test),
        **{name: reached for name, (reached, _) in judged.items()},
        better=int((graph > 0).sum()),
        worse=int((graph < 0).sum()),
        metric=config.metric,
        held_back=len(train) // HELD_BACK if config.own_prior < math.inf else 0,
    )


def read_motifs(member: Member, graphs: Path) -> dict[str, str]:
    """Return the motifs of a member by the hashes under which the operator knows them."""
    terms, seed = member.terms, int((member.state / "seed").read_text())
    found = read_graphs(graphs, Columns(terms.config.smiles, terms.config.targets))
    data = prepare_member_data(
        terms.config, terms.schema, member.name, found, seed, terms.fingerprint_key
    )
    key = read_members_key(member.kit, terms.members_key)
    return {hashed_motif(key, motif): motif for motif in data.motifs}


def judge(task: Task, test: GraphSet, predicted: pd.DataFrame) -> tuple[float, np.ndarray]:
    """Return the score of predictions, and how good they are for each graph, more being better.

    Of a graph that is the share of its known targets that are right, of numbers their mean squared
    error, in deviations and negative; NaN without a known target.
    """
    numbers = predicted.drop(columns=["graph", "label"], errors="ignore").to_numpy()
    if task.kind == CLASSES:
        right = (numbers.argmax(axis=1) == test.target).astype(float)
        return score(task, test.target, numbers), right
    target = task.encode(test).values
    assert target is not None
    if task.kind == BINARY:
        good = ((numbers > THRESHOLD) == (target == 1)).astype(float)
    else:
        numbers = (numbers - np.array(task.mean)) / np.array(task.scale)
        good = -((numbers - target) ** 2)
    known = ~np.isnan(target)
    count, none = known.sum(axis=1), np.full(len(test), np.nan)
    each = np.divide(np.where(known, good, 0.0).sum(axis=1), count, out=none, where=count > 0)
    return score(task, target, numbers), each
