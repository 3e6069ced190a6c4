"""Options that several commands take, and what they print as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from motifair.cli import complete
from motifair.errors import MotifairError
from motifair.files import finite

if TYPE_CHECKING:
    from motifair.graphs.csv_file import Columns

WHERE = "Where it runs"  # a panel of the help

DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder with datasets.",
        show_default="MOTIFAIR_DATA, or they are downloaded",
        rich_help_panel=WHERE,
    ),
]
Device = Annotated[
    str,
    typer.Option(help="auto, cpu or cuda.", autocompletion=complete.device, rich_help_panel=WHERE),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Workers.", show_default="all usable cores", rich_help_panel=WHERE),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Summary = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


Smiles = Annotated[str | None, typer.Option(help="Column of a CSV file with SMILES.")]
Targets = Annotated[
    str | None, typer.Option(help="Columns of a CSV file to predict, joined by commas, or all.")
]


def choose_columns(path: Path, smiles: str | None, targets: str | None) -> Columns:
    """Return which columns are read; refuse to name some of a file that is no table."""
    from motifair.graphs.csv_file import Columns, is_csv

    if (smiles or targets) and not is_csv(path):
        raise MotifairError(f"--smiles and --targets are for CSV files; leave them out for {path}.")
    return Columns(smiles or "", targets)


def print_json(content: Any) -> None:
    """Print indented JSON, with null for NaN."""
    typer.echo(json.dumps(finite(content), indent=2))
