"""Private keys and signing: members sign uploads with the private keys of their certificates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from motifair.errors import MotifairError
from motifair.extras import missing
from motifair.files import write_private
from motifair.statements.signatures import is_signed, public_text

try:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import (
        RSAPrivateKey,
        RSAPublicKey,
        generate_private_key,
    )
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )
except ModuleNotFoundError as error:
    raise missing("ledger", "A signature", error.name) from error


def new_key() -> RSAPrivateKey:
    """Generate a key without a certificate: for an operator's ledger, and for members in tests."""
    return generate_private_key(65537, 2048)


def write_key(path: Path, key: RSAPrivateKey) -> None:
    """Write a private key, readable by its owner only."""
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def read_key(path: Path) -> RSAPrivateKey:
    """Read a private key."""
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise MotifairError(f"{path} is not a private key; restore the original file.") from error
    if not isinstance(key, RSAPrivateKey):
        raise MotifairError(f"{path} is not an RSA key; restore the original file.")
    return key


def signer(key: RSAPrivateKey) -> Callable[[bytes], bytes]:
    """Return a function that signs with a key; the same text always gets the same signature."""
    return lambda text: key.sign(text, PKCS1v15(), SHA256())


def certified_key(certificate: Path) -> str:
    """Return the public key of a certificate as PEM."""
    try:
        public = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    except (OSError, ValueError) as error:
        raise MotifairError(f"{certificate} is not a certificate; provision again.") from error
    if not isinstance(public, RSAPublicKey):
        raise MotifairError(f"{certificate} holds no RSA key; provision again.")
    return public_text(public)


def verifier(keys: Mapping[str, str]) -> Callable[[str, bytes, bytes], bool]:
    """Return a function that checks whether a member of `keys` signed a text."""
    return lambda name, text, signature: is_signed(keys[name], signature.hex(), text)
