"""Local settings of a server or site, `local/motifair.json`, and the functions they name."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from motifair.errors import MotifairError
from motifair.files import read_json, write_json

FILE = "motifair.json"


def write_local(kit: Path, content: dict[str, Any]) -> None:
    """Write a kit's `local/motifair.json`, which no job can change."""
    write_json(kit / "local" / FILE, content)


def read_local(kit: Path) -> dict[str, Any]:
    """Read a kit's `local/motifair.json`."""
    path = kit / "local" / FILE
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise MotifairError(
            f"{path} cannot be read ({error}). Restart this server or agent."
        ) from error
    if not isinstance(content, dict):
        raise MotifairError(f"{path} has no settings in it. Restart this server or agent.")
    return content


def named(name: str) -> Callable[..., Any]:
    """Return the function named "package.module:function".

    >>> named("motifair.errors:nearest").__name__
    'nearest'
    """
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name):
        raise MotifairError(f"'{name}' names no function; write package.module:function.")
    module, _, function = name.partition(":")
    gc.disable()  # nothing that is imported is garbage: to look for it takes half a second
    try:
        value = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise MotifairError(f"There is no function {name} here ({error}).") from error
    finally:
        gc.enable()
    if not callable(value):
        raise MotifairError(f"{name} is not a function.")
    return value  # type: ignore[no-any-return]


def our_own(name: str) -> Callable[..., Any]:
    """Like `named`, but only for functions defined in motifair: a job may name no others.

    >>> our_own("motifair.files:json")
    Traceback (most recent call last):
    ...
    motifair.errors.MotifairError: motifair.files:json is not a function.
    """
    if name.startswith("motifair."):
        function = named(name)
        if getattr(function, "__module__", "").startswith("motifair."):
            return function
    raise MotifairError(f"'{name}' is not a function of motifair; a job may name no others.")
