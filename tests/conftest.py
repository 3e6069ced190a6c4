"""What tests need: one thread, a private cache, the datasets, databases, a browser."""

from __future__ import annotations

import functools
import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
import typer.main
import typer.testing
from hypothesis import settings

from motifair import cores
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.tu import load_tu

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from postgres_server import Postgres

torch.set_num_threads(1)
# Typer builds every command anew for each command line: most of the time of a refused one.
typer.main.get_command = functools.cache(typer.main.get_command)
typer.testing._get_command = typer.main.get_command
settings.register_profile("motifair", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("motifair")

HERE = Path(__file__).parent
DATA = os.environ.get("MOTIFAIR_DATA")
FIXTURES = {"data_dir": "data", "postgres": "postgres", "browser": "browser"}
SLOW = {"federation", "kill", "slow", *FIXTURES.values()}


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spare the garbage collector what is imported and collected: that stays to the end."""
    gc.disable()
    yield
    gc.freeze()
    # A collection for every 700 new objects is a twentieth of the time of a test.
    gc.set_threshold(20_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures they need, and what is left as quick."""
    for item in items:
        for fixture in FIXTURES.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(FIXTURES[fixture])
        if not any(mark.name in SLOW for mark in item.iter_markers()):
            item.add_marker("quick")
    # Documents and pages, which take longest, first: at the end others would wait for them.
    items.sort(key=lambda item: item.path.parent != HERE)


@pytest.fixture(scope="session", autouse=True)
def private_environment(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Set up a cache of our own; only `data_dir` leads to the real datasets.

    Tests run side by side, so a run uses one core unless its test says otherwise: to start workers
    takes longer than the few rounds of most tests.
    """
    cache = tmp_path_factory.mktemp("cache")
    os.environ["MOTIFAIR_CACHE"] = str(cache)
    cores._QUOTA = cache / "cpu.max"
    cores._QUOTA.write_text("100000 100000")
    os.environ.pop("MOTIFAIR_DATA", None)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real datasets; where it is not named, their tests are skipped."""
    if not DATA:
        pytest.skip("needs the real datasets: set MOTIFAIR_DATA to the folder that holds them")
    assert Path(DATA).is_dir(), f"MOTIFAIR_DATA={DATA} is not a folder"
    return Path(DATA)


@pytest.fixture(scope="session")
def mutag(data_dir: Path) -> GraphSet:
    return load_tu("MUTAG", data_dir)


@pytest.fixture(scope="session")
def proteins(data_dir: Path) -> GraphSet:
    return load_tu("PROTEINS", data_dir)


@pytest.fixture(scope="session")
def imdb(data_dir: Path) -> GraphSet:
    return load_tu("IMDB-BINARY", data_dir)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL of one's own."""
    from postgres_server import Postgres

    server = Postgres()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger can be made: the same tests run on both databases."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    server: Postgres = request.getfixturevalue("postgres")
    return server.create()


@pytest.fixture(scope="module")  # while it is open, its thread can run no other event loop
def browser() -> Iterator[Browser]:
    """A real browser without a window: required in CI, elsewhere its tests may be skipped."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((path for name in names if (path := shutil.which(name))), None)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("In CI a Chromium is required: install chromium.")
        pytest.skip("needs a Chromium on the PATH")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()
