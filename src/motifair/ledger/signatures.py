"""Signatures of uploads: RSA with SHA-256, checked against the public keys that the terms hold.

Apart from the rest of the ledger because it needs `cryptography`, which simulations do without.
"""

from __future__ import annotations

from functools import lru_cache

from motifair.extras import missing

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
except ModuleNotFoundError as error:
    raise missing("ledger", "A signature", error.name) from error


def is_signed(key: str, signature: str, message: bytes) -> bool:
    """Tell whether a signature (hex) of a message is by the holder of a public key (PEM)."""
    try:
        _key(key).verify(bytes.fromhex(signature), message, PKCS1v15(), SHA256())
    except (InvalidSignature, ValueError):
        return False
    return True


def is_key(pem: str) -> bool:
    """Tell whether a text is a public RSA key (PEM)."""
    try:
        return bool(_key(pem))
    except ValueError:
        return False


@lru_cache(maxsize=4096)
def _key(pem: str) -> RSAPublicKey:
    key = load_pem_public_key(pem.encode())
    if not isinstance(key, RSAPublicKey):
        raise ValueError("not an RSA key")
    return key
