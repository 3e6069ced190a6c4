"""`motifair report`: runs as one HTML file, and their figures for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from motifair.cli.shared import print_json
from motifair.cli.sources import read_sources

PAGE = "report.html"


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Folders that --out named, of runs or of a comparison, or an operator's.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The page; default report.html in DIR, of several DIR in this folder."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for all figures as SVG, PNG and PDF.")
    ] = None,
    split: Annotated[
        int, typer.Option(min=0, help="Which split the figures of rounds show, from 0.")
    ] = 0,
    run: Annotated[str | None, typer.Option(help="Which run of an operator's folder.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the names of the written files as JSON.")
    ] = False,
) -> None:
    """Write one HTML file that explains runs: figures, payoffs, motifs, configuration, ledger."""
    from motifair.files import check_target
    from motifair.report.page import write_report
    from motifair.report.run_section import make_sections

    errors = Console(stderr=True)
    with errors.status("reading") as status:
        if out is not None:
            check_target(out)
        sections = make_sections(read_sources(folders, run, split))
        page = out or (folders[0] / PAGE if len(folders) == 1 else Path(PAGE))
        written = write_report(sections, page, figures, say=status.update)
    if as_json:
        print_json([str(path) for path in written])
    else:
        typer.echo(f"Report in {page}")
        if figures is not None:
            typer.echo(f"{len(written) - 1} figures in {figures}")
