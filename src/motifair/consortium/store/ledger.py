"""The ledger's database: two append-only tables in SQLite or PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from motifair.errors import MotifairError
from motifair.extras import missing
from motifair.statements.entry import GENESIS, Entry, Line

try:
    import sqlalchemy as sa
    from sqlalchemy import URL, Connection, Engine, exc, make_url

    from motifair.consortium.store import migrations
    from motifair.consortium.store.lease import (
        DRIVER_ERRORS,
        AdvisoryLease,
        FileLease,
        Lease,
        database_error,
    )
except ModuleNotFoundError as error:
    raise missing("ledger", "A ledger", error.name) from error

WHOLE = sa.BigInteger().with_variant(sa.Integer, "sqlite")
METADATA = sa.MetaData()
ENTRIES = sa.Table(
    "entries",
    METADATA,
    *(
        sa.Column(n, sa.Text)
        for n in ("run", "kind", "terms", "previous", "hash", "signature", "position")
    ),
    *(sa.Column(n, WHOLE) for n in ("number", "round", "settled", "budget")),
)
LINES = sa.Table(
    "lines",
    METADATA,
    *(
        sa.Column(n, sa.Text)
        for n in ("run", "agent", "status", "reason", "upload", "signature", "hash")
    ),
    *(
        sa.Column(n, WHOLE)
        for n in ("number", "value", "alignment", "diversity", "compensation", "kept", "payoff")
    ),
)
SINCE = {"signature": "002", "position": "003"}  # schemas that added columns
BUSY = 10_000  # milliseconds that SQLite waits for another writer
# Detect a dead connection in half a minute rather than a quarter of an hour.
POSTGRES_OPTIONS = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


class Ledger:
    """An open ledger, made by `open_ledger`; `with` closes it."""

    def __init__(self, engine: Engine, name: str, revision: str, *, write: bool) -> None:
        self.engine, self.name, self.write = engine, name, write
        # Older ledgers can still be read: their missing columns are empty.
        self._columns = [
            sa.literal("").label(c.name) if revision < SINCE.get(c.name, "") else c
            for c in ENTRIES.c
        ]
        self._leases: dict[str, Lease] = {}

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the database."""
        self.engine.dispose()

    @contextmanager
    def lease(self, run: str) -> Iterator[None]:
        """Hold the exclusive right to write entries of a run; another writer is refused.

        The lease ends with the process, however it ends. Hold it across rounds; an `append` outside
        of it acquires a lease for that entry.
        """
        if not self.write:
            raise MotifairError(f"The ledger {self.name} was opened for reading.")
        sqlite = self.engine.dialect.name == "sqlite"
        lease = (FileLease if sqlite else AdvisoryLease)(self.engine, run, self.name)
        self._leases[run] = lease
        try:
            yield
        finally:
            del self._leases[run]
            lease.release()

    def append(self, entry: Entry) -> None:
        """Add an entry after the last one, in one transaction.

        Idempotent: after a `LedgerUnavailable`, when it is unknown whether the entry was written,
        append it again. Raises MotifairError if it does not follow the last entry.
        """
        for agent, flaw in entry.flaws():
            raise ValueError(f"Entry {entry.number}{f', {agent}' * bool(agent)}: {flaw}.")
        if entry.run not in self._leases:
            with self.lease(entry.run):
                return self.append(entry)
        with self._leases[entry.run].begin() as connection:
            if self._is_new(connection, entry):
                connection.execute(ENTRIES.insert(), _entry_row(entry))
                if entry.lines:
                    connection.execute(LINES.insert(), _line_rows(entry))
        return None

    def head(self, run: str) -> tuple[int, str]:
        """Return number and hash of the last entry of a run; (-1, zeros) if there is none."""
        with self._reading() as connection:
            return _head(connection, run)

    def runs(self) -> list[str]:
        """Return the names of all runs with an entry or a line."""
        with self._reading() as connection:
            named = [connection.scalars(sa.select(t.c.run).distinct()) for t in (ENTRIES, LINES)]
            names = {run for runs in named for run in runs}
        if not all(isinstance(run, str) for run in names):  # a file may hold anything
            raise MotifairError(
                f"The ledger {self.name} is damaged (a run without a name); restore a backup."
            )
        return sorted(names)

    def heads(self) -> dict[str, tuple[int, str]]:
        """Return number and hash of the last entry of each run, without reading all entries."""
        last = sa.select(ENTRIES.c.run, sa.func.max(ENTRIES.c.number).label("number"))
        ends = last.group_by(ENTRIES.c.run).subquery()
        both = (ENTRIES.c.run == ends.c.run) & (ENTRIES.c.number == ends.c.number)
        wanted = sa.select(ENTRIES.c.run, ENTRIES.c.number, ENTRIES.c.hash).join(ends, both)
        with self._reading() as connection:
            return {run: (number, digest) for run, number, digest in connection.execute(wanted)}

    def entries(self, run: str, after: int = -1) -> Iterator[Entry]:
        """Yield the entries of a run after number `after`, in order and without verifying them.

        One SQL statement, so that a round written meanwhile is read whole or not at all.
        """
        both = (ENTRIES.c.run == LINES.c.run) & (ENTRIES.c.number == LINES.c.number)
        wanted = (
            sa.select(*self._columns, *(c.label(f"line_{c.name}") for c in LINES.c))
            .join_from(ENTRIES, LINES, both, isouter=True)
            .where(ENTRIES.c.run == run, ENTRIES.c.number > after)
            .order_by(ENTRIES.c.number)
        )
        with self._reading() as connection:
            rows = connection.execute(wanted).mappings()
            for _, group in groupby(rows, key=lambda row: row["number"]):
                yield _entry(list(group))

    def strays(self, run: str) -> list[tuple[int, str]]:
        """Return number and agent of lines whose entry is missing: it was deleted."""
        both = (ENTRIES.c.run == LINES.c.run) & (ENTRIES.c.number == LINES.c.number)
        wanted = (
            sa.select(LINES.c.number, LINES.c.agent)
            .join_from(LINES, ENTRIES, both, isouter=True)
            .where(LINES.c.run == run, ENTRIES.c.run.is_(None))
        )
        with self._reading() as connection:
            return sorted((number, agent) for number, agent in connection.execute(wanted))

    def _is_new(self, connection: Connection, entry: Entry) -> bool:
        """Return whether an entry is to be written; refuse one that does not follow the last."""
        here = (ENTRIES.c.run == entry.run) & (ENTRIES.c.number == entry.number)
        there = connection.scalar(sa.select(ENTRIES.c.hash).where(here))
        if there == entry.hash:
            return False
        number, last = _head(connection, entry.run)
        if there is None and (entry.number, entry.previous) == (number + 1, last):
            return True
        raise MotifairError(
            f"Entry {entry.number} of run {entry.run} does not follow the last entry of the ledger "
            f"{self.name}, {number} ({last[:16]}). The checkpoint and the ledger belong to "
            "different histories: restore the ledger or the checkpoint that the server had before, "
            "or start a new run."
        )

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self.engine.connect() as connection:
                yield connection
        except DRIVER_ERRORS as error:
            raise database_error(self.name, error) from error


