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
from motifair.files import read_json
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
    row: dict[str, Any] = {"run": place.name, "accuracy": None, "gain": None}
    from motifair.evaluation.metrics import find_metric
    from motifair.experiments.compare import FILE, is_comparison

    if is_comparison(place):
        compared = _read(place / FILE)
        names = [str(m.get("method")) for m in compared.get("measures", [])]
        what = f"comparison of {', '.join(names)} on {compared.get('dataset')}"
        yield {**row, "what": what, "state": "finished"}
    elif is_operator_folder(place):
        yield {**row, "what": "federation", "state": "see motifair federation status"}
    elif (place / "config.json").exists():
        options = _read(place / "config.json").get("options", {})
        what = f"{options.get('method')} on {options.get('dataset')}"
        finished = (place / "summary.json").exists()
        mean = _read(place / "summary.json").get("mean", {}) if finished else {}
        reached, metric = mean.get("personalised_accuracy"), find_metric(options.get("metric", ""))
        if metric.words != "accuracy":
            what += f", by {metric.words}"
        measured = {
            "accuracy": None if reached is None else metric.sign * reached,
            "gain": mean.get("gain"),
        }
        state = "finished" if finished else "not finished: motifair resume"
        yield {**row, "what": what, "state": state, **measured}


def _read(path: Path) -> dict[str, Any]:
    """Read a file of a run; a damaged one counts as empty, `motifair show` says what it lacks."""
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _cell(value: float | None) -> str:
    return number(float("nan") if value is None else float(value))
