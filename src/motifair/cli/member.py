"""`motifair federation me`: a member's own view of a federation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from motifair.cli.shared import Json, print_json
from motifair.errors import MotifairError
from motifair.extras import require


def members_key(
    out: Annotated[Path, typer.Option(help="Folder for members.key.")] = Path(),
) -> None:
    """Make a key for the members alone, with which they hash motifs and fingerprints of graphs.

    One member makes it and hands it to the others, not to the operator, who gets the line that is
    printed, for federation.toml.
    """
    require("federation", "A federation between machines")
    from motifair.consortium.members_key import write_members_key

    path, digest = write_members_key(out)
    typer.echo(
        f"Hand {path} to the other members, never to the operator. Each keeps it next to its kit. "
        "For [federation] of the operator's federation.toml:"
    )
    typer.echo(f'members_key = "{digest}"')


def me(
    kit: Annotated[Path, typer.Option(help="The member's startup kit.")],
    state: Annotated[
        Path | None,
        typer.Option(help="Folder of its agent's state; default: MEMBER.state next to the kit."),
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="Name of the run, if it took part in several.")
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(help="A copy of the ledger (SQLite file) or its URL: shows what it was paid."),
    ] = None,
    graphs: Annotated[
        Path | None,
        typer.Option(help="Its graphs: compares its own model with the federation's."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the statement to .txt, .json, .html or .pdf."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a member its rounds, its pay and whether it is worth it; nothing is sent.

    The ledger is verified with the operator's key of the kit and the heads that the agent kept.
    """
    require("federation", "A federation between machines")
    if out is not None and ledger is None:
        raise MotifairError("A statement needs a copy of the ledger; name it with --ledger.")
    from motifair.consortium.member_view import read_member, read_motifs, read_pay, read_worth
    from motifair.files import check_target, choose_format, write_atomic
    from motifair.report.statement import SUFFIXES, as_format
    from motifair.report.verdicts import verdict_on_statement

    kind = "text"
    if out is not None:
        kind = choose_format(None, out, SUFFIXES, "statement")
        check_target(out)
    member = read_member(kit, state, run)
    about: dict[str, Any] = member.to_json()
    lines = [str(member)]
    if ledger is not None:
        verdict, statement = read_pay(member, ledger)
        if out is not None:
            write_atomic(out, as_format(statement, kind))
        about |= {"ledger": verdict.to_json(), "statement": statement.to_json()}
        lines += [verdict_on_statement(statement), str(verdict)]
    if graphs is not None:
        worth = read_worth(member, graphs)
        about["worth"] = worth.to_json()
        lines.append(str(worth))
        if member.terms.members_key:
            about["motifs"] = read_motifs(member, graphs)
            count = len(about["motifs"])
            lines.append(f"The operator knows your {count} motifs by hashes: --json says which.")
    if as_json:
        print_json(about)
        return
    typer.echo("\n\n".join([*lines, *([f"Statement in {out}"] if out else [])]))
