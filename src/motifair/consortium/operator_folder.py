"""The operator's folder.

federation.toml   the terms
operator.key      signs every entry of the ledger; operator.pub is its public key
authority/        the certificate authority
requests/         the members' requests for certificates
members/          the certificates of the members
kits/             startup kits, to be handed out
runs/RUN/         checkpoint, uploads and result of a run, and the server's model
ledger.sqlite     the ledger, unless it is elsewhere
motifair-server.service    a unit file for systemd
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
from motifair.consortium.units import AGENT_UNIT, SERVER_UNIT, agent_unit, server_unit
from motifair.errors import MotifairError
from motifair.files import write_atomic, write_private
from motifair.graphs.csv_file import BY_NAME, Columns
from motifair.graphs.schema import Schema
from motifair.statements.signatures import public_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

OPERATOR = "operator@federation.local"
SERVER = "server"
SIGNING, PUBLIC = "operator.key", "operator.pub"


@dataclass(frozen=True)
class OperatorFolder:
    """An operator's folder: its files, and the operations of the operator."""

    folder: Path

    @cached_property
    def terms(self) -> FederationTerms:
        """The terms in force."""
        return read_terms(self.folder / TERMS)

    @property
    def ledger(self) -> str:
        """URL or file of the ledger; a relative path is in this folder."""
        where = self.terms.ledger
        return where if "://" in where else str(self.folder.resolve() / where)

    def kit(self, name: str) -> Path:
        """Return the startup kit of a member, the server or the operator."""
        kit = self.folder / "kits" / name
        if not kit.is_dir():
            raise MotifairError(
                f"There is no startup kit for '{name}' in {self.folder}; "
                "make it with: motifair federation provision."
            )
        return kit

    def run(self, name: str) -> Path:
        """Return the folder of a run."""
        return self.folder / "runs" / name

    def keys(self) -> dict[str, str]:
        """Return the members' public keys."""
        return {n: certified_key(self._certificate(n)) for n in self.terms.members}

    def signing_key(self) -> RSAPrivateKey:
        """Return the operator's key that signs every entry of the ledger, made once and in no kit.

        It is never replaced: runs that started with it could not be verified with another one.
        """
        path, public = self.folder / SIGNING, self.folder / PUBLIC
        if not path.exists():
            if public.exists():
                raise MotifairError(
                    f"{path}, which signs the ledger, is missing; restore it from a backup."
                )
            write_key(path, new_key())
        key = read_key(path)
        if not public.exists():
            write_atomic(public, public_text(key))
        return key

    def write_terms(
        self, name: str, members: Sequence[str], schema: Schema, columns: Columns = BY_NAME
    ) -> Path:
        """Write a commented `federation.toml`; refuse to overwrite one."""
        path = self.folder / TERMS
        if path.exists():
            raise MotifairError(f"{path} exists; edit it, or use another folder.")
        (self.folder / "requests").mkdir(parents=True, exist_ok=True)  # where members' are put next
        write_private(
            path, federation_toml(name, members, schema, columns)
        )  # it may get a password
        return path

    def members_terms(self) -> str:
        """Return the `federation.toml` for members: without the location of the ledger."""
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
        write_atomic(self.folder / SERVER_UNIT, server_unit(terms.name, self.folder))
        return [kits[name] for name in (SERVER, OPERATOR, *terms.members)]

    def add(self, name: str) -> Path:
        """Make the kit of a new member named in federation.toml; it can join the next segment."""
        from motifair.consortium.transports.nvflare.kits import add

        self._expect(name)
        kit = add(self.folder, name)
        self._register(name)
        return kit

    def renew(self, name: str) -> Path:
        """Make a new kit, with a new certificate; a member keeps its key."""
        from motifair.consortium.transports.nvflare.kits import renew

        if name not in (SERVER, OPERATOR):
            self._expect(name)
        kit = renew(self.folder, name)
        if name in self.terms.members:
            self._register(name)
        return kit

    def remove(self, name: str) -> None:
        """Refuse a member's certificate, whether or not federation.toml still names it."""
        from motifair.consortium.transports.nvflare.operator import remove

        remove(self.kit(OPERATOR), name)

    def readmit(self, name: str) -> None:
        """Accept the certificate of a removed member again, which federation.toml names."""
        from motifair.consortium.transports.nvflare.operator import readmit

        self._expect(name)
        readmit(self.kit(OPERATOR), name)

    def _expect(self, name: str) -> None:
        if name not in self.terms.members:
            raise MotifairError(f"{TERMS} does not name '{name}'; add it to the members first.")

    def _register(self, name: str) -> None:
        """Keep a member's certificate; put terms, operator's public key and a unit into its kit."""
        kit = self.folder / "kits" / name
        certificate = self._certificate(name)
        certificate.parent.mkdir(exist_ok=True)
        write_atomic(certificate, (kit / "startup" / "client.crt").read_bytes())
        write_private(kit / "local" / TERMS, self.members_terms())
        write_private(kit / "local" / PUBLIC, public_text(self.signing_key()))
        write_private(kit / AGENT_UNIT, agent_unit(self.terms.name, name))

    def _certificate(self, name: str) -> Path:
        return self.folder / "members" / f"{name}.crt"
