"""A ledger of each kind: a file of SQLite, and a real PostgreSQL of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if not places:
        pytest.skip("needs the programs of PostgreSQL (initdb, pg_ctl)")
    server = Postgres(places[0])
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger can be made: the same tests run on both databases."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    server: Postgres = request.getfixturevalue("postgres")
    return server.create()
