"""`motifair runs`: the runs in a folder, and how far each of them is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from motifair.cli.shared import Json, print_json
from motifair.cli.sources import is_operator_folder
from motifair.errors import MotifairError
from motifair.table import Table, number

HEAD = ("run", "what", "state", "accuracy", "gain")


def list_runs(
    folder: Annotated[Path, typer.Argument(help="Folder whose subfolders are runs.")] = Path(
        "runs"
    ),
    as_json: Json = False,
) -> None:
    """List runs, comparisons and federations: what each of them is, how far, how accurate."""
    if not folder.is_dir():
        raise MotifairError(f"There is no folder {folder}; give the one that runs were written to.")
    rows = [row for place in sorted(folder.iterdir()) for row in _rows(place)]
    if as_json:
        print_json(rows)
        return
    if not rows:
        typer.echo(f"{folder} holds no runs; make one with: motifair run")
        return
    cells = [
        [row["run"], row["what"], row["state"], *(_cell(row[n]) for n in HEAD[3:])] for row in rows
    ]
    Console().print(Table(HEAD, cells, f"Runs in {folder}", (3, 4)).to_rich())
    typer.echo(f"Next: motifair show {folder / rows[0]['run']}")


def _rows(place: Path) -> Iterator[dict[str, Any]]:
    """Yield the row of a folder, if it is a run, a comparison or an operator's folder."""
    from motifair.experiments.listing import describe_run

    listed = describe_run(place)
    if is_operator_folder(place):
        row = {"run": place.name, "what": "federation", "state": "see motifair federation status"}
        yield {**row, "accuracy": None, "gain": None}
    elif listed is not None:
        share = f"{100 * listed.done:.0f} % done" if listed.done else "not finished"
        state = "finished" if listed.finished else f"{share}: motifair resume"
        row = {"run": place.name, "what": listed.what, "state": state}
        yield {**row, "accuracy": listed.accuracy, "gain": listed.gain}


def _cell(value: float | None) -> str:
    return number(float("nan") if value is None else float(value))
