"""Atomic file writes, JSON files, file-system errors and the cache folder."""

from __future__ import annotations

import errno
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from motifair.errors import MotifairError


def write_atomic(path: Path, content: bytes | str | Callable[[Path], None]) -> None:
    """Write to a temporary file in the same folder, flush it to disk, rename it to `path`.

    Args:
        path: The file to write or replace.
        content: Bytes or text, or, for content too large for memory, a function that writes it to
            the path it is given.

    Raises:
        MotifairError: If the file cannot be written; `path` is then unchanged.
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
        # If the parent is a file, removing the temporary file fails as well.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise MotifairError(
            f"{path} cannot be written ({error.strerror}); free disk space, or check the "
            "permissions of the folder."
        ) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush(path.parent)


def write_private(path: Path, content: bytes | str) -> None:
    """Write a file atomically that only its owner can read (mode 0600)."""

    def write(temporary: Path) -> None:
        temporary.touch(0o600, exist_ok=False)
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)

    write_atomic(path, write)


def check_target(path: Path) -> None:
    """Raise if a file cannot be written, before the computation whose result it will hold."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # Permissions are not enough: the disk may be full or mounted read-only.
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            pass
    except OSError as error:
        raise MotifairError(
            f"{path} cannot be written ({error.strerror}); give a file in an existing folder "
            "with write permission."
        ) from error


def choose_format(
    asked: str | None, path: Path | None, suffixes: Mapping[str, str], what: str
) -> str:
    """Return the format that is asked for or that the file's suffix names, else the first.

    Two that differ are refused, and a suffix that names none. `what` is what is written.

    >>> kinds = {".csv": "csv", ".json": "json"}
    >>> choose_format(None, Path("a.json"), kinds, "table")
    'json'
    """
    formats = tuple(suffixes.values())
    if asked is not None and asked not in formats:
        raise MotifairError(f"There is no format {asked}; there are {', '.join(formats)}.")
    if path is None or not path.suffix:
        return asked or formats[0]
    named = suffixes.get(path.suffix.lower())
    if named is None:
        raise MotifairError(
            f"{path} has a suffix that is no format of a {what}; use one of {', '.join(suffixes)}."
        )
    if asked not in (None, named):
        raise MotifairError(
            f"{path} has the suffix of {named}, but --format says {asked}; omit --format, or "
            "rename the file."
        )
    return named


@contextmanager
def file_errors() -> Iterator[None]:
    """Turn `OSError` about a file into a `MotifairError` that names the path."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise  # not about a file: a broken pipe, a connection
        raise MotifairError(
            f"{error.filename or 'A file'} cannot be used ({error.strerror}); check the path, its "
            "permissions and the free disk space."
        ) from error


@contextmanager
def damaged_files(folder: Path) -> Iterator[None]:
    """Turn what damaged files of a run raise while they are read into one sentence."""
    try:
        with file_errors():
            yield
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise MotifairError(
            f"The files in {folder} are damaged, or not as this version of motifair writes them "
            f"({type(error).__name__}: {error}); run again into another folder."
        ) from error


def _flush(path: Path) -> None:
    """Flush a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically, indented, with keys in insertion order; NaN is written as null."""
    write_atomic(path, json.dumps(finite(content), indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; raise ValueError if it is none."""
    return parse_json(path.read_text())


def parse_json(text: str) -> Any:
    """Read JSON; raise ValueError if it is none, also where it is nested without end.

    >>> parse_json("[" * 5000)
    Traceback (most recent call last):
    ...
    ValueError: JSON that is nested too deeply
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def finite(content: Any) -> Any:
    """Replace NaN by None and infinities by "inf" and "-inf", which JSON cannot represent.

    >>> finite({"loss": float("nan"), "beta": float("inf")})
    {'loss': None, 'beta': 'inf'}
    """
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


def cache_folder(name: str) -> Path:
    """Return the cache folder `name`, created if needed.

    It is below `$MOTIFAIR_CACHE`, or else below `motifair` in the user's cache folder. Everything
    in it can be computed or downloaded again.
    """
    root = os.environ.get("MOTIFAIR_CACHE")
    base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "motifair"
    folder = base.expanduser() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
