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
        annotation=Annotated[_kind(option), _typer_option(option)],
    )


def _kind(option: Field[Any]) -> Any:
    return bool | None if isinstance(option.default, bool) else str | None


def _typer_option(option: Field[Any]) -> Any:
    flag = f"--{option.name.replace('_', '-')}"
    text = option.metadata["help"]
    help_text = escape(f"{text[0].upper()}{text[1:]}.")
    if isinstance(option.default, bool):
        return typer.Option(flag, help=help_text)
    return typer.Option(
        flag, help=help_text, metavar=values_in_words(option), autocompletion=_completion(option)
    )


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
