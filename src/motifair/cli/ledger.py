"""`motifair ledger`: verify, read and export a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from motifair.cli import complete
from motifair.cli.shared import Json, print_json
from motifair.errors import MotifairError
from motifair.table import Table

if TYPE_CHECKING:
    from motifair.consortium.store.ledger import Ledger

AMOUNTS = ("entry", "round", "present", "units", "earned", "penalties", "fine", "balance")

ledger_app = typer.Typer(no_args_is_help=True, help="Verify, read and export a ledger.")

Where = Annotated[str | None, typer.Option("--ledger", help="SQLite file, or PostgreSQL URL.")]
Run = Annotated[
    Path | None, typer.Option("--run", help="Folder of a run that holds ledger.sqlite.")
]
Key = Annotated[
    Path | None,
    typer.Option(
        "--operator-key",
        help="Public key that entries must be signed with: local/operator.pub of a kit.",
    ),
]


@ledger_app.command()
def verify(
    ledger: Where = None,
    run: Run = None,
    heads: Annotated[
        Path | None, typer.Option(help="Member's file of heads, heads.jsonl of its state.")
    ] = None,
    operator_key: Key = None,
    as_json: Json = False,
) -> None:
    """Recompute chain, payoffs and signatures; exit code 1 names the first row that differs."""
    from motifair.statements.verification import read_heads, verify_run

    kept = None
    if heads is not None:
        kept, damaged = read_heads(heads)
        for place in damaged:
            typer.echo(f"{heads}: line {place} cannot be read and was not compared.", err=True)
    operator = read_operator(operator_key)
    with _open(ledger, run) as opened:
        names = sorted({*opened.runs(), *(kept or {})})
        if not names:
            raise MotifairError(f"The ledger {opened.name} has no entries yet.")
        verdicts = [
            verify_run(opened, name, None if kept is None else kept.get(name, ()), operator)
            for name in names
        ]
    if as_json:
        print_json([verdict.to_json() for verdict in verdicts])
    else:
        for verdict in verdicts:
            typer.echo(str(verdict))
    if not all(verdict.fits for verdict in verdicts):
        raise typer.Exit(1)


@ledger_app.command()
def export(
    out: Annotated[Path, typer.Option(help="File to write.")],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="csv, json or parquet; default as the file is named, or csv.",
            autocompletion=complete.table_format,
        ),
    ] = None,
    ledger: Where = None,
    run: Run = None,
    operator_key: Key = None,
) -> None:
    """Write all rounds to a CSV, JSON or Parquet file."""
    from motifair.consortium.store.export import FORMATS
    from motifair.consortium.store.export import export as write
    from motifair.files import choose_format

    kind = choose_format(format_, out, {f".{name}": name for name in FORMATS}, "table")
    operator = read_operator(operator_key)
    with _open(ledger, run) as opened:
        write(opened, out, kind, operator)
    typer.echo(f"Written to {out}")


@ledger_app.command()
def balance(
    ledger: Where = None, run: Run = None, operator_key: Key = None, as_json: Json = False
) -> None:
    """Show earnings, penalties, fines and balance of each member, and what the reserve holds."""
    from motifair.consortium.store.export import balance as balances

    operator = read_operator(operator_key)
    with _open(ledger, run) as opened:
        _print(balances(opened, operator=operator), "Balance", as_json)


@ledger_app.command()
def entries(ledger: Where = None, run: Run = None, as_json: Json = False) -> None:
    """List the entries: terms and rounds, in the order of the chain."""
    from motifair.consortium.store.export import overview, to_json

    with _open(ledger, run) as opened:
        if as_json:
            listed = [e for name in opened.runs() for e in opened.entries(name)]
            print_json(to_json(listed))
        else:
            _print(overview(opened), "Entries", as_json)


def read_operator(path: Path | None) -> str:
    """Read the public key that entries must be signed with; '' if no file is given."""
    if path is None:
        return ""
    from motifair.statements.signatures import read_public

    return read_public(path)


def _open(ledger: str | None, run: Path | None) -> Ledger:
    from motifair.consortium.store.ledger import open_ledger

    if ledger is not None and run is None:
        return open_ledger(ledger, write=False)
    if run is not None and ledger is None:
        return open_ledger(run / "ledger.sqlite", write=False)
    raise MotifairError("Name one ledger: either --ledger FILE_OR_URL or --run FOLDER.")


def _print(rows: list[dict[str, str]], title: str, as_json: bool) -> None:
    """Print rows as a table or as JSON."""
    if as_json:
        print_json(rows)
        return
    head = list(rows[0]) if rows else []
    numbers = [k for k, name in enumerate(head) if name in AMOUNTS]
    Console().print(Table(head, [[*row.values()] for row in rows], title, numbers).to_rich())
