"""`motifair options`: what can be set, what it means, and who uses it."""

from __future__ import annotations

import json
from dataclasses import Field
from typing import Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from motifair.cli.config_options import values_in_words
from motifair.cli.shared import Json
from motifair.config import OPTIONS, Config
from motifair.options import range_in_words


def list_options(as_json: Json = False) -> None:
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
        console.print(Text.assemble((row["option"], "bold"), f"  {row['takes']}  {default}"))
        used = "" if row["methods"] is None else f" Used by {', '.join(row['methods'])}."
        console.print(Padding(Text(f"{row['meaning']}.{used}"), (0, 0, 0, 4)))


def option_rows() -> list[dict[str, Any]]:
    """Return the options: those of every run, then those of methods, aggregators and valuations.

    `methods` names who uses an option, None where all methods do.
    """
    from motifair.methods import MECHANISM_OPTIONS, all_methods

    default, paper = Config(), Config(profile="paper")
    known = all_methods().values()
    rows = []
    for name, option in OPTIONS.items():
        users = [m.name for m in known if name in m.options]
        row = _row(option, users if name in MECHANISM_OPTIONS else None)
        rows.append(row | {"default": default.value(name), "paper": paper.value(name)})
    return rows + _component_rows()


def _component_rows() -> list[dict[str, Any]]:
    """Return the options that components declare; the same one of several in one row."""
    from motifair.methods import AGGREGATIONS, VALUATIONS, all_methods

    components = [*all_methods().values(), *AGGREGATIONS.all().values(), *VALUATIONS.all().values()]
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for component in components:
        for name, option in component.own_options().items():
            key = (name, option.default, option.metadata["help"])
            row = rows.setdefault(key, _row(option, []))
            row["methods"].append(component.name)
    return list(rows.values())


def _row(option: Field[Any], methods: list[str] | None) -> dict[str, Any]:
    return {
        "option": option.name,
        "type": type(option.default).__name__,
        "takes": values_in_words(option),
        "choices": list(option.metadata["choices"]),
        "range": range_in_words(option.metadata),
        "default": option.default,
        "paper": option.default,
        "meaning": option.metadata["help"],
        "methods": methods,
    }
