"""Leases on a run, so that it has one writer at a time; they end with their process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from time import sleep

from motifair.errors import MotifairError
from motifair.extras import missing

try:
    from sqlalchemy import Connection, Engine, exc, func, select
except ModuleNotFoundError as error:
    raise missing("ledger", "A ledger", error.name) from error

LOCK_TRIES = 10  # of 0.3 s: PostgreSQL may need a moment to notice that a process has died


class LedgerUnavailable(MotifairError):  # noqa: N818 - a state, and it may pass
    """The database is temporarily unavailable; the operation can be retried."""


# What a driver raises: its own errors, and that damaged bytes of a file are not text.
DRIVER_ERRORS = (exc.DBAPIError, UnicodeDecodeError)


def database_error(name: str, error: exc.DBAPIError | UnicodeDecodeError) -> MotifairError:
    """Return a database error as a MotifairError.

    Temporary errors are `LedgerUnavailable`: no connection, a locked file, a full disk. A missing
    privilege, or a file that is not a database, is not.
    """
    if isinstance(error, UnicodeDecodeError):
        return MotifairError(f"The ledger {name} is damaged ({error.reason}); restore a backup.")
    first = (str(error.orig).strip().splitlines() or ["no reason given"])[0].rstrip(".")
    if isinstance(error, exc.OperationalError | exc.InterfaceError) or error.connection_invalidated:
        return LedgerUnavailable(
            f"The ledger {name} cannot be reached ({first}). Check its name and your rights, "
            "that the database is running, and that its disk is not full."
        )
    return MotifairError(f"The ledger {name} cannot be used ({first}). Check its name.")


class FileLease:
    """A lease on a run in a SQLite file: an exclusive lock on a file next to it.

    It is SQLite's own lock, on an empty database: it works on every system, between and within
    processes, is not inherited by a forked worker, and ends with the process.
    """

    def __init__(self, engine: Engine, run: str, name: str) -> None:
        self.engine, self.name = engine, name
        path = f"{name}.{sha256(run.encode()).hexdigest()[:12]}.lock"
        self.lock = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self.lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            self.lock.close()
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise _taken(run, name) from None
            raise LedgerUnavailable(
                f"The lock {path} of the ledger cannot be set ({error})."
            ) from None

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction under the lease."""
        try:
            with self.engine.execution_options(writes=True).begin() as connection:
                yield connection
        except exc.DBAPIError as error:
            raise database_error(self.name, error) from error

    def release(self) -> None:
        """Release the lease."""
        self.lock.close()


class AdvisoryLease:
    """A lease on a run in PostgreSQL: an advisory lock of the connection that writes.

    A lost connection loses the lock, too: the next transaction reconnects and acquires the lock
    again, or is refused because another server has it.
    """

    def __init__(self, engine: Engine, run: str, name: str) -> None:
        self.engine, self.run, self.name = engine, run, name
        self.connection: Connection | None = None
        try:
            self._take()
        except exc.DBAPIError as error:
            raise database_error(name, error) from error

    @staticmethod
    def key(run: str) -> int:
        """Return the key of a run among PostgreSQL's advisory locks."""
        digest = sha256(f"motifair/{run}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction under the lease."""
        try:
            connection = self.connection or self._take()
            with connection.begin():
                yield connection
        except exc.DBAPIError as error:
            self._drop()
            raise database_error(self.name, error) from error

    def release(self) -> None:
        """Release the lease."""
        try:
            if self.connection is not None:
                with self.connection.begin():
                    self.connection.execute(select(func.pg_advisory_unlock(self.key(self.run))))
                self.connection.close()
        except exc.DBAPIError:
            self._drop()

    def _take(self) -> Connection:
        connection = self.engine.connect()
        for _ in range(LOCK_TRIES):
            with connection.begin():
                if connection.scalar(select(func.pg_try_advisory_lock(self.key(self.run)))):
                    self.connection = connection
                    return connection
            sleep(0.3)
        connection.close()
        raise _taken(self.run, self.name)

    def _drop(self) -> None:
        """Discard a connection in an unknown state, and its lock."""
        if self.connection is not None:
            self.connection.invalidate()
            self.connection.close()
        self.connection = None


Lease = FileLease | AdvisoryLease


def _taken(run: str, name: str) -> MotifairError:
    return MotifairError(
        f"Another server is writing run {run} in the ledger {name}. Stop it first, or give this "
        "one a ledger of its own."
    )
