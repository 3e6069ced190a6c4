"""`motifair statement`: what an agent was paid and why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motifair.cli.ledger import Key, read_operator
from motifair.cli.sources import read_source
from motifair.errors import MotifairError

if TYPE_CHECKING:
    from motifair.statements.statement import Statement

FORMATS = ("text", "json", "html", "pdf")
SUFFIXES = {".txt": "text", ".json": "json", ".html": "html", ".pdf": "pdf"}


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
    from motifair.files import check_target, write_atomic

    kind = choose_format(format_, out)
    if kind == "pdf" and out is None and _is_terminal():
        raise MotifairError("A PDF cannot be printed to the terminal; name a file with --out FILE.")
    if out is not None:
        check_target(out)
    made = _read(run, ledger, agent, name, split, read_operator(operator_key))
    content = _render(made if round_ is None else made.only(round_), kind, out is None)
    if out is not None:
        write_atomic(out, content)
        typer.echo(f"Written to {out}")
    else:
        typer.echo(content, nl=False)


def choose_format(asked: str | None, out: Path | None) -> str:
    """Return the format named by --format or by the suffix of the file; refuse a contradiction.

    >>> choose_format(None, None), choose_format(None, Path("s.pdf")), choose_format("html", None)
    ('text', 'pdf', 'html')
    """
    if asked is not None and asked not in FORMATS:
        raise MotifairError(f"There is no format {asked}; there are {', '.join(FORMATS)}.")
    if out is None or not out.suffix:
        return asked or "text"
    named = SUFFIXES.get(out.suffix.lower())
    if named is None:
        raise MotifairError(
            f"{out} has an unknown suffix {out.suffix}; use one of {', '.join(SUFFIXES)}."
        )
    if asked not in (None, named):
        raise MotifairError(
            f"{out} has the suffix of {named}, but --format says {asked}; omit --format, or rename "
            "the file."
        )
    return named


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _read(
    run: Path | None, ledger: str | None, agent: str, name: str | None, split: int, operator: str
) -> Statement:
    from motifair.statements.statement import make_statement
    from motifair.statements.verification import verify

    if (run is None) == (ledger is None):
        raise MotifairError("Name one run: either --run FOLDER or --ledger FILE_OR_URL.")
    if run is not None:
        source = read_source(run, run=name, split=split)
        entries, graphs, motifs = source.entries, source.graphs, source.motifs
        place, folder = source.ledger, str(run)
    else:
        from motifair.consortium.source import read_ledger

        assert ledger is not None
        entries, graphs, motifs = read_ledger(ledger, name), {}, {}
        place, folder = ledger, None
    verdict = verify(entries, operator=operator)
    if not verdict.fits:
        raise MotifairError(f"A statement needs a verified ledger. {verdict}")
    return make_statement(
        entries, agent, graphs=graphs, motifs=motifs, ledger=place, folder=folder, split=split
    )


def _render(made: Statement, format_: str, terminal: bool) -> str | bytes:
    from motifair.report.statement import as_html, as_pdf, as_text

    if format_ == "json":
        return json.dumps(made.to_json(), indent=2, ensure_ascii=False) + "\n"
    if format_ == "html":
        return as_html(made)
    if format_ == "pdf":
        return as_pdf(made)
    from rich.console import Console

    return as_text(made, Console().width if terminal else 100)
