"""Files that are either whole or not there."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write to a temporary name beside `path`, flush it to disk, rename it into place."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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
