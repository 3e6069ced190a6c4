"""One run, simulated or between machines, as statements and reports read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from motifair.config import Config, make_config
from motifair.errors import MotifairError
from motifair.experiments.books import entries_of
from motifair.experiments.plan import read_plan, split_data
from motifair.experiments.result import Result, load_result
from motifair.federation.members import vocabularies
from motifair.federation.terms import TERMS
from motifair.files import read_json
from motifair.ledger.entry import Entry, Terms
from motifair.mechanism.payoff import SIZE_PAYOFFS
from motifair.methods import make_method

SIMULATED = "simulation"


@dataclass(frozen=True)
class Source:
    """What is known of a run.

    `entries` are those of the ledger, or what a ledger would hold of a simulated split. `ledger`
    says where that ledger is, None for a simulation. `graphs` and `motifs` are how many graphs each
    agent trains on, and the keys of its motifs; empty where nobody knows. `accuracy` is each
    agent's after the last round. `result` and `split` are those of a simulation.
    """

    name: str
    run: str
    config: Config
    entries: tuple[Entry, ...]
    ledger: str | None = None
    graphs: Mapping[str, int] = field(default_factory=dict)
    motifs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    accuracy: Mapping[str, float] = field(default_factory=dict)
    result: Result | None = None
    split: int = 0

    @property
    def terms(self) -> Terms:
        """The terms in force at the end."""
        return Terms.from_json(next(e.terms for e in reversed(self.entries) if e.kind == "terms"))

    @property
    def agents(self) -> tuple[str, ...]:
        """Everybody who was ever a member, in order of names."""
        return tuple(sorted({line.agent for entry in self.entries for line in entry.lines}))

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self.entries[-1].hash


def read_source(
    folder: Path, *, run: str | None = None, split: int = 0, books: bool = True
) -> Source:
    """Read a run from the folder that `motifair run --out` named, or an operator's folder.

    An operator's folder may hold several runs: `run` names one. A simulation may have several
    splits: `split` chooses one. A simulation whose payoffs are never settled is refused, unless
    `books=False` says that `entries` may be empty.
    """
    if (folder / TERMS).exists():
        return _deployed(folder, run)
    if run is not None:
        raise MotifairError(f"{folder} holds one simulated run; leave the name of the run out.")
    return _simulated(folder, split, books)


def _simulated(folder: Path, split: int, books: bool) -> Source:
    result = load_result(folder)
    if not 0 <= split < len(result.splits):
        raise MotifairError(
            f"{folder} has {len(result.splits)} splits, numbered from 0; there is no {split}."
        )
    chosen = result.splits[split]
    settled = books or result.config.payoff not in SIZE_PAYOFFS
    return Source(
        name=f"{result.config.method} on {result.config.dataset}, seed {chosen.seed}",
        run=SIMULATED,
        config=result.config,
        entries=entries_of(result.config, chosen, SIMULATED) if settled else (),
        graphs=dict(zip(chosen.names, chosen.graphs, strict=True)),
        motifs=_motifs(folder, split),
        accuracy={n: float(a) for n, a in zip(chosen.names, chosen.accuracy, strict=True)},
        result=result,
        split=split,
    )


def _motifs(folder: Path, split: int) -> dict[str, tuple[str, ...]]:
    """Find the agents' motifs again; none where the method has none or the data are gone."""
    try:
        plan = read_plan(folder)
    except MotifairError:
        return {}
    if not make_method(plan.config).uses_motifs:
        return {}
    data = split_data(plan, split)
    found = vocabularies(plan.config, data, list(data.partition.train))
    return {name: own.keys for name, own in zip(data.names, found, strict=True)}


def read_ledger(where: str, run: str | None = None) -> tuple[Entry, ...]:
    """Read the entries of a run, which must be named where the ledger has several."""
    from motifair.ledger.store import open_ledger

    with open_ledger(where, write=False) as ledger:
        runs = ledger.runs()
        if not runs:
            raise MotifairError(f"There is nothing in the ledger {ledger.name} yet.")
        if run is None and len(runs) != 1:
            raise MotifairError(
                f"The ledger {ledger.name} has {len(runs)} runs ({', '.join(runs)}); name one."
            )
        name = run or runs[0]
        if name not in runs:
            raise MotifairError(
                f"There is no run '{name}' in {ledger.name}; it has {', '.join(runs)}."
            )
        return tuple(ledger.entries(name))


def _deployed(folder: Path, run: str | None) -> Source:
    # Only here: a simulation is read without the extra that a ledger needs.
    from motifair.deployment.office import Office
    from motifair.federation.drive import POSITION, RESULT
    from motifair.federation.positions import load_position

    office = Office(folder)
    entries = read_ledger(office.ledger, run)
    name = entries[0].run
    position = load_position(office.run(name) / POSITION)
    roster = () if position is None else position.roster
    path = office.run(name) / RESULT
    terms = next(Terms.from_json(e.terms) for e in reversed(entries) if e.kind == "terms")
    return Source(
        name=f"{office.terms.name}, run {name}",
        run=name,
        config=make_config(terms.config),
        entries=entries,
        ledger=office.ledger,
        graphs={j.name: j.graphs for j in roster},
        motifs={j.name: j.motifs for j in roster},
        accuracy=read_json(path)["accuracy"] if path.exists() else {},
    )
