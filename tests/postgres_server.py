"""A real PostgreSQL for the tests, which can be killed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from uuid import uuid4

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
        for attempt in range(20):  # what is left of a killed server may still be going
            try:
                self._call("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")
                return
            except subprocess.CalledProcessError:
                if attempt == 19:
                    raise
                time.sleep(0.3)

    def kill(self) -> None:
        """Kill -9, and wait until nobody answers any more."""
        pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists() and "Z" not in _state(pid):
            time.sleep(0.05)

    def stop(self) -> None:
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


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
