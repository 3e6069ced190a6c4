"""Every entry is signed by the operator: write access to the database alone can pay nobody."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
from books import (
    NAMES,
    RUN,
    forge,
    line,
    make_older,
    make_run,
    public_key,
    signed,
    terms,
    write,
)
from postgres_server import Postgres
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.consortium.store.ledger import ENTRIES, LINES, _entry_row, _line_rows, open_ledger
from motifair.errors import MotifairError
from motifair.statements.accounts import Accounts
from motifair.statements.entry import Entry
from motifair.statements.verification import Head, head_line, verify

OPERATOR, THIEF = "operator", "bank-a"
WANTED = 99_999_999_900


def forged(entries: Sequence[Entry], **changes: object) -> list[Entry]:
    """Forge entries after a finished run: terms that favour a member, and a round that pays it."""
    books = Accounts.of(RUN, entries)
    own = [books.agree(terms(budget=WANTED, quorum=1, rounds=99, **changes))]
    books.add(own[0])
    there = [line(n, 0.5, "present" if n == THIEF else "absent", books.round + 1) for n in NAMES]
    return [*own, books.settle(there)]


def call(*words: object) -> tuple[int, str]:
    ended = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(ended.exception, MotifairError):
        return 2, str(ended.exception)
    return ended.exit_code, ended.output


def insert(place: str, entries: Sequence[Entry]) -> None:
    """Write rows with only the INSERT privilege."""
    engine = sa.create_engine(
        place.replace("postgresql:", "postgresql+psycopg:")
        if "://" in place
        else f"sqlite:///{place}"
    )
    with engine.begin() as connection:
        for entry in entries:
            connection.execute(ENTRIES.insert(), _entry_row(entry))
            if entry.lines:
                connection.execute(LINES.insert(), _line_rows(entry))
    engine.dispose()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "operator.pub"
    path.write_text(public_key(OPERATOR))
    return path


ATTACKS = {
    "the operator's key": (OPERATOR, ""),
    "its own key": (THIEF, THIEF),
    "the operator's key, signed by itself": (OPERATOR, THIEF),
    "no key": ("", ""),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_who_has_no_key_of_the_operators_cannot_pay_itself(
    place: str, key: Path, tmp_path: Path, attack: str
) -> None:
    named, by = ATTACKS[attack]
    entries = make_run(operator=OPERATOR)
    write(place, entries)
    heads = tmp_path / "heads"
    heads.write_text("".join(head_line(RUN, Head(e.number, e.hash)) for e in entries))
    before = call("ledger", "balance", "--ledger", place)
    assert before[0] == 0
    own = forged(entries, operator=public_key(named) if named else "")
    write(place, [signed(e, by) if by else e for e in own])
    for more in ((), ("--operator-key", key), ("--heads", heads)):
        code, said = call("ledger", "verify", "--ledger", place, *more)
        assert code == 1
        assert f"{RUN}: entry 7, round 6: " in said
        assert "not signed by the operator" in said or "another operator's key" in said
    for words in (
        ("ledger", "balance"),
        ("statement", "--agent", THIEF),
        ("ledger", "export", "--out", tmp_path / "rows.csv"),
    ):
        code, said = call(*words, "--ledger", place)
        assert code == 2, said
        assert "entry 7, round 6: " in said
        assert "999,999" not in said.replace(".", ",")
    assert not (tmp_path / "rows.csv").exists()


def test_the_right_to_insert_is_not_enough(postgres: Postgres, key: Path) -> None:
    place, entries = postgres.create(), make_run(operator=OPERATOR)
    write(place, entries)
    forge(
        place,
        "CREATE ROLE thief LOGIN",
        "GRANT SELECT, INSERT ON entries, lines TO thief",
        "GRANT SELECT ON alembic_version TO thief",
    )
    thief = place.replace("tester@", "thief@")
    insert(thief, forged(entries, operator=public_key(OPERATOR)))
    code, said = call("ledger", "verify", "--ledger", place, "--operator-key", key)
    assert (code, said) == (1, f"{RUN}: entry 7, round 6: it is not signed by the operator\n")


def test_a_round_without_a_signature_is_named(place: str) -> None:
    entries = make_run(operator=OPERATOR)
    books = Accounts.of(RUN, entries)
    write(place, entries)
    insert(place, [books.settle([line(n, 0.5, round_=7) for n in NAMES])])
    with open_ledger(place, write=False) as ledger:
        finding = verify(ledger.entries(RUN)).finding
    assert str(finding) == "entry 7, round 7: it is not signed by the operator"


def test_verification_says_by_whose_key_entries_are_signed(place: str, key: Path) -> None:
    write(place, make_run(operator=OPERATOR))
    code, said = call("ledger", "verify", "--ledger", place)
    assert code == 0
    assert "that the ledger itself names; pass --operator-key to check that" in said
    code, said = call("ledger", "verify", "--ledger", place, "--operator-key", key)
    assert code == 0
    assert f"{RUN}: signed by the operator's key " in said


def test_a_chain_of_somebody_else_is_refused_by_who_has_the_operators_key(
    place: str, key: Path
) -> None:
    write(place, make_run(operator=THIEF))
    assert call("ledger", "verify", "--ledger", place)[0] == 0
    code, said = call("ledger", "verify", "--ledger", place, "--operator-key", key)
    assert code == 1
    assert "entry 0, round 0: the terms name another operator's key than the expected one" in said
    for words in (
        ("ledger", "balance"),
        ("statement", "--agent", THIEF),
        ("ledger", "export", "--out", key.with_name("rows.csv")),
    ):
        assert call(*words, "--ledger", place)[0] == 0
        code, said = call(*words, "--ledger", place, "--operator-key", key)
        assert code == 2
        assert "another operator's key" in said


def test_a_ledger_of_motifair_0_1_fits_and_is_said_to_be_unsigned(place: str, key: Path) -> None:
    write(place, make_run())
    make_older(place)
    code, said = call("ledger", "verify", "--ledger", place)
    assert code == 0
    assert "entries are not signed: the terms name no operator's key" in said
    assert call("ledger", "balance", "--ledger", place)[0] == 0
    code, said = call("ledger", "verify", "--ledger", place, "--operator-key", key)
    assert (code, said) == (1, f"{RUN}: entry 0, round 0: it is not signed by the operator\n")


def test_a_run_of_motifair_0_1_is_signed_from_the_terms_on_that_name_the_key(key: Path) -> None:
    entries = make_run(2)
    books = Accounts.of(RUN, entries)
    entries.append(signed(books.agree(terms(operator=public_key(OPERATOR))), OPERATOR))
    books.add(entries[-1])
    last = books.settle([line(n, 0.5, round_=3) for n in NAMES])
    verdict = verify([*entries, signed(last, OPERATOR)], operator=key.read_text())
    assert verdict.fits
    assert verdict.notes[0] == "entries before 3 have no signature; that of entry 3 covers them"
    assert not verify([*entries, last]).fits


def test_a_file_that_is_no_key_is_said(tmp_path: Path) -> None:
    place, path = tmp_path / "ledger.sqlite", tmp_path / "key"
    write(str(place), make_run(1))
    for content in (None, "nonsense", "\udcff"):
        if content is not None:
            path.write_bytes(content.encode(errors="surrogateescape"))
        code, said = call("ledger", "verify", "--ledger", place, "--operator-key", path)
        assert code == 2
        assert "is not a public key of an operator; use local/operator.pub" in said
