"""PostgreSQL may be killed at any moment: no round is lost, none is written twice."""

from __future__ import annotations

import threading
import time
from random import Random

import pytest
from books import RUN, make_run
from postgres_server import Postgres

from motifair.consortium.store.lease import LedgerUnavailable
from motifair.consortium.store.ledger import Ledger, open_ledger
from motifair.errors import MotifairError
from motifair.statements.entry import Entry
from motifair.statements.verification import Head, verify_run

pytestmark = pytest.mark.kill


def append_at_last(ledger: Ledger, entry: Entry, tries: int = 100) -> int:
    """Append as a server does: retry while the database is unavailable."""
    for failed in range(tries):
        try:
            ledger.append(entry)
            return failed
        except LedgerUnavailable:
            time.sleep(0.05)
    raise AssertionError("the database never came back")


def test_a_killed_postgresql_costs_a_retry_and_nothing_else(postgres: Postgres) -> None:
    place, entries = postgres.create(), make_run(6)
    with open_ledger(place, write=True) as ledger, ledger.lease(RUN):
        for entry in entries:
            if entry.number in (2, 5):
                with postgres.down():
                    with pytest.raises(LedgerUnavailable, match="cannot be reached"):
                        ledger.append(entry)
                    with pytest.raises(LedgerUnavailable):
                        ledger.append(entry)
            ledger.append(entry)
        assert list(ledger.entries(RUN)) == entries
        assert verify_run(ledger, RUN).fits


def test_kills_at_any_moment_lose_nothing_and_write_nothing_twice(postgres: Postgres) -> None:
    place, entries, random = postgres.create(), make_run(20), Random(0)
    done = threading.Event()

    def fate() -> None:
        while not done.is_set():
            time.sleep(random.uniform(0.05, 0.3))
            postgres.kill()
            postgres.start()

    killer = threading.Thread(target=fate)
    failures = 0
    with open_ledger(place, write=True) as ledger, ledger.lease(RUN):
        killer.start()
        try:
            for entry in entries:
                failures += append_at_last(ledger, entry)
                time.sleep(0.05)
        finally:
            done.set()
            killer.join()
    assert failures > 0
    with open_ledger(place, write=False) as ledger:
        assert list(ledger.entries(RUN)) == entries
        assert verify_run(ledger, RUN, [Head(e.number, e.hash) for e in entries]).fits


def test_who_lost_the_lease_with_the_database_cannot_write_beside_its_successor(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motifair.consortium.store.lease.LOCK_TRIES", 1)
    place, entries = postgres.create(), make_run(3)
    with open_ledger(place, write=True) as first, open_ledger(place, write=True) as second:
        with first.lease(RUN):
            first.append(entries[0])
            postgres.kill()
            postgres.start()
            with second.lease(RUN):
                second.append(entries[1])
                with pytest.raises(LedgerUnavailable):
                    first.append(entries[1])
                with pytest.raises(MotifairError, match="Another server is writing"):
                    first.append(entries[1])
            for entry in entries[1:]:
                first.append(entry)
        assert list(second.entries(RUN)) == entries
