"""Private keys, requests for certificates, and signing.

A member makes its own key and sends the operator a request for a certificate, never the key. With
it the member signs its uploads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from motifair.errors import MotifairError
from motifair.extras import missing
from motifair.files import write_atomic, write_private
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
    from cryptography.x509.oid import NameOID
except ModuleNotFoundError as error:
    raise missing("ledger", "A signature", error.name) from error

KEY_SIZE = 2048


def new_key() -> RSAPrivateKey:
    """Generate a key without a certificate: for an operator's ledger, and for members in tests."""
    return generate_private_key(65537, KEY_SIZE)


def write_key(path: Path, key: RSAPrivateKey) -> None:
    """Write a private key, readable by its owner only."""
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def write_request(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a member's key and its request for a certificate: `NAME.key` and `NAME.csr`."""
    secret, request = folder / f"{name}.key", folder / f"{name}.csr"
    if secret.exists():
        raise MotifairError(f"{secret} exists; keep it, or use another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    key = new_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, SHA256())
    write_key(secret, key)
    write_atomic(request, made.public_bytes(Encoding.PEM))
    return secret, request


def requested_key(path: Path, name: str) -> RSAPublicKey:
    """Return the public key of a member's request, which must be for its name and signed."""
    try:
        request = x509.load_pem_x509_csr(path.read_bytes())
        public = request.public_key()
    except FileNotFoundError:
        raise MotifairError(
            f"There is no {path}; ask the member for the file that it makes with: "
            f"motifair federation request {name}."
        ) from None
    except (OSError, ValueError) as error:
        raise MotifairError(
            f"{path} is not a request for a certificate; ask for it again."
        ) from error
    names = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if [n.value for n in names] != [name] or not request.is_signature_valid:
        raise MotifairError(f"{path} is not a request of '{name}'; ask the member for its own.")
    if not isinstance(public, RSAPublicKey) or public.key_size < KEY_SIZE:
        raise MotifairError(f"{path} has no RSA key of {KEY_SIZE} bits; ask for it again.")
    return public


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
