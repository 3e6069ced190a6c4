"""A dashboard that really listens, and a run that goes on meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import books
from starlette.testclient import TestClient

from motifair.consortium.dashboard.access import Access
from motifair.consortium.dashboard.app import make_app
from motifair.consortium.dashboard.guard import LOOPBACK
from motifair.consortium.dashboard.serve import DashboardServer, server_config
from motifair.consortium.dashboard.watcher import Watcher
from motifair.consortium.store.ledger import open_ledger
from motifair.statements.accounts import Accounts
from motifair.statements.entry import Entry

OPERATOR = "the-operator-has-this-token"
TOKENS = {name: f"the-token-of-{name}-is-this" for name in books.NAMES}


def token_access() -> Access:
    return Access(OPERATOR, TOKENS)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def client(
    place: str | None,
    access: Access | None = None,
    runs: Path | None = None,
    results: Path | None = None,
    **options: Any,
) -> Iterator[TestClient]:
    """Speak to a dashboard without a socket."""
    app = make_app(Watcher(place, runs), access or Access(), LOOPBACK, results)
    with TestClient(app, base_url="http://localhost", **options) as opened:
        yield opened


@contextmanager
def served(
    place: str,
    access: Access | None = None,
    runs: Path | None = None,
    port: int = 0,
    results: Path | None = None,
    **options: Any,
) -> Iterator[str]:
    """Listen on a free port; yields the address."""
    watcher = Watcher(place, runs)
    app = make_app(watcher, access or Access(), LOOPBACK, results)
    options = {"host": "127.0.0.1", "port": port, "timeout_graceful_shutdown": 1} | options
    config = server_config(app, **options)
    server = DashboardServer(config, watcher)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        watcher.stop()
        thread.join(10)
    assert not thread.is_alive()


def until(condition: Callable[[], Any], seconds: float = 15) -> Any:
    """Wait for something to be true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


class Writer:
    """Writes one round after another into a ledger, as a server would."""

    def __init__(self, place: str, names: Sequence[str] = books.NAMES, run: str = "live") -> None:
        self.place, self.names, self.accounts = place, names, Accounts(run)
        self._append(self.accounts.agree(books.terms(names, signed=False, rounds=500)))

    def round(self, absent: Sequence[str] = ()) -> None:
        t = self.accounts.round + 1
        lines = [
            books.line(n, (1 + (k + t) % 3) / 9, "absent" if n in absent else "present")
            for k, n in enumerate(self.names)
        ]
        self._append(self.accounts.settle(lines))

    def _append(self, entry: Entry) -> None:
        with open_ledger(self.place, write=True) as ledger:
            ledger.append(entry)
        self.accounts.add(entry)
