"""Backups of an operator's folder: one archive with a SHA-256 of every file."""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
import sqlite3
import tarfile
import tempfile
import time
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from motifair.consortium.operator_folder import OperatorFolder
from motifair.errors import MotifairError
from motifair.files import check_target, read_json, write_atomic
from motifair.version import __version__

FORMAT = "motifair-backup-1"
MANIFEST = "backup.json"
# Of a kit only what its owner was given: the rest is the engine's workspace.
PATTERNS = (
    "federation.toml", "operator.key", "operator.pub", "authority/**/*", "requests/*", "members/*",
    "kits/*/startup/**/*", "kits/*/local/**/*", "runs/*/position-*", "runs/**/*",
)  # fmt: skip


def backup(operator: OperatorFolder, out: Path) -> bool:
    """Write a folder to `out` (.tar.gz), also while it is in use; return whether the
    ledger is in it.

    Positions are copied before the ledger, and uploads after it: then whatever entries the ledger
    has beyond the positions, their uploads are there, and `rebuild` gives the positions again.
    """
    check_target(out)
    ledger, folder = operator.terms.ledger, operator.folder
    sums: dict[str, str] = {}

    def write(temporary: Path) -> None:
        temporary.touch(0o600)  # it holds private keys
        with tarfile.open(temporary, "w:gz", compresslevel=1) as archive:
            for path in _files(folder):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    mode = path.stat().st_mode & 0o700
                    _add(archive, str(path.relative_to(folder)), path.read_bytes(), sums, mode)
            if (content := _copy_of_ledger(operator)) is not None:
                _add(archive, ledger, content, sums)
            for path in sorted(folder.glob("runs/*/uploads/*/*.bin")):
                _add(archive, str(path.relative_to(folder)), path.read_bytes(), sums)
            about = {"format": FORMAT, "motifair": __version__, "files": dict(sums)}
            _add(archive, MANIFEST, json.dumps(about).encode(), sums)

    write_atomic(out, write)
    return ledger in sums


def restore(archive: Path, folder: Path) -> OperatorFolder:
    """Unpack a backup into a new folder; refuse one that is damaged, leaving nothing behind."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise MotifairError(f"{folder} is not empty; name a new folder with --folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    before = os.umask(0o077)
    try:
        with tarfile.open(archive) as content:
            content.extractall(temporary, filter="data")
        _check(temporary, archive)
        with suppress(FileNotFoundError):
            folder.rmdir()
        temporary.rename(folder)
    except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error) as error:
        raise MotifairError(
            f"{archive} cannot be restored ({error}); use another backup."
        ) from error
    finally:
        os.umask(before)
        shutil.rmtree(temporary, ignore_errors=True)
    return OperatorFolder(folder)


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder but ledger and uploads, positions before the rest of a run."""
    found: dict[Path, None] = {}
    for pattern in PATTERNS:
        found |= dict.fromkeys(sorted(p for p in folder.glob(pattern) if p.is_file()))
    return [p for p in found if p.name[0] != "." and p.suffix != ".bin"]


def _add(
    archive: tarfile.TarFile, name: str, content: bytes, sums: dict[str, str], mode: int = 0o600
) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mode, about.mtime = len(content), mode, int(time.time())
    archive.addfile(about, io.BytesIO(content))
    sums[name] = hashlib.sha256(content).hexdigest()


def _copy_of_ledger(operator: OperatorFolder) -> bytes | None:
    """Return a ledger in the folder as it is at one instant; None if it is elsewhere."""
    source = Path(operator.ledger)
    if not source.is_relative_to(operator.folder.resolve()) or not source.is_file():
        return None
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "ledger"
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(copy)) as new:
            old.backup(new)
        return copy.read_bytes()


def _check(folder: Path, archive: Path) -> None:
    about: dict[str, Any] = read_json(folder / MANIFEST)
    if about.get("format") != FORMAT:
        raise MotifairError(f"{archive} is no backup of this version ({FORMAT}); use another one.")
    (folder / MANIFEST).unlink()
    for name, total in about["files"].items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != total:
            raise MotifairError(f"{archive} is damaged ({name} differs); use another backup.")
