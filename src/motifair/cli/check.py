"""`motifair check`: which defences the terms of a federation have, and what they leave open."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motifair.cli.shared import Json, print_json

if TYPE_CHECKING:
    import pandas as pd


def check(
    terms: Annotated[Path, typer.Option(help="The federation.toml.")],
    as_json: Json = False,
) -> None:
    """Say which defences the terms of a federation have on, and which measured cheats still pay.

    A gain is in percent of an honest member's pay, with its 95 % interval; docs/manipulation.md
    says how it was measured.
    """
    from motifair.consortium.cheats import (
        closed_by_audit,
        defences,
        differences,
        nearest_rule,
        open_cheats,
    )
    from motifair.consortium.terms import read_terms

    agreed = read_terms(terms)
    rule = nearest_rule(agreed)
    on, other, cheats = defences(agreed), differences(agreed, rule), open_cheats(rule)
    closed = closed_by_audit(cheats, agreed.audit)
    if as_json:
        print_json(
            {
                "defences": [asdict(d) for d in on],
                "measured": rule,
                "differences": other,
                "open": cheats[~closed].to_dict("records"),
                "closed by the audit": cheats[closed].to_dict("records"),
            }
        )
        return
    for d in on:
        typer.echo(f"{'on ' if d.on else 'OFF'}  {d.name} ({d.setting})")
    typer.echo(f"\nMeasured with the rule `{rule}`. A cheat that pays, or that harms the others:")
    _list(cheats[~closed])
    if closed.any():
        typer.echo(
            "\nClosed by the audit, whose expected fine is more than these bring without one:"
        )
        _list(cheats[closed])
    if other:
        typer.echo(f"\nNot measured: these terms have {'; '.join(other)}.")


def _list(cheats: pd.DataFrame) -> None:
    for row in cheats.itertuples():
        typer.echo(
            f"  {row.attacker:<8} {row.attack}: {row.gain:+.0f} % "
            f"[{row.gain_low:+.0f}, {row.gain_high:+.0f}], others' accuracy {row.others:+.3f}"
        )
        typer.echo(f"           {row.about}")
    if cheats.empty:
        typer.echo("  none")
