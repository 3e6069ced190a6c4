"""A real PostgreSQL for the tests, which can be killed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
import sqlalchemy as sa


def _programs() -> Path:
    """The folder with the programs of PostgreSQL; without them a test is skipped."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if not places:
        pytest.skip("needs the programs of PostgreSQL (initdb, pg_ctl)")
    return places[0]


class Postgres:
    """A server of PostgreSQL in a temporary folder, which nobody else can reach."""

    def __init__(self) -> None:
        self.programs = _programs()
        self.folder = Path(tempfile.mkdtemp(prefix="motifair-pg-"))
        self.user = self._user()  # PostgreSQL refuses to run as root
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        self._call("initdb", "-D", "data", "-U", "tester", "-A", "trust", "-E", "UTF8")
        self.start()

    def start(self) -> None:
        # Without fsync a killed server loses nothing, only a machine that loses its power does.
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c fsync=off"
        self._call("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")

    def kill(self) -> int:
        """Kill -9, wait until the server and its backends are gone, and return how many they were.

        The lock files with its process id go, too: a killed process that nobody waits for stays a
        zombie, which the next start would take for a server that is running.
        """
        locks = [self.folder / "data" / "postmaster.pid", *self.folder.glob(".s.PGSQL.*.lock")]
        server = psutil.Process(int(locks[0].read_text().split()[0]))
        server.suspend()  # a backend that starts now would be waited for by nobody
        backends = server.children()
        server.kill()
        while any(_is_alive(process) for process in (server, *backends)):
            time.sleep(0.05)
        for lock in locks:
            lock.unlink()
        return 1 + len(backends)

    @contextmanager
    def down(self) -> Iterator[None]:
        """Kill the server, and start it again also if a test fails: others use it, too."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    def stop(self) -> None:
        if (self.folder / "data" / "postmaster.pid").exists():
            self._call("pg_ctl", "-D", "data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder)

    def url(self, database: str) -> str:
        return f"postgresql://tester@/{database}?host={self.folder}"

    def create(self) -> str:
        """Make an empty database and return its URL."""
        name = f"ledger_{uuid4().hex[:12]}"
        url = self.url("postgres").replace("postgresql:", "postgresql+psycopg:")
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def _call(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self.programs / program), *words],
            cwd=self.folder,
            user=self.user,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @staticmethod
    def _user() -> str | None:
        if os.getuid() != 0:
            return None
        known = {entry.pw_name for entry in pwd.getpwall()}
        return "postgres" if "postgres" in known else "nobody"


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
