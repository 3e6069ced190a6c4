"""Small runs to write into ledgers, and a forger who changes them afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from random import Random

import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from motifair.consortium.store.ledger import open_ledger
from motifair.mechanism.settlement import PICO
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms, Entry, Line
from motifair.statements.verification import signed_message

RUN = "bank-run"
NAMES = ("bank-a", "bank-b", "bank-c", "bank-d")


@cache
def private_key(name: str) -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=2048)


def public_key(name: str) -> str:
    key = private_key(name).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def sign(run: str, round_: int, name: str, upload: str) -> str:
    message = signed_message(run, round_, name, upload)
    return private_key(name).sign(message, PKCS1v15(), SHA256()).hex()


def terms(names: Sequence[str] = NAMES, signed: bool = True, **changes: object) -> AgreedTerms:
    wanted: dict[str, object] = {
        "members": {name: public_key(name) if signed else "" for name in names},
        "budget": 10_000,
        "digits": 2,
        "currency": "EUR",
        "max_penalty": 2_000,
        "max_total_penalty": 3_000,
        "rounds": 20,
        "quorum": 2,
        "method": "motifair",
        "config": {"beta": 0.5, "diversity_weight": 1.0},
    }
    return AgreedTerms(**(wanted | changes))  # type: ignore[arg-type]


def line(name: str, value: float, status: str = "present", round_: int = 0, run: str = RUN) -> Line:
    """One member's line; signed if a round is given."""
    there = status == "present"
    upload = sha256(f"{name} in {round_}".encode()).hexdigest() if there and round_ else ""
    return Line(
        agent=name,
        status=status,  # type: ignore[arg-type]
        reason="" if there else "no answer in 60 s",
        value=round(value * PICO),
        alignment=round(value * PICO / 2) if there else None,
        diversity=PICO // 4,
        compensation=0,
        kept=int(100 * max(value, 0)),
        payoff=0,
        upload=upload,
        signature=sign(run, round_, name, upload) if upload else "",
    )


def make_run(
    rounds: int = 6, run: str = RUN, seed: int = 0, operator: str = "", **changes: object
) -> list[Entry]:
    """Make a run with absences, penalties, and a round below the quorum.

    Where an `operator` is named, it signs the entries.
    """
    random, books = Random(seed), Accounts(run)
    key = public_key(operator) if operator else ""
    entries = [books.agree(terms(operator=key, **changes))]  # type: ignore[arg-type]
    books.add(entries[0])
    for r in range(1, rounds + 1):
        values = [random.random() for _ in NAMES[1:]] + [-0.2 * random.random()]
        status = ["present" if random.random() < 0.8 or r == 1 else "absent" for _ in NAMES]
        if r == 3:
            status = ["present", "absent", "rejected", "absent"]
        lines = [line(n, v, s, r, run) for n, v, s in zip(NAMES, values, status, strict=True)]
        entries.append(books.settle(lines))
        books.add(entries[-1])
    return [signed(entry, operator) for entry in entries] if operator else entries


def signed(entry: Entry, operator: str) -> Entry:
    return entry.signed(lambda text: private_key(operator).sign(text, PKCS1v15(), SHA256()))


def write(place: str, entries: Sequence[Entry]) -> None:
    with open_ledger(place, write=True) as ledger:
        for entry in entries:
            ledger.append(entry)


def forge(place: str, *statements: str) -> None:
    """Change rows as the owner of the database can: disable the triggers first."""
    if "://" not in place:
        raw = sqlite3.connect(place)
        triggers = raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for statement in [*(f"DROP TRIGGER {name}" for (name,) in triggers), *statements]:
            raw.execute(statement)
        raw.commit()
        raw.close()
        return
    engine = sa.create_engine(place.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for table in ("entries", "lines"):
            connection.exec_driver_sql(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def make_older(place: str) -> None:
    """Make a ledger as motifair 0.1 had it: without a column for signatures."""
    forge(
        place,
        "ALTER TABLE entries DROP COLUMN signature",
        "ALTER TABLE entries DROP COLUMN position",
        "UPDATE alembic_version SET version_num = '001'",
    )
