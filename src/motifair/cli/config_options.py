"""Options of commands, made from the options of `Config`: help, choices and range stand there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field
from typing import Annotated, Any, TypeVar

import typer
from rich.markup import escape

from motifair.cli import complete
from motifair.config import OPTIONS
from motifair.profiles import PROFILES

# Panels of the help.
WHAT, WHO, JUDGED = "What is run", "Who holds what", "What is predicted, and how it is judged"
PANELS = {
    **dict.fromkeys(("agents", "partition", "scenario"), WHO),
    **dict.fromkeys(("smiles", "targets", "task", "metric", "eval_every"), JUDGED),
}
# Defaults that follow from the data.
OWNERS = "chunks, or domains where graphs have owners"

Command = TypeVar("Command", bound=Callable[..., None])


def config_options(*names: str, **defaults: Any) -> Callable[[Command], Command]:
    """Give a command these options of `Config`, in the place of its `**settings`.

    What a user leaves out is None, or as `defaults` say. Values arrive as text, which `Config`
    reads and checks, in the same words wherever they come from.
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        made = [_parameter(OPTIONS[name], defaults.get(name)) for name in names]
        keyword = [p.replace(kind=p.KEYWORD_ONLY) for p in own]
        changed = signature.replace(parameters=[*made, *keyword])
        command.__signature__ = changed  # type: ignore[attr-defined]
        return command

    return decorate


def _parameter(option: Field[Any], default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[_kind(option), _typer_option(option, default)],
    )


def _kind(option: Field[Any]) -> Any:
    return bool | None if isinstance(option.default, bool) else str | None


def _typer_option(option: Field[Any], default: Any) -> Any:
    flag = f"--{option.name.replace('_', '-')}"
    text = option.metadata["help"]
    shown: dict[str, Any] = {
        "help": escape(f"{text[0].upper()}{text[1:]}."),
        "show_default": usual(option) if default is None else True,
        "rich_help_panel": PANELS.get(option.name, WHAT),
    }
    if isinstance(option.default, bool):
        return typer.Option(flag, **shown)
    return typer.Option(
        flag, metavar=values_in_words(option), autocompletion=_completion(option), **shown
    )


def usual(option: Field[Any]) -> str | bool:
    """Return the value that an option has with the default profile, True where it has none.

    >>> usual(OPTIONS["rounds"]), usual(OPTIONS["own_weight"]), usual(OPTIONS["fixed_split"])
    ('200', '0.3', 'no')
    """
    known = {"profile": "default", "partition": OWNERS, **PROFILES["default"]}
    value = known.get(option.name, option.default)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or True


def _completion(option: Field[Any]) -> Any:
    by_name = {"dataset": complete.dataset, "method": complete.method}
    return by_name.get(option.name) or complete.choices(option.name)


def values_in_words(option: Field[Any]) -> str:
    """Say what an option takes.

    >>> values_in_words(OPTIONS["share"]), values_in_words(OPTIONS["dropout"])
    ('all|conv', '<float ≥ 0, ≤ 0.95>')
    """
    rule = option.metadata
    if rule["choices"]:
        return "|".join([*rule["choices"], *(["COLUMN"] if rule["others"] else [])])
    signs = {"above": ">", "least": "≥", "most": "≤", "below": "<"}
    limits = ", ".join(f"{s} {rule[k]}" for k, s in signs.items() if rule[k] is not None)
    return f"<{type(option.default).__name__} {limits}".rstrip() + ">"
