"""What statements and reports read of a run, simulated or between machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.experiments.plan import split_data
from motifair.experiments.result import Result, load_result
from motifair.experiments.simulated_ledger import entries_of
from motifair.federation.members import vocabularies
from motifair.files import read_json
from motifair.mechanism.payoff import SIZE_PAYOFFS
from motifair.methods import make_method
from motifair.motifs.vocabulary import of_dataset
from motifair.statements.entry import AgreedTerms, Entry
from motifair.statements.verification import Verdict

SIMULATED = "simulation"


@dataclass(frozen=True)
class Source:
    """What is known of a run.

    `entries` are those of the ledger, or what a ledger would hold of a simulated split. `ledger`
    says where that ledger is and `verdict` whether it fits, None for a simulation. `graphs` and
    `motifs` are how many graphs each agent trains on, and the keys of its motifs; empty where
    unknown; `counted` is how many of the graphs count under the terms, `seconds` how long each
    agent's answers took in the median round. `accuracy` is each agent's after the last round.
    `result` and `split` are those of a simulation, `federation` is the name of one between
    machines.
    """

    name: str
    run: str
    config: Config
    entries: tuple[Entry, ...]
    ledger: str | None = None
    verdict: Verdict | None = None
    graphs: Mapping[str, int] = field(default_factory=dict)
    motifs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    counted: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    accuracy: Mapping[str, float] = field(default_factory=dict)
    result: Result | None = None
    split: int = 0
    federation: str = ""

    @property
    def terms(self) -> AgreedTerms:
        """The terms in force at the end."""
        return AgreedTerms.from_json(
            next(e.terms for e in reversed(self.entries) if e.kind == "terms")
        )

    @property
    def agents(self) -> tuple[str, ...]:
        """All agents that were ever members, sorted by name."""
        return tuple(sorted({line.agent for entry in self.entries for line in entry.lines}))

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self.entries[-1].hash


def read_simulation(folder: str | Path, *, split: int = 0, books: bool = True) -> Source:
    """Read a run from the folder that `motifair run --out` named; see `source_of`."""
    return source_of(load_result(folder), split=split, books=books)


def source_of(result: Result, *, split: int = 0, books: bool = True) -> Source:
    """Return what is known of a simulated run; `split` chooses one of several.

    A simulation whose payoffs are never settled is refused, unless `books=False` says that
    `entries` may be empty.
    """
    chosen = result.get_split(split)
    settled = books or result.config.payoff not in SIZE_PAYOFFS
    return Source(
        name=f"{result.config.method} on {result.config.dataset}, seed {chosen.seed}",
        run=SIMULATED,
        config=result.config,
        entries=entries_of(result.config, chosen, SIMULATED) if settled else (),
        graphs=dict(zip(chosen.names, chosen.graphs, strict=True)),
        motifs=_motifs(result, split),
        accuracy={n: float(a) for n, a in zip(chosen.names, chosen.accuracy, strict=True)},
        result=result,
        split=split,
    )


def _motifs(result: Result, split: int) -> dict[str, tuple[str, ...]]:
    """Find the agents' motifs again; none where the method has none or the data are gone."""
    if not make_method(result.config).uses_motifs:
        return {}
    try:
        plan = result.origin.plan
    except MotifairError:
        return {}
    data = split_data(plan, split)
    motifs = {}
    for part in data.parts or (data,):
        found = vocabularies(plan.config, part, list(part.partition.train))
        for name, own in zip(part.names, found, strict=True):
            motifs[name] = own.keys
            if data.parts:
                motifs[name] = tuple(of_dataset(part.graphs.name, own.keys))
    return {name: motifs[name] for name in data.names}


def run_folders(folder: Path) -> list[Path]:
    """Return the folder of a simulated run itself, or those of a comparison, in its order."""
    if not folder.is_dir():
        raise MotifairError(f"There is no folder {folder}; give the one that --out named.")
    if (folder / "config.json").exists():
        return [folder]
    inside = sorted(p.parent for p in folder.glob("*/summary.json"))
    if not inside:
        raise MotifairError(f"{folder} holds no run; give the folder that --out named.")
    order = _compared(folder)
    return sorted(inside, key=lambda p: order.get(p.name, len(order)))


def _compared(folder: Path) -> dict[str, int]:
    try:
        rows = read_json(folder / "comparison.json")["measures"]
        return {row["method"]: place for place, row in enumerate(rows)}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
