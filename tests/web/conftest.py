"""Ledgers of both kinds for the dashboard, and a browser."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.append(str(Path(__file__).parent.parent / "ledger"))  # books, postgres_server

if TYPE_CHECKING:
    from postgres_server import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    from postgres_server import Postgres

    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else places
    if not places:
        pytest.skip("needs the programs of PostgreSQL (initdb, pg_ctl)")
    server = Postgres(places[0])
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger can be made."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    server: Postgres = request.getfixturevalue("postgres")
    return server.create()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser without a window; only where there is none, and not in CI, tests are skipped."""
    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None
    )
    if program is None and not os.environ.get("CI"):
        pytest.skip("needs Chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playing:
        browser = playing.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
