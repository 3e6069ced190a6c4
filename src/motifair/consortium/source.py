"""Runs of a federation as sources of statements and reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motifair.config import make_config
from motifair.consortium.checkpoint import load_checkpoint
from motifair.consortium.lateness import ANSWERS, usual_seconds
from motifair.consortium.operator_folder import OperatorFolder
from motifair.consortium.rounds import RESULT
from motifair.consortium.run_state import JoinedMember, believed_sizes, counted_sizes
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.terms import FederationTerms
from motifair.errors import MotifairError
from motifair.files import damaged_files, read_json
from motifair.report.source import Source
from motifair.statements.entry import AgreedTerms, Entry
from motifair.statements.verification import Verdict, verify_run


def read_deployed(folder: Path, run: str | None = None) -> Source:
    """Read a run from an operator's folder; name the `run` if there are several."""
    operator = OperatorFolder(folder)
    entries, verdict = _read(operator.ledger, run)
    name = entries[0].run
    checkpoint = load_checkpoint(operator.run(name))
    roster = () if checkpoint is None else checkpoint.roster
    path = operator.run(name) / RESULT
    terms = next(AgreedTerms.from_json(e.terms) for e in reversed(entries) if e.kind == "terms")
    return Source(
        name=f"{operator.terms.name}, run {name}",
        federation=operator.terms.name,
        run=name,
        config=make_config(terms.config),
        entries=entries,
        ledger=operator.ledger,
        verdict=verdict,
        graphs={j.name: j.graphs for j in roster},
        counted=_counted(operator.terms, roster),
        seconds=usual_seconds(operator.run(name) / ANSWERS),
        motifs={j.name: j.motifs for j in roster},
        accuracy=read_accuracy(path),
    )


def _counted(terms: FederationTerms, roster: Sequence[JoinedMember]) -> dict[str, float]:
    """Return how many of each member's graphs count under the terms."""
    if not roster:
        return {}
    told = all(j.summary is not None for j in roster)  # not if they joined under other terms
    believed = believed_sizes(terms, roster) if told else None
    counted = counted_sizes(terms, roster) if believed is None else believed
    return {j.name: float(n) for j, n in zip(roster, counted, strict=True)}


def read_accuracy(path: Path) -> dict[str, float]:
    """Return the final accuracies of a finished run from its result; none if there is no result."""
    if not path.exists():
        return {}
    with damaged_files(path.parent):
        return {str(name): float(value) for name, value in read_json(path)["accuracy"].items()}


def read_ledger(where: str, run: str | None = None) -> tuple[Entry, ...]:
    """Read the entries of a run of a ledger; name the `run` if there are several."""
    return _read(where, run)[0]


def _read(where: str, run: str | None) -> tuple[tuple[Entry, ...], Verdict]:
    with open_ledger(where, write=False) as ledger:
        runs = ledger.runs()
        if not runs:
            raise MotifairError(f"The ledger {ledger.name} has no entries yet.")
        if run is None and len(runs) != 1:
            raise MotifairError(
                f"The ledger {ledger.name} has {len(runs)} runs ({', '.join(runs)}); name one."
            )
        name = run or runs[0]
        if name not in runs:
            raise MotifairError(
                f"There is no run '{name}' in {ledger.name}; it has {', '.join(runs)}."
            )
        return tuple(ledger.entries(name)), verify_run(ledger, name)
