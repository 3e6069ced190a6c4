"""Signatures of uploads and entries: RSA with SHA-256, verified with the public keys in the terms.

A module of its own because it needs `cryptography`, which simulations do not.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from motifair.errors import MotifairError
from motifair.extras import missing

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_public_key,
    )
except ModuleNotFoundError as error:
    raise missing("ledger", "A signature", error.name) from error


def is_signed(key: str, signature: str, message: bytes) -> bool:
    """Return whether a signature (hex) of a message verifies with a public key (PEM)."""
    try:
        _key(key).verify(bytes.fromhex(signature), message, PKCS1v15(), SHA256())
    except (InvalidSignature, ValueError):
        return False
    return True


def is_key(pem: str) -> bool:
    """Return whether a text is a public RSA key (PEM)."""
    try:
        return bool(_key(pem))
    except ValueError:
        return False


def public_text(key: RSAPrivateKey | RSAPublicKey) -> str:
    """Return the public key as PEM."""
    public = key.public_key() if isinstance(key, RSAPrivateKey) else key
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def read_public(path: Path) -> str:
    """Read an operator's public key from a file, as PEM in the form of the terms."""
    try:
        return public_text(_key(path.read_text()))
    except (OSError, ValueError) as error:
        raise MotifairError(
            f"{path} is not a public key of an operator; use local/operator.pub of a member's kit."
        ) from error


@lru_cache(maxsize=4096)
def _key(pem: str) -> RSAPublicKey:
    key = load_pem_public_key(pem.encode())
    if not isinstance(key, RSAPublicKey):
        raise ValueError("not an RSA key")
    return key