def open_ledger(where: str | Path, *, write: bool) -> Ledger:
    """Open the ledger in a SQLite file, or at a PostgreSQL URL.

    With `write` it is created if missing and migrated if older.
    """
    url = _url(where)
    name = str(url.database) if url.drivername == "sqlite" else url.render_as_string()
    engine = _sqlite(url, write) if url.drivername == "sqlite" else _postgres(url, name)
    try:
        with engine.execution_options(writes=write).begin() as connection:
            if write:
                _alone(connection)
                revision = migrations.upgrade(connection, name)
            else:
                revision = migrations.check(connection, name)
    except DRIVER_ERRORS as error:
        engine.dispose()
        raise database_error(name, error) from error
    except MotifairError:
        engine.dispose()
        raise
    return Ledger(engine, name, revision, write=write)


def _url(where: str | Path) -> URL:
    if "://" not in str(where):
        return URL.create("sqlite", database=str(Path(where).absolute()))
    try:
        url = make_url(str(where))
    except (exc.ArgumentError, ValueError):
        raise MotifairError(
            "The URL of the ledger cannot be read; it looks like "
            "postgresql://user:password@host:5432/database."
        ) from None
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database:
        return url.set(database=str(Path(url.database).absolute()))
    raise MotifairError(
        f"A ledger is a file of SQLite or a URL that starts with postgresql://, "
        f"not {url.drivername}://."
    )


