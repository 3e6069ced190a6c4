"""`motifair dashboard` starts, prints its address, and ends on a signal."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.consortium.store.ledger import open_ledger
from motifair.errors import MotifairError
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms

PATIENCE = 60.0  # seconds for what takes one on an idle machine


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    terms = AgreedTerms({"a": "", "b": ""}, 100, 2, "EUR", 0, 0, 3, 1, "motifair")
    with open_ledger(path, write=True) as opened:
        opened.append(Accounts("first").agree(terms))
    return path


@contextmanager
def started(*words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", "from motifair.cli import main; main()", "dashboard", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://[^ ;]+", line)
        assert found, line + (process.stderr.read() if process.stderr else "")
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.kill
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_though_a_page_listens(ledger: Path, how: signal.Signals) -> None:
    with started("--ledger", str(ledger), "--port", "0") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        for _ in range(100):
            try:
                answer = httpx.get(f"{address}api/runs", timeout=PATIENCE)
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        assert answer.json()[0]["run"] == "first"
        with httpx.stream("GET", f"{address}api/events", timeout=PATIENCE) as listening:
            lines = listening.iter_lines()
            next(lines)
            process.send_signal(how)
            for _ in lines:  # the page would listen for ever
                pass
            code = process.wait(PATIENCE)
        assert code == (0 if how == signal.SIGINT else -signal.SIGTERM)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def refused(*words: str) -> str:
    found = CliRunner().invoke(app, ["dashboard", *words])
    assert isinstance(found.exception, MotifairError), found.output
    return str(found.exception)


def test_mistakes_are_sentences(ledger: Path, tmp_path: Path) -> None:
    here = ("--ledger", str(ledger))
    assert "no ledger at" in refused("--ledger", str(tmp_path / "none.sqlite"))
    assert "no folder" in refused(*here, "--runs", str(tmp_path / "none"))
    assert "no folder" in refused("--results", str(tmp_path / "none"))
    assert "give --ledger of a federation, --results of simulations" in refused()
    assert "--token-file" in refused(*here, "--host", "0.0.0.0")
    assert "--token-file" in refused(*here, "--allow-host", "federation.example.org")
    assert "openssl rand" in refused(*here, "--token-file", str(tmp_path / "none"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "--port" in refused(*here, "--port", port)


def test_a_token_from_the_environment_guards_it(ledger: Path) -> None:
    token = "a-token-that-is-long-enough"
    words = ("--ledger", str(ledger), "--port", "0", "--host", "0.0.0.0")
    with started(*words, MOTIFAIR_TOKEN=token) as (_, address):
        at = address.replace("0.0.0.0", "127.0.0.1")
        for _ in range(100):
            try:
                assert httpx.get(f"{at}api/runs").status_code == 401
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{at}api/runs", headers=headers).status_code == 200


def test_without_the_extra_the_fix_is_named() -> None:
    code = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'fastapi' else find(name, *a)\n"
        "import motifair.consortium.dashboard"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'motifair[web]'" in found.stderr


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    from motifair.consortium.dashboard.serve import _listen

    with _listen("127.0.0.1", 0) as listening:
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
