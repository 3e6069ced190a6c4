"""A ledger is append-only, with one writer at a time."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from books import NAMES, RUN, forge, make_older, make_run, signed, write
from postgres_server import Postgres

from motifair.consortium.store.lease import LedgerUnavailable
from motifair.consortium.store.ledger import Ledger, open_ledger
from motifair.errors import MotifairError
from motifair.statements.entry import GENESIS, Entry
from motifair.statements.verification import verify_run


def test_what_was_written_is_read_back_the_same(place: str) -> None:
    entries, other = make_run(), make_run(3, run="other", seed=1)
    write(place, entries)
    write(place, other)
    with open_ledger(place, write=False) as ledger:
        assert ledger.runs() == [RUN, "other"]
        assert list(ledger.entries(RUN)) == entries
        assert [e.hash for e in ledger.entries(RUN)] == [e.hash for e in entries]
        assert all(e.recorded == e.hash for e in ledger.entries(RUN))
        assert ledger.head(RUN) == (6, entries[-1].hash)
        assert ledger.head("nobody's") == (-1, GENESIS)
        assert ledger.strays(RUN) == []


def test_the_same_entry_again_changes_nothing(place: str) -> None:
    entries = make_run()
    write(place, entries)
    write(place, entries[2:])
    with open_ledger(place, write=False) as ledger:
        assert list(ledger.entries(RUN)) == entries


def test_another_entry_of_the_same_number_is_refused(place: str) -> None:
    entries, others = make_run(seed=0), make_run(seed=1)
    write(place, entries)
    with open_ledger(place, write=True) as ledger:
        for other in others[1:]:
            with pytest.raises(MotifairError, match=f"Entry {other.number} of run .* not follow"):
                ledger.append(other)
        assert list(ledger.entries(RUN)) == entries


def test_an_entry_that_leaves_one_out_is_refused(place: str) -> None:
    entries = make_run()
    with open_ledger(place, write=True) as ledger:
        for missing in (entries[1], entries[3]):
            with pytest.raises(MotifairError, match="does not follow"):
                ledger.append(missing)
        assert ledger.runs() == []


@pytest.mark.parametrize("table", ["entries", "lines"])
@pytest.mark.parametrize(
    "statement", ["UPDATE {} SET run = 'x'", "UPDATE {} SET number = 99", "DELETE FROM {}"]
)
def test_the_database_itself_refuses_changes(place: str, table: str, statement: str) -> None:
    entries = make_run(2)
    write(place, entries)
    with open_ledger(place, write=True) as ledger:
        with (
            pytest.raises(sa.exc.DBAPIError, match="only ever added to"),
            ledger.engine.begin() as connection,
        ):
            connection.exec_driver_sql(statement.format(table))
        assert list(ledger.entries(RUN)) == entries


def test_rows_cannot_be_replaced_or_truncated_either(tmp_path: Path, postgres: Postgres) -> None:
    for place, statement in (
        (str(tmp_path / "l"), "INSERT OR REPLACE INTO lines SELECT * FROM lines"),
        (str(tmp_path / "l"), "INSERT OR REPLACE INTO entries SELECT * FROM entries"),
        (postgres.create(), "TRUNCATE entries, lines"),
    ):
        write(place, make_run(2))
        with (
            open_ledger(place, write=True) as ledger,
            pytest.raises(sa.exc.DBAPIError, match="only ever added to"),
            ledger.engine.begin() as connection,
        ):
            connection.exec_driver_sql(statement)


def test_no_column_can_hold_a_float(place: str) -> None:
    write(place, make_run(1))
    with open_ledger(place, write=False) as ledger:
        for table in ("entries", "lines"):
            for column in sa.inspect(ledger.engine).get_columns(table):
                assert isinstance(column["type"], sa.Integer | sa.Text), column


def test_sqlite_refuses_a_float_where_a_whole_number_belongs(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    write(place, make_run(1))
    with pytest.raises(Exception, match="cannot store REAL"):
        forge(place, "UPDATE lines SET payoff = 0.5")


def test_an_entry_is_written_whole_or_not_at_all(place: str) -> None:
    entries = make_run(2)
    write(place, entries[:2])
    stray = "INSERT INTO lines SELECT run, 2, agent, status, reason, value, alignment, diversity,"
    stray += " compensation, kept, payoff, upload, signature, hash FROM lines WHERE agent = "
    forge(place, f"{stray} '{NAMES[-1]}'")
    with open_ledger(place, write=True) as ledger:
        with pytest.raises(MotifairError):
            ledger.append(entries[2])
        assert list(ledger.entries(RUN)) == entries[:2]
        assert ledger.strays(RUN) == [(2, NAMES[-1])]


def append_all(ledger: Ledger, entries: list[Entry]) -> None:
    for entry in entries:
        ledger.append(entry)


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    entries = make_run(20)
    place = tmp_path / "ledger.sqlite"
    write(str(place), entries[:3])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_ledger(place, write=True) as ledger:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))
        try:
            with pytest.raises(LedgerUnavailable, match="disk is not full"):
                append_all(ledger, entries[3:])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        there = ledger.head(RUN)[0]
        assert list(ledger.entries(RUN)) == entries[: there + 1]
        append_all(ledger, entries[there:])
        assert list(ledger.entries(RUN)) == entries


def test_the_second_of_two_servers_is_refused(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motifair.consortium.store.lease.LOCK_TRIES", 1)
    entries = make_run(2)
    with open_ledger(place, write=True) as first, open_ledger(place, write=True) as second:
        with first.lease(RUN):
            first.append(entries[0])
            with pytest.raises(MotifairError, match="Another server is writing run bank-run"):
                second.append(entries[1])
            with (
                pytest.raises(MotifairError, match="Another server is writing"),
                second.lease(RUN),
            ):
                pass
            with second.lease("another-run"):
                pass
        with second.lease(RUN):
            second.append(entries[1])
        assert list(first.entries(RUN)) == entries[:2]


HOLDER = """
import sys, time
from motifair.consortium.store.ledger import open_ledger
with open_ledger(sys.argv[1], write=True) as ledger, ledger.lease("bank-run"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.kill
def test_a_lease_ends_with_a_killed_process(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, place], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with open_ledger(place, write=True) as ledger:
            with monkeypatch.context() as hasty:
                hasty.setattr("motifair.consortium.store.lease.LOCK_TRIES", 1)
                with pytest.raises(MotifairError, match="Another server"), ledger.lease(RUN):
                    pass
            os.kill(holder.pid, signal.SIGKILL)
            holder.wait()
            with ledger.lease(RUN):
                ledger.append(make_run(1)[0])
    finally:
        holder.kill()
        holder.wait()


def test_a_ledger_can_be_read_while_it_is_written(place: str) -> None:
    entries = make_run()
    with open_ledger(place, write=True) as ledger, ledger.lease(RUN):
        ledger.append(entries[0])
        ledger.append(entries[1])
        with open_ledger(place, write=False) as reader:
            reading = reader.entries(RUN)
            assert next(reading) == entries[0]
            ledger.append(entries[2])
            assert list(reading) == entries[1:2]
            assert list(reader.entries(RUN)) == entries[:3]
        own = ledger.entries(RUN)
        assert next(own) == entries[0]
        ledger.append(entries[3])


def test_several_can_make_the_same_ledger_at_once(place: str) -> None:
    mistakes: list[BaseException] = []

    def make() -> None:
        try:
            open_ledger(place, write=True).close()
        except BaseException as error:
            mistakes.append(error)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mistakes == []
    write(place, make_run(1))


def test_who_opened_for_reading_cannot_write(place: str) -> None:
    entries = make_run(1)
    write(place, entries[:1])
    with (
        open_ledger(place, write=False) as ledger,
        pytest.raises(MotifairError, match="opened for reading"),
    ):
        ledger.append(entries[1])


def test_an_entry_that_cannot_be_is_not_written(place: str) -> None:
    good = make_run(1)[1]
    changed = [
        {"lines": good.lines[::-1]},
        {"lines": (*good.lines, good.lines[-1])},
        {"kind": "gift"},
        {"budget": 1.5},
        {"number": 2**63},
        {"terms": "{}"},
    ]
    with open_ledger(place, write=True) as ledger:
        for change in changed:
            with pytest.raises(ValueError, match="Entry"):
                ledger.append(Entry(**({f: getattr(good, f) for f in FIELDS} | change)))


FIELDS = ("run", "number", "kind", "round", "settled", "budget", "terms", "lines", "previous")


def test_a_newer_ledger_is_refused(place: str) -> None:
    write(place, make_run(1))
    forge(place, "UPDATE alembic_version SET version_num = '999'")
    for mode in (True, False):
        with pytest.raises(MotifairError, match=r"made by a newer motifair .* Update motifair"):
            open_ledger(place, write=mode)


def test_an_older_ledger_is_brought_up_to_date_by_its_server(
    place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from motifair.consortium.store import migrations

    entries = make_run(2)
    write(place, entries[:2])
    steps = tmp_path / "migrations" / "versions"
    steps.mkdir(parents=True)
    for source in (Path(migrations.__file__).parent / "versions").glob("v*.py"):
        (steps / source.name).write_text(source.read_text())
    (steps / "v999_next.py").write_text(
        "from alembic import op\nrevision = '999'\ndown_revision = '003'\n"
        "def upgrade():\n    op.execute('CREATE TABLE more (number INTEGER)')\n"
    )
    monkeypatch.setattr(migrations, "__file__", str(steps.parent / "__init__.py"))
    with pytest.raises(MotifairError, match="older motifair"):
        open_ledger(place, write=False)
    write(place, entries)
    with open_ledger(place, write=False) as ledger:
        assert sa.inspect(ledger.engine).has_table("more")
        assert list(ledger.entries(RUN)) == entries


def test_a_ledger_of_motifair_0_1_can_be_read_and_is_brought_up_to_date_by_its_server(
    place: str,
) -> None:
    entries = make_run(3)
    write(place, entries[:2])
    make_older(place)
    with open_ledger(place, write=False) as ledger:
        assert list(ledger.entries(RUN)) == entries[:2]
    later = [signed(entry, "operator") for entry in entries[2:]]
    write(place, later)
    with open_ledger(place, write=False) as ledger:
        assert list(ledger.entries(RUN)) == entries
        signatures = [entry.signature for entry in ledger.entries(RUN)]
        assert signatures == ["", "", *(entry.signature for entry in later)]


def test_a_real_ledger_of_motifair_0_1_is_verified_and_then_migrated(tmp_path: Path) -> None:
    """`ledger_0_1.sql` is the dump of a ledger that 0.1's demo wrote: two agents, three rounds."""
    place = str(tmp_path / "ledger.sqlite")
    with sqlite3.connect(place) as database:
        database.executescript((Path(__file__).parent / "ledger_0_1.sql").read_text())
    database.close()
    for write_ in (False, True):
        with open_ledger(place, write=write_) as ledger:
            verdict = verify_run(ledger, "demo")
        assert (verdict.fits, verdict.rounds, verdict.head[:8]) == (True, 3, "4d715384")
        assert verdict.notes == ("entries are not signed: the terms name no operator's key",)


def test_who_may_only_add_to_an_older_ledger_is_told_who_brings_it_up_to_date(
    postgres: Postgres,
) -> None:
    place = postgres.create()
    write(place, make_run(2))
    make_older(place)
    forge(
        place,
        "CREATE ROLE adder LOGIN",
        "GRANT SELECT, INSERT ON entries, lines TO adder",
        "GRANT SELECT ON alembic_version TO adder",
    )
    adder = place.replace("tester@", "adder@")
    with pytest.raises(
        MotifairError, match=r"older motifair \(schema 001\).* URL of the owner"
    ) as refused:
        open_ledger(adder, write=True)
    assert not isinstance(refused.value, LedgerUnavailable)


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("postgresql://u:secret@127.0.0.1:1/db", "cannot be reached .*refused"),
        ("postgresql://u:secret@no-such-host.invalid/db", "cannot be reached"),
        ("postgresql://u:secret@h:port/db", "cannot be read; it looks like"),
        ("mysql://u:secret@h/db", "not mysql://"),
        ("sqlite://", "not sqlite://"),
        ("missing/ledger.sqlite", "no ledger at|no folder"),
    ],
)
@pytest.mark.parametrize("mode", [True, False])
def test_a_wrong_place_is_answered_with_a_sentence(
    where: str, sentence: str, mode: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MotifairError, match=sentence) as refused:
        open_ledger(where, write=mode)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("not a database, " * 200)
    for mode in (True, False):
        with pytest.raises(MotifairError, match="not a database"):
            open_ledger(place, write=mode)
    assert place.read_text() == "not a database, " * 200