def _postgres(url: URL, name: str) -> Engine:
    options = {k: v for k, v in POSTGRES_OPTIONS.items() if k not in url.query}
    try:
        return sa.create_engine(url, pool_pre_ping=True, connect_args=options)
    except ModuleNotFoundError as error:
        raise missing("ledger", f"The ledger {name}", error.name) from error


def _sqlite(url: URL, write: bool) -> Engine:
    path = Path(str(url.database))
    if write and not path.parent.is_dir():
        raise MotifairError(f"There is no folder {path.parent} for the ledger. Make it first.")
    if not write and not path.is_file():
        raise MotifairError(f"There is no ledger at {path}. Check the name.")
    mode = "mode=rwc" if write else "mode=ro"
    if not write and not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists():
        mode += "&immutable=1"  # SQLite cannot create the -wal and -shm files it reads with
    engine = sa.create_engine(f"sqlite:///file:{quote(str(path))}?{mode}&uri=true")

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not implicitly by the driver
        # Forged text may be invalid UTF-8; read it anyway, so that verification names its row.
        connection.text_factory = lambda text: text.decode(errors="replace")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA busy_timeout = {BUSY}")
        if write:
            _use_write_ahead_log(connection)
            connection.execute("PRAGMA synchronous = FULL")

    @sa.event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the journal mode; SQLite does not wait, as it does elsewhere, for others that do."""
    end = time.monotonic() + BUSY / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def _alone(connection: Connection) -> None:
    """Serialise migrations: two processes may open a new ledger at once."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(AdvisoryLease.key("tables"))))


def _head(connection: Connection, run: str) -> tuple[int, str]:
    wanted = sa.select(ENTRIES.c.number, ENTRIES.c.hash).where(ENTRIES.c.run == run)
    last = connection.execute(wanted.order_by(ENTRIES.c.number.desc()).limit(1)).first()
    return (-1, GENESIS) if last is None else (last.number, last.hash)


def _entry_row(entry: Entry) -> dict[str, Any]:
    row = {c.name: getattr(entry, c.name) for c in ENTRIES.c}
    return row | {"settled": int(entry.settled)}


def _line_rows(entry: Entry) -> list[dict[str, Any]]:
    keys = [{"run": entry.run, "number": entry.number} for _ in entry.lines]
    return [
        k | {c.name: getattr(x, c.name) for c in LINES.c if c.name not in ("run", "number", "hash")}
        | {"hash": entry.line_hash(x)}
        for k, x in zip(keys, entry.lines, strict=True)
    ]  # fmt: skip


def _entry(rows: list[Any]) -> Entry:
    first = {c.name: rows[0][c.name] for c in ENTRIES.c}
    names = [c.name for c in LINES.c if c.name not in ("run", "number", "hash")]
    lines = [
        Line(**{n: row[f"line_{n}"] for n in names}, recorded=row["line_hash"])
        for row in rows
        if row["line_run"] is not None
    ]
    settled = first["settled"]
    return Entry(
        **{k: v for k, v in first.items() if k not in ("hash", "settled")},
        settled=bool(settled)
        if settled in (0, 1)
        else settled,  # left as it is, for verification to report
        lines=tuple(sorted(lines, key=lambda line: line.agent)),
        recorded=first["hash"],
    )
