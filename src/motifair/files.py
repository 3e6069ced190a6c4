"""Files that are either whole or not there."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from motifair.errors import MotifairError


def write_atomic(path: Path, content: bytes | str | Callable[[Path], None]) -> None:
    """Write to a temporary name beside `path`, flush it to disk, rename it into place.

    Large content need not be made in memory: then `content` writes to the path it is given.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        if callable(content):
            content(temporary)
        else:
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        _flush(temporary)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise MotifairError(
            f"{path} cannot be written ({error.strerror}); make room on the disk, or check who may "
            "write there."
        ) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush(path.parent)


def _flush(path: Path) -> None:
    """Make sure that a file or folder is on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically, in a stable and readable form (NaN is written as null)."""
    write_atomic(path, json.dumps(finite(content), indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text())


def finite(content: Any) -> Any:
    """Replace NaN by None and an infinity by its name: JSON knows neither."""
    if isinstance(content, dict):
        return {str(k): finite(v) for k, v in content.items()}
    if isinstance(content, list | tuple):
        return [finite(v) for v in content]
    if isinstance(content, float):
        if content != content:
            return None
        if content in (float("inf"), float("-inf")):
            return "inf" if content > 0 else "-inf"
    return content


def cache_folder(room: str) -> Path:
    """Return (and make) the folder where `room` may keep what it can make again."""
    root = os.environ.get("MOTIFAIR_CACHE")
    base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "motifair"
    folder = base.expanduser() / room
    folder.mkdir(parents=True, exist_ok=True)
    return folder
