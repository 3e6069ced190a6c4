"""`motifair doctor`: whether motifair can work here, and what to do where it cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    ledger: Annotated[
        str | None, typer.Option(help="A ledger to reach: file of SQLite, or URL of PostgreSQL.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with datasets.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Check Python, packages, processor, GPU, kernels, data, cache and ledger; say what to mend.

    Exit code 1 if something fails.
    """
    from motifair.doctor import FAIL, examine

    found = examine(data_dir, ledger)
    if as_json:
        typer.echo(json.dumps([check.to_json() for check in found], indent=2))
    else:
        table = Table(box=SIMPLE_HEAD)
        for name in ("check", "", "found", "fix"):
            table.add_column(name, overflow="fold")
        for c in found:
            table.add_row(
                c.check, f"[{STYLES[c.status]}]{c.status}[/]", _plain(c.found), _plain(c.fix)
            )
        Console().print(table)
    if any(check.status == FAIL for check in found):
        raise typer.Exit(1)


def _plain(words: str) -> str:
    """Keep rich from taking brackets for its own."""
    from rich.markup import escape

    return escape(words)
