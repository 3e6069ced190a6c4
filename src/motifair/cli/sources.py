"""Which kind of run a folder holds: a simulation, or one between machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from motifair.errors import MotifairError

if TYPE_CHECKING:
    from motifair.report.source import Source


def read_source(
    folder: Path, *, run: str | None = None, split: int = 0, books: bool = True
) -> Source:
    """Read a run from the folder that `motifair run --out` named, or an operator's folder.

    An operator's folder may hold several runs: `run` names one. A simulation may have several
    splits: `split` chooses one.
    """
    from motifair.report.source import read_simulation

    if is_operator_folder(folder):
        # Only here: a simulation is read without the extra that a ledger needs.
        from motifair.consortium.source import read_deployed

        return read_deployed(folder, run)
    if run is not None:
        raise MotifairError(f"{folder} holds one simulated run; leave the name of the run out.")
    return read_simulation(folder, split=split, books=books)


def read_sources(folders: Sequence[Path], run: str | None, split: int) -> dict[Path, Source]:
    """Read runs; a folder that holds several simulated runs stands for all of them."""
    from motifair.report.source import run_folders

    found = dict.fromkeys(
        f for each in folders for f in ([each] if is_operator_folder(each) else run_folders(each))
    )
    if run is not None and not any(is_operator_folder(f) for f in found):
        raise MotifairError("None of the folders is an operator's; leave --run out.")
    return {
        f: read_source(f, run=run if is_operator_folder(f) else None, split=split, books=False)
        for f in found
    }


def is_operator_folder(folder: Path) -> bool:
    """Whether a folder has a federation's terms."""
    from motifair.consortium.terms import TERMS

    return (folder / TERMS).exists()
