"""Read runs from folders: simulations, or runs between machines."""

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
    """Return the run in a folder of `motifair run --out`, or in an operator's folder.

    An operator's folder may hold several runs: `run` names one. A simulation may have several
    splits: `split` chooses one.
    """
    from motifair.report.source import read_simulation

    if is_operator_folder(folder):
        # Imported here: reading a simulation must not need the extra of the ledger.
        from motifair.consortium.source import read_deployed

        return read_deployed(folder, run)
    if run is not None:
        raise MotifairError(f"{folder} holds one simulated run; leave the name of the run out.")
    return read_simulation(folder, split=split, books=books)


def read_sources(folders: Sequence[Path], run: str | None, split: int) -> dict[Path, Source]:
    """Return runs by folder; a folder of several simulated runs gives all of them."""
    from motifair.report.source import run_folders

    runs = dict.fromkeys(
        f for each in folders for f in ([each] if is_operator_folder(each) else run_folders(each))
    )
    if run is not None and not any(is_operator_folder(f) for f in runs):
        raise MotifairError("None of the folders is an operator's; leave --run out.")
    return {
        f: read_source(f, run=run if is_operator_folder(f) else None, split=split, books=False)
        for f in runs
    }


def is_operator_folder(folder: Path) -> bool:
    """Return whether a folder has the terms of a federation."""
    from motifair.consortium.terms import TERMS

    return (folder / TERMS).exists()
