"""`motifair options`: what can be set, what it means, and who uses it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from motifair.cli.config_options import values_in_words
from motifair.config import OPTIONS, Config, range_in_words


def list_options(
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the options: what each one takes and means, its defaults, and which methods use it."""
    rows = option_rows()
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    for row in rows:
        default = f"default {row['default']}"
        if row["paper"] != row["default"] and row["option"] != "profile":
            default += f", in the profile paper {row['paper']}"
        takes = values_in_words(OPTIONS[row["option"]])
        console.print(Text.assemble((row["option"], "bold"), f"  {takes}  {default}"))
        used = "" if row["methods"] is None else f" Used by {', '.join(row['methods'])}."
        console.print(Padding(Text(f"{row['meaning']}.{used}"), (0, 0, 0, 4)))


def option_rows() -> list[dict[str, Any]]:
    """Return the options; `methods` is None where all of them use it."""
    from motifair.methods import MECHANISM_OPTIONS, all_methods

    default, paper = Config().to_json(), Config(profile="paper").to_json()
    known = all_methods().values()
    return [
        {
            "option": name,
            "type": type(option.default).__name__,
            "choices": list(option.metadata["choices"]),
            "range": range_in_words(option.metadata),
            "default": default[name],
            "paper": paper[name],
            "meaning": option.metadata["help"],
            "methods": [m.name for m in known if name in m.options]
            if name in MECHANISM_OPTIONS
            else None,
        }
        for name, option in OPTIONS.items()
    ]
