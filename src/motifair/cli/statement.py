"""`motifair statement`: what an agent was paid and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from motifair.cli.ledger import Key, read_operator
from motifair.cli.sources import read_source
from motifair.errors import MotifairError

if TYPE_CHECKING:
    from motifair.statements.statement import Statement


def statement(
    agent: Annotated[str, typer.Option(help="Name of the agent.")],
    run: Annotated[
        Path | None, typer.Option(help="Folder of `motifair run --out`, or an operator's folder.")
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(help="A ledger without a folder: SQLite file, or PostgreSQL URL."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the run, if the ledger has several.")
    ] = None,
    operator_key: Key = None,
    split: Annotated[int, typer.Option(help="Split of a simulated run, from 0.")] = 0,
    round_: Annotated[int | None, typer.Option("--round", help="Only this round.")] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", help="text, json, html or pdf; default by the suffix of FILE, or text."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to write (.txt, .json, .html or .pdf); default: the terminal.",
        ),
    ] = None,
) -> None:
    """Print what an agent was paid, why, and how to verify it."""
    from rich.console import Console

    from motifair.files import check_target, choose_format, write_atomic
    from motifair.report.statement import SUFFIXES, as_format

    kind = choose_format(format_, out, SUFFIXES, "statement")
    if kind == "pdf" and out is None and _is_terminal():
        raise MotifairError("A PDF cannot be printed to the terminal; name a file with --out FILE.")
    if out is not None:
        check_target(out)
    made = _read(run, ledger, agent, name, split, read_operator(operator_key))
    width = Console().width if out is None else 100
    content = as_format(made if round_ is None else made.only(round_), kind, width)
    if out is not None:
        write_atomic(out, content)
        typer.echo(f"Written to {out}")
    else:
        typer.echo(content, nl=False)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _read(
    run: Path | None, ledger: str | None, agent: str, name: str | None, split: int, operator: str
) -> Statement:
    from motifair.statements.statement import make_statement
    from motifair.statements.verification import verify

    more: dict[str, Any] = {}
    if (run is None) == (ledger is None):
        raise MotifairError("Name one run: either --run FOLDER or --ledger FILE_OR_URL.")
    if run is not None:
        source = read_source(run, run=name, split=split)
        entries, graphs, motifs = source.entries, source.graphs, source.motifs
        place, folder = source.ledger, str(run)
        more = {
            "federation": source.federation,
            "accuracy": source.accuracy,
            "counted": source.counted,
            "seconds": source.seconds,
        }
    else:
        from motifair.consortium.source import read_ledger

        assert ledger is not None
        entries, graphs, motifs = read_ledger(ledger, name), {}, {}
        place, folder = ledger, None
    verdict = verify(entries, operator=operator)
    if not verdict.fits:
        raise MotifairError(f"A statement needs a verified ledger. {verdict}")
    return make_statement(
        entries,
        agent,
        graphs=graphs,
        motifs=motifs,
        ledger=place,
        folder=folder,
        split=split,
        **more,
    )
