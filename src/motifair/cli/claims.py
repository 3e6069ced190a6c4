"""`motifair federation ask` and `answer`: whether the graphs that a member claims are there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from motifair.cli.shared import Json, print_json
from motifair.errors import MotifairError
from motifair.extras import require


def ask(
    member: Annotated[str, typer.Argument(help="The member that is asked.")],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="File of the question, for the member.")
    ],
    graphs: Annotated[int, typer.Option(min=1, help="How many graphs it has to show.")] = 20,
    run: Annotated[str, typer.Option("--run", help="Name of the run.")] = "run-1",
    folder: Annotated[Path, typer.Option("--folder", help="The operator's folder.")] = Path(),
) -> None:
    """Ask a member to show graphs that it claims to have, drawn by the ledger's last hash."""
    require("federation", "A federation between machines")
    from motifair.consortium.claims import ask as draw
    from motifair.consortium.operator_folder import OperatorFolder
    from motifair.files import check_target, write_atomic

    check_target(out)
    operator = OperatorFolder(folder)
    question = draw(operator.terms, operator.run(run), run, member, graphs)
    write_atomic(out, question.to_json())
    typer.echo(
        f"{len(question.asked)} of {question.claimed} graphs of {member} were drawn by entry "
        f"{question.entry}. It answers with: motifair federation answer {out} --kit KIT --graphs "
        "GRAPHS"
    )


def answer(
    question: Annotated[Path, typer.Argument(help="The operator's question.")],
    kit: Annotated[Path, typer.Option(help="The member's startup kit.")],
    graphs: Annotated[Path, typer.Option(help="The member's graphs, as its agent reads them.")],
    as_json: Json = False,
) -> None:
    """Look for the graphs of a question among a member's; exit code 1 if some are not there.

    An auditor runs this at the member's desk, and looks at the graphs. Nothing is sent.
    """
    require("federation", "A federation between machines")
    from motifair.consortium.claims import Question
    from motifair.consortium.claims import answer as find
    from motifair.consortium.members_key import read_members_key
    from motifair.consortium.terms import read_terms
    from motifair.consortium.transports.nvflare.kits import name_of
    from motifair.graphs.csv_file import Columns
    from motifair.graphs.read import read_graphs

    asked = Question.read(question)
    if (name := name_of(kit)) != asked.member:
        raise MotifairError(f"The question is for {asked.member}, and the kit is of {name}.")
    terms = read_terms(kit / "local" / "federation.toml")
    read = read_graphs(graphs, Columns(terms.config.smiles, terms.config.targets))
    found = find(asked, terms, read, read_members_key(kit, terms.members_key))
    if as_json:
        print_json(found.to_json())
    else:
        typer.echo(str(found))
    if found.missing:
        raise typer.Exit(1)
