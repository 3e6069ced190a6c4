"""The operator's folder: what was agreed on, who was let in, and what came of it.

federation.toml   the terms
operator.key      by which every entry of the ledger is signed; operator.pub is its public key
authority/        who can let anybody in
members/          the certificates of the members
kits/             startup kits, to be handed out
runs/RUN/         where a run stands, its uploads, its result and the server's model
ledger.sqlite     the ledger, unless it is elsewhere
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from motifair.consortium.keys import certified_key, new_key, read_key, write_key
from motifair.consortium.template import federation_toml, members_toml
from motifair.consortium.terms import TERMS, FederationTerms, read_terms
from motifair.errors import MotifairError
from motifair.files import write_atomic, write_private
from motifair.graphs.read import Schema
from motifair.statements.signatures import public_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

OPERATOR = "operator@federation.local"
SERVER = "server"
SIGNING, PUBLIC = "operator.key", "operator.pub"


@dataclass(frozen=True)
class OperatorFolder:
    """An operator's folder."""

    folder: Path

    @cached_property
    def terms(self) -> FederationTerms:
        """The terms in force."""
        return read_terms(self.folder / TERMS)

    @property
    def ledger(self) -> str:
        """Where the ledger is: a URL, or a file, in this folder unless it says otherwise."""
        where = self.terms.ledger
        return where if "://" in where else str(self.folder.resolve() / where)

    def kit(self, name: str) -> Path:
        """The startup kit of a member, the server or the operator."""
        kit = self.folder / "kits" / name
        if not kit.is_dir():
            raise MotifairError(
                f"There is no startup kit for '{name}' in {self.folder}; "
                "make it with: motifair federation provision."
            )
        return kit

    def run(self, name: str) -> Path:
        """The folder of a run."""
        return self.folder / "runs" / name

    def keys(self) -> dict[str, str]:
        """The members' public keys."""
        return {n: certified_key(self._certificate(n)) for n in self.terms.members}

    def signing_key(self) -> RSAPrivateKey:
        """The key by which the operator signs every entry of the ledger: made once, in no kit.

        It is never replaced by another one, by which no run that began would fit any more.
        """
        path, public = self.folder / SIGNING, self.folder / PUBLIC
        if not path.exists():
            if public.exists():
                raise MotifairError(
                    f"{path}, by which the ledger is signed, is missing; put back a copy of it."
                )
            write_key(path, new_key())
        key = read_key(path)
        if not public.exists():
            write_atomic(public, public_text(key))
        return key

    def write_terms(self, name: str, members: Sequence[str], schema: Schema) -> Path:
        """Write a commented `federation.toml`; an existing one stays."""
        path = self.folder / TERMS
        if path.exists():
            raise MotifairError(f"{path} exists; edit it, or use another folder.")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_private(path, federation_toml(name, members, schema))  # it may get a password
        return path

    def members_terms(self) -> str:
        """The `federation.toml` that members get: without where the ledger is."""
        return members_toml(self.terms.given)

    def provision(self) -> list[Path]:
        """Make the startup kits of the server, the operator and all members."""
        from motifair.consortium.transports.nvflare.kits import provision

        terms = self.terms
        kits = provision(
            self.folder,
            name=terms.name,
            server_host=terms.host,
            port=terms.port,
            admin=OPERATOR,
            members=terms.members,
        )
        for name in terms.members:
            self._register(name)
        return [kits[name] for name in (SERVER, OPERATOR, *terms.members)]

    def add(self, name: str) -> Path:
        """Let a member in whom federation.toml names, from the next segment on."""
        from motifair.consortium.transports.nvflare.kits import add

        self._expect(name)
        kit = add(self.folder, name)
        self._register(name)
        return kit

    def renew(self, name: str) -> Path:
        """Give somebody a new key and certificate."""
        from motifair.consortium.transports.nvflare.kits import renew

        if name not in (SERVER, OPERATOR):
            self._expect(name)
        kit = renew(self.folder, name)
        if name in self.terms.members:
            self._register(name)
        return kit

    def remove(self, name: str) -> None:
        """Lock a member out, whether or not federation.toml still names it."""
        from motifair.consortium.transports.nvflare.operator import remove

        remove(self.kit(OPERATOR), name)

    def _expect(self, name: str) -> None:
        if name not in self.terms.members:
            raise MotifairError(f"{TERMS} does not name '{name}'; add it to the members first.")

    def _register(self, name: str) -> None:
        """Keep a member's certificate; give it the terms it agrees to, and the operator's key."""
        kit = self.folder / "kits" / name
        certificate = self._certificate(name)
        certificate.parent.mkdir(exist_ok=True)
        write_atomic(certificate, (kit / "startup" / "client.crt").read_bytes())
        write_private(kit / "local" / TERMS, self.members_terms())
        write_private(kit / "local" / PUBLIC, public_text(self.signing_key()))

    def _certificate(self, name: str) -> Path:
        return self.folder / "members" / f"{name}.crt"
