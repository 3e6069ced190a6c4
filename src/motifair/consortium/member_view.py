"""What a member can see by itself: its rounds, its pay, and whether federating is worth it.

All of it is read from the member's kit, its state, a copy of the ledger and its own graphs; nothing
is written or sent.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from motifair.consortium.agent import HEADS
from motifair.consortium.agent_process import state_of
from motifair.consortium.member_data import member_holdout
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.terms import TERMS, FederationTerms, read_terms
from motifair.errors import MotifairError
from motifair.export import load_model, predict
from motifair.graphs.read import conform, read_graphs
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
    """Accuracy on a member's own test graphs: of the model it trained alone, of the federation's,
    and of both together, as it predicts; `better` and `worse` count graphs that together is right
    on and alone is not, and the reverse.
    """

    graphs: int
    alone: float
    federated: float
    together: float
    better: int
    worse: int

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
        return (
            f"On your {self.graphs} test graphs, which no model was trained on: alone "
            f"{self.alone:.3f}, the federation's model {self.federated:.3f}, both together, as you "
            f"predict, {self.together:.3f}. Together is right on {self.better} graphs on which "
            f"alone is wrong, and wrong on {self.worse} on which alone is right: this {told} "
            f"(p = {self.p:.2g}). Only you see this."
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
    read = conform(read_graphs(graphs), member.terms.schema)
    seed = int((member.state / "seed").read_text())
    _, held_out = member_holdout(member.terms.config, member.name, read, seed)
    test = read.select(held_out)
    truth = np.array(member.terms.schema.classes)[test.target]
    models = {
        "alone": replace(together, weights=together.own, own=None),
        "federated": replace(together, own=None),
        "together": together,
    }
    right = {
        name: predict(model, test)["label"].to_numpy() == truth for name, model in models.items()
    }
    return Worth(
        graphs=len(test),
        **{name: float(correct.mean()) for name, correct in right.items()},
        better=int((right["together"] & ~right["alone"]).sum()),
        worse=int((right["alone"] & ~right["together"]).sum()),
    )
