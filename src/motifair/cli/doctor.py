"""`motifair doctor`: check the installation, with a fix for each problem."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from motifair.cli.shared import DataDir, Json, print_json

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    ledger: Annotated[
        str | None, typer.Option(help="Also check this ledger: SQLite file, or PostgreSQL URL.")
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Check Python, packages, processor, GPU, kernels, data, cache and ledger; say how to fix them.

    Exit code 1 if a check fails.
    """
    from motifair.doctor import FAIL, examine

    checks = examine(data_dir, ledger)
    if as_json:
        print_json([check.to_json() for check in checks])
    else:
        table = Table(box=SIMPLE_HEAD)
        for name in ("check", "", "found", "fix"):
            table.add_column(name, overflow="fold")
        for c in checks:
            table.add_row(
                c.check, f"[{STYLES[c.status]}]{c.status}[/]", _plain(c.found), _plain(c.fix)
            )
        Console().print(table)
    if any(check.status == FAIL for check in checks):
        raise typer.Exit(1)


def _plain(text: str) -> str:
    """Escape brackets, which rich would read as markup."""
    from rich.markup import escape

    return escape(text)
