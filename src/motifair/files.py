"""Files that are either whole or not there."""

from __future__ import annotations

import errno
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
        # Under a file there is nothing to remove, and that is an error, too.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise MotifairError(
            f"{path} cannot be written ({error.strerror}); make room on the disk, or check who may "
            "write there."
        ) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush(path.parent)


def write_private(path: Path, content: bytes | str) -> None:
    """Write a file atomically that nobody but its owner can read."""

    def write(temporary: Path) -> None:
        temporary.touch(0o600, exist_ok=False)
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)

    write_atomic(path, write)


def check_target(path: Path) -> None:
    """Refuse a file that cannot be written, before the work whose result it is to hold."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # Rights do not tell everything: a disk may be full, or for reading only.
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            pass
    except OSError as error:
        raise MotifairError(
            f"{path} cannot be written ({error.strerror}); name a file in an existing folder "
            "that you may write to."
        ) from error


@contextmanager
def file_errors() -> Iterator[None]:
    """Turn what the file system refuses into one sentence with the path."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise  # not about a file: a broken pipe, a connection
        raise MotifairError(
            f"{error.filename or 'A file'} cannot be used ({error.strerror}); check the path, who "
            "may write there, and the room on the disk."
        ) from error


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
