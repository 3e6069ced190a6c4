"""A key that the members of a federation share, and the operator does not have.

With it members hash what the server needs to compare, but not to read: the keys of their motifs
and the fingerprints of their graphs. The terms hold the SHA-256 of the key.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from pathlib import Path

import numpy as np

from motifair.errors import MotifairError
from motifair.files import write_private
from motifair.graphs.fingerprints import CLASS_BYTE, Words

MEMBERS_KEY = "members.key"  # next to a member's kit
_BYTES = 32


def write_members_key(folder: Path) -> tuple[Path, str]:
    """Draw a key and write it to `folder`; return the file, and the key's SHA-256 for the terms."""
    path = folder / MEMBERS_KEY
    if path.exists():
        raise MotifairError(f"{path} exists; keep it, or use another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    key = secrets.token_bytes(_BYTES)
    write_private(path, key.hex() + "\n")
    return path, sha256(key).hexdigest()


def read_members_key(kit: Path, agreed: str) -> bytes:
    """Return the members' key, from the file next to a kit, if its SHA-256 is the one that was
    agreed on; b"" if that is '', so that there is none.
    """
    if not agreed:
        return b""
    path = kit.parent / MEMBERS_KEY
    try:
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError):
        key = b""
    if sha256(key).hexdigest() != agreed:
        raise MotifairError(
            f"{path} is not the key that the members share under these terms; ask another member "
            "for it, not the operator."
        )
    return key


def hashed_motif(key: bytes, motif: str) -> str:
    """Return a motif's key as the server gets it: equal for equal motifs, and nothing else.

    >>> hashed_motif(b"shared", "bond 0 1") == hashed_motif(b"shared", "bond 0 1")
    True
    >>> len(hashed_motif(b"shared", "bond 0 1"))
    32
    """
    return hmac.digest(key, b"motif " + motif.encode(), "sha256").hex()[:32]


def hashed_fingerprints(key: bytes, words: Words) -> Words:
    """Return fingerprints that nobody without the key can compute; the class stays as it is."""
    hashes = [hmac.digest(key, b"graph " + word.tobytes(), "sha256")[:8] for word in words]
    hidden = np.frombuffer(b"".join(hashes), dtype="<u8").astype(np.uint64)
    return hidden & ~CLASS_BYTE | words & CLASS_BYTE
