"""`motifair federation ask`, `answer` and `settle`: whether the graphs that members claim exist."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from motifair.cli.shared import Json, print_json
from motifair.extras import require

Run = Annotated[str, typer.Option("--run", help="Name of the run.")]
Folder = Annotated[Path, typer.Option("--folder", help="The operator's folder.")]


def ask(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the questions, one for each member.")
    ],
    run: Run = "run-1",
    folder: Folder = Path(),
) -> None:
    """After the last round: write questions to the members that the ledger's last hash drew."""
    require("federation", "A federation between machines")
    from motifair.consortium.closing import ask as draw
    from motifair.consortium.operator_folder import OperatorFolder
    from motifair.files import write_atomic

    asked = draw(OperatorFolder(folder), run)
    out.mkdir(parents=True, exist_ok=True)
    for question in asked:
        path = out / f"question-{question.member}.json"
        write_atomic(path, json.dumps(question.to_json(), indent=2))
        typer.echo(
            f"{question.member} is to show {len(question.asked)} of {question.claimed} graphs. It "
            f"answers with: motifair federation answer {path} --kit KIT --graphs GRAPHS --out FILE"
        )
    if not asked:
        typer.echo("Nobody was drawn.")
    typer.echo("Then record it with: motifair federation settle FILE ...")


def answer(
    question: Annotated[Path, typer.Argument(help="The operator's question.")],
    kit: Annotated[Path, typer.Option(help="The member's startup kit.")],
    graphs: Annotated[Path, typer.Option(help="The member's graphs, as its agent reads them.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of the signed answer, for `settle`.")
    ] = None,
    refuse: Annotated[
        list[int] | None,
        typer.Option(help="A graph shown that the auditor does not accept; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look for the graphs of a question among a member's; exit code 1 if some are not there.

    An auditor runs this at the member's desk, and looks at the graphs. Nothing is sent.
    """
    require("federation", "A federation between machines")
    from motifair.consortium.agent_process import own_key
    from motifair.consortium.claims import Question
    from motifair.consortium.closing import show
    from motifair.consortium.keys import signer
    from motifair.files import check_target, write_atomic

    if out is not None:
        check_target(out)
    found = show(Question.read(question), kit, graphs).refused(refuse or [])
    if out is not None:
        found = found.signed(signer(own_key(kit)))
        write_atomic(out, json.dumps(found.to_json(), indent=2))
    if as_json:
        print_json(found.to_json())
    else:
        typer.echo(str(found))
    if found.missing:
        raise typer.Exit(1)


def settle(
    answers: Annotated[list[Path] | None, typer.Argument(help="The members' answers.")] = None,
    run: Run = "run-1",
    folder: Folder = Path(),
) -> None:
    """Record the audit of claims as the ledger's last entry: answers, and fines where due.

    A member that gave no answer in the days of the terms pays the fine, too.
    """
    require("federation", "A federation between machines")
    from motifair.consortium.closing import settle as record
    from motifair.consortium.operator_folder import OperatorFolder

    for line in record(OperatorFolder(folder), run, answers or []):
        typer.echo(line)
