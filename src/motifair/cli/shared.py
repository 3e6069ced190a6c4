"""Options that several commands take, and what they print as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from motifair.cli import complete
from motifair.files import finite

DataDir = Annotated[Path | None, typer.Option(help="Folder with datasets.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.", autocompletion=complete.device)]
Threads = Annotated[int | None, typer.Option(min=1, help="Workers; default all usable cores.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Summary = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def print_json(content: Any) -> None:
    """Print indented JSON, with null for NaN."""
    typer.echo(json.dumps(finite(content), indent=2))