def test_a_run_without_a_name_is_damage(tmp_path: Path) -> None:
    """A file's bytes may say what its own tables forbid."""
    place = tmp_path / "ledger.sqlite"
    write(str(place), make_run(2))
    with sqlite3.connect(place) as raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            raw.execute(f"DROP TRIGGER {name}")
        raw.execute("PRAGMA writable_schema = ON")
        for word in ("NOT NULL", "STRICT"):
            raw.execute("UPDATE sqlite_master SET sql = replace(sql, ?, '')", (word,))
    with sqlite3.connect(place) as raw:
        raw.execute("UPDATE entries SET run = NULL WHERE number = 1")
    damaged = pytest.raises(MotifairError, match=r"damaged \(a run without a name\); restore a")
    with open_ledger(place, write=False) as ledger, damaged:
        ledger.runs()


def test_an_empty_database_is_no_ledger_yet(postgres: Postgres, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for place in (postgres.create(), str(tmp_path / "empty")):
        with pytest.raises(MotifairError, match="There is no ledger in"):
            open_ledger(place, write=False)


def test_a_database_that_does_not_exist_is_named(postgres: Postgres) -> None:
    with pytest.raises(MotifairError, match='database "nowhere" does not exist'):
        open_ledger(postgres.url("nowhere"), write=True)


def test_a_server_needs_no_more_than_to_read_and_to_add(postgres: Postgres) -> None:
    place, entries = postgres.create(), make_run(2)
    write(place, entries[:1])
    forge(
        place,
        "CREATE ROLE server LOGIN",
        "GRANT SELECT, INSERT ON entries, lines TO server",
        "GRANT SELECT ON alembic_version TO server",
    )
    place = place.replace("tester@", "server@")
    with open_ledger(place, write=True) as ledger:
        for statement in ("ALTER TABLE lines DISABLE TRIGGER ALL", "DELETE FROM lines"):
            with (
                pytest.raises(sa.exc.ProgrammingError, match=r"owner|permission denied"),
                ledger.engine.begin() as connection,
            ):
                connection.exec_driver_sql(statement)
        for entry in entries:
            ledger.append(entry)
        assert list(ledger.entries(RUN)) == entries


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MotifairError, match=r"needs psycopg; .*motifair\[ledger\]"):
        open_ledger("postgresql://u@h/db", write=False)


@pytest.mark.parametrize(
    ("module", "library"),
    [
        ("motifair.consortium.store.ledger", "sqlalchemy"),
        ("motifair.consortium.store.ledger", "alembic"),
        ("motifair.consortium.store.lease", "sqlalchemy"),
        ("motifair.statements.signatures", "cryptography"),
        ("motifair.consortium.keys", "cryptography"),
    ],
)
def test_a_missing_library_is_named(module: str, library: str) -> None:
    code = (
        f"import sys; sys.modules['{library}'] = None\n"
        "from motifair.errors import MotifairError\n"
        f"try:\n    import {module}\n"
        "except MotifairError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert f"needs {library}; run pip install 'motifair[ledger]'" in said


def test_importing_motifair_needs_no_database() -> None:
    code = "import sys, motifair, motifair.cli.app; print('sqlalchemy' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.stdout == "False\n"
