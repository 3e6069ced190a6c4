"""Options: declared with default, help and range, read from files and words, checked."""

from __future__ import annotations

import json
import math
import operator
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import Field, field
from pathlib import Path
from typing import Any

from motifair.errors import MotifairError

LIMITS: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "above": ("greater than", operator.gt),
    "least": ("at least", operator.ge),
    "most": ("at most", operator.le),
    "below": ("less than", operator.lt),
}

# Options of earlier versions: the value that is now fixed, and why.
REMOVED = {
    "report": (
        "final",
        "accuracies are those after the last round, since one chosen on the test set is too high",
    ),
}


def option(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    others: bool = False,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    infinite: bool = False,
) -> Any:
    """Declare an option of the configuration or of a component: default, help and range.

    `others` says that an option takes other values than its choices, too, `infinite` that it may
    be infinite.
    """
    limits = {"above": above, "least": least, "most": most, "below": below}
    rule = {"help": help, "choices": choices, "others": others, "infinite": infinite}
    return field(default=default, metadata={**rule, **limits})


def read_settings(path: Path) -> dict[str, Any]:
    """Return settings from a TOML or JSON file, such as the `config.json` of an earlier run."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise MotifairError(f"--config {path} cannot be read: {reason}.") from error
    try:
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MotifairError(f"--config {path} is not valid {path.suffix[1:]}: {error}.") from error
    options = content.get("options", content) if isinstance(content, dict) else content
    if not isinstance(options, dict):
        raise MotifairError(f"--config {path} must hold options by name.")
    return options


def parse_assignments(assignments: list[str]) -> dict[str, str]:
    """Return the options in `key=value` words.

    >>> parse_assignments(["beta=2"])
    {'beta': '2'}
    """
    options = {}
    for word in assignments:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise MotifairError(f"--set takes key=value, not '{word}'.")
        options[key.strip()] = value.strip()
    return options


def parse_option(name: str, option: Field[Any], value: Any) -> Any:
    """Return a value, as text or a number, in the type of the option."""
    kind: type = type(option.default)
    text = str(value).strip().lower()
    if kind is bool:
        if text in ("true", "yes", "1", "false", "no", "0"):
            return text in ("true", "yes", "1")
        raise MotifairError(f"{name} takes true or false, not '{value}'.")
    if kind is str:
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    try:
        number = float(text)
        if kind is int:
            if not number.is_integer():
                raise ValueError
            return int(number)
        return number
    except (ValueError, OverflowError):
        wanted = "a whole number" if kind is int else "a number"
        raise MotifairError(f"{name} takes {wanted}, not '{value}'.") from None


def range_in_words(rule: Mapping[str, Any]) -> str:
    """Return which numbers an option takes, in words, from its metadata.

    >>> range_in_words(option(0.5, "dropout rate", least=0, most=0.95).metadata)
    'at least 0 and at most 0.95'
    """
    return " and ".join(f"{w} {rule[k]}" for k, (w, _) in LIMITS.items() if rule[k] is not None)


def check_range(name: str, value: Any, rule: Mapping[str, Any]) -> None:
    """Refuse a value outside its choices or limits, and NaN."""
    choices = rule["choices"]
    if choices and value not in choices and not rule["others"]:
        raise MotifairError(f"{name} takes {' or '.join(choices)}, not '{value}'.")
    if isinstance(value, str):
        return
    limits = {k: rule[k] for k in LIMITS if rule[k] is not None}
    if not all(LIMITS[k][1](value, limit) for k, limit in limits.items()):
        raise MotifairError(f"{name} must be {range_in_words(rule)}, not {value}.")
    if value == math.inf and not rule["infinite"]:
        raise MotifairError(f"{name} must be a finite number.")


def without_removed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without removed options; refuse those whose value is no longer possible."""
    for name, (only, reason) in REMOVED.items():
        if settings.get(name, only) != only:
            raise MotifairError(
                f"The option {name}={settings[name]} is no longer there ({reason}); leave it out."
            )
    return {name: value for name, value in settings.items() if name not in REMOVED}
