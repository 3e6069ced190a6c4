"""Verification detects any change of a ledger and names its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from books import NAMES, RUN, forge, line, make_run, public_key, sign, terms, write
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.consortium.store.ledger import open_ledger
from motifair.errors import MotifairError
from motifair.statements.accounts import Accounts
from motifair.statements.entry import Entry, Line
from motifair.statements.verification import (
    Head,
    Mismatch,
    Verdict,
    head_line,
    read_heads,
    verify,
    verify_run,
)


def verdict_of(place: str, heads: list[Head] | None = None, run: str = RUN) -> Verdict:
    with open_ledger(place, write=False) as ledger:
        return verify_run(ledger, run, heads or ())


def mismatch_of(verdict: Verdict) -> Mismatch:
    assert verdict.finding is not None
    assert not verdict.fits
    return verdict.finding


def rechained(entries: list[Entry]) -> list[Entry]:
    """A careful forgery: recompute all hashes after a change."""
    chain: list[Entry] = []
    for entry in entries:
        previous = chain[-1].hash if chain else entry.previous
        chain.append(replace(entry, number=len(chain), previous=previous, recorded=None))
    return chain


def with_line(entry: Entry, agent: str, **changes: object) -> Entry:
    lines = tuple(replace(x, **changes) if x.agent == agent else x for x in entry.lines)  # type: ignore[arg-type]
    return replace(entry, lines=lines)


def test_a_ledger_as_it_was_written_fits(place: str) -> None:
    entries = make_run(8)
    write(place, entries)
    heads = [Head(e.number, e.hash) for e in entries]
    assert verdict_of(place, heads) == Verdict(RUN, 9, 8, entries[-1].hash)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["value", "equal"]), st.integers(0, 5000))
def test_every_run_that_was_settled_by_the_rules_fits(seed: int, pays: str, cap: int) -> None:
    entries = make_run(9, seed=seed, pays=pays, max_penalty=cap, signed=False)
    unsigned = [replace(e, lines=tuple(replace(x, signature="") for x in e.lines)) for e in entries]
    assert verify(rechained(unsigned)).fits


COLUMNS = {
    "entries": {
        "kind": "'terms'",
        "round": "round + 1",
        "settled": "1 - settled",
        "budget": "budget + 1",
        "terms": "'{}'",
        "previous": "hash",
        "hash": "previous",
        "signature": "'00'",
    },
    "lines": {
        "agent": "'bank-z'",
        "status": "CASE status WHEN 'present' THEN 'absent' ELSE 'present' END",
        "reason": "'it was late'",
        "value": "value + 1",
        "alignment": "COALESCE(alignment + 1, 0)",
        "diversity": "diversity - 1",
        "compensation": "compensation + 1",
        "kept": "kept + 1",
        "payoff": "payoff + 1",
        "upload": "hash",
        "signature": "'00'",
        "hash": "upload",
    },
}


def test_one_altered_column_is_named_whichever_it_is(place: str) -> None:
    columns = [(table, name) for table in COLUMNS for name in COLUMNS[table]]
    for _, name in columns:
        write(place, make_run(run=f"run-{name}", operator="operator"))
        write(place, make_run(run=f"line-run-{name}"))
    for table, name in columns:
        run = f"{'line-' if table == 'lines' else ''}run-{name}"
        where = f"run = '{run}' AND number = 4"
        where += " AND agent = 'bank-b'" if table == "lines" else ""
        forge(place, f"UPDATE {table} SET {name} = {COLUMNS[table][name]} WHERE {where}")
        finding = mismatch_of(verdict_of(place, run=run))
        agent = {"agent": "bank-z"}.get(name, "bank-b") if table == "lines" else ""
        assert (finding.number, finding.agent) == (4, agent), run


@pytest.mark.parametrize("number", [0, 4])
@pytest.mark.parametrize("wrong", [2, -1, 256])
def test_settled_is_0_or_1_and_nothing_else(place: str, number: int, wrong: int) -> None:
    entries = make_run()
    write(place, entries)
    forge(place, f"UPDATE entries SET settled = {wrong} WHERE number = {number}")
    heads = [Head(e.number, e.hash) for e in entries]
    finding = mismatch_of(verdict_of(place, heads))
    assert (finding.number, finding.agent) == (number, "")
    assert finding.what == "settled is neither 0 nor 1"


@pytest.mark.parametrize(("table", "column"), [("entries", "terms"), ("lines", "reason")])
def test_bytes_that_are_no_text_are_named_like_any_change(
    tmp_path: Path, table: str, column: str
) -> None:
    place = str(tmp_path / "ledger.sqlite")
    write(place, make_run())
    forge(place, f"UPDATE {table} SET {column} = CAST(x'ff00' AS TEXT) WHERE number = 4")
    assert mismatch_of(verdict_of(place)).number == 4


def test_an_altered_line_of_the_last_entry_is_named(place: str) -> None:
    write(place, make_run())
    forge(place, "UPDATE lines SET kept = kept + 1 WHERE number = 6 AND agent = 'bank-d'")
    finding = mismatch_of(verdict_of(place))
    assert (finding.number, finding.round, finding.agent) == (6, 6, "bank-d")
    assert str(finding).startswith("entry 6, round 6, bank-d: the line was changed")


@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_deleted_entry_is_named(place: str, number: int) -> None:
    write(place, make_run())
    forge(place, *(f"DELETE FROM {t} WHERE number = {number}" for t in ("lines", "entries")))
    finding = mismatch_of(verdict_of(place))
    assert (finding.number, finding.what) == (
        number,
        f"is missing; the next one is entry {number + 1}",
    )


def test_a_deleted_line_is_named(place: str) -> None:
    write(place, make_run())
    forge(place, "DELETE FROM lines WHERE number = 5 AND agent = 'bank-a'")
    assert mismatch_of(verdict_of(place)) == Mismatch(5, 5, "bank-a", "the line is missing")


def test_an_added_line_is_named(place: str) -> None:
    write(place, make_run())
    columns = "status, reason, value, alignment, diversity, compensation, kept, payoff, upload"
    forge(
        place,
        f"INSERT INTO lines (run, number, agent, {columns}, signature, hash) "
        f"SELECT run, 5, 'bank-x', {columns}, signature, '' FROM lines "
        "WHERE number = 4 AND agent = 'bank-a'",
    )
    finding = mismatch_of(verdict_of(place))
    assert (finding.number, finding.round, finding.agent) == (5, 5, "bank-x")


def test_a_line_of_a_stranger_is_named_however_well_it_is_forged() -> None:
    entries = present_run()
    stranger = replace(entries[5].lines[0], agent="bank-x")
    entries[5] = replace(entries[5], lines=(*entries[5].lines, stranger))
    assert mismatch_of(verify(rechained(entries))) == Mismatch(5, 5, "bank-x", "is not a member")


def test_lines_whose_entry_was_deleted_are_named(place: str) -> None:
    write(place, make_run())
    forge(place, "DELETE FROM entries WHERE number = 6")
    finding = mismatch_of(verdict_of(place))
    assert (finding.number, finding.agent) == (6, "bank-a")
    forge(place, "DELETE FROM entries")
    assert mismatch_of(verdict_of(place)).number == 1


def test_an_end_that_was_cut_off_is_noticed_by_who_kept_its_head(place: str) -> None:
    entries = make_run()
    write(place, entries)
    forge(place, *(f"DELETE FROM {t} WHERE number = 6" for t in ("lines", "entries")))
    assert verdict_of(place).fits
    heads = [Head(e.number, e.hash) for e in entries]
    finding = mismatch_of(verdict_of(place, heads))
    assert finding.number == 6
    assert "is missing: a member kept its hash" in finding.what


def test_a_swapped_pair_of_lines_is_named(place: str) -> None:
    write(place, make_run())
    there = "WHERE number = 2 AND agent ="
    forge(
        place,
        f"UPDATE lines SET agent = 'x' {there} 'bank-a'",
        f"UPDATE lines SET agent = 'bank-a' {there} 'bank-b'",
        f"UPDATE lines SET agent = 'bank-b' {there} 'x'",
    )
    finding = mismatch_of(verdict_of(place))
    assert (finding.number, finding.agent) == (2, "bank-a")


def test_a_swapped_pair_of_entries_is_named(place: str) -> None:
    write(place, make_run())
    swaps = [(4, 99), (5, 4), (99, 5)]
    forge(
        place,
        *(
            f"UPDATE {table} SET number = {new} WHERE number = {old}"
            for table in ("entries", "lines")
            for old, new in swaps
        ),
    )
    assert mismatch_of(verdict_of(place)).number == 4


def test_an_entry_moved_to_another_run_is_missed_in_one_and_strange_in_the_other(
    place: str,
) -> None:
    write(place, make_run())
    forge(place, *(f"UPDATE {t} SET run = 'x' WHERE number = 6" for t in ("lines", "entries")))
    assert mismatch_of(verdict_of(place, run="x")).number == 0


FORGERIES: dict[str, tuple[Callable[[Entry], Entry], str, str]] = {
    "payoff": (lambda e: with_line(e, "bank-b", payoff=77), "bank-b", "payoff is 77, but"),
    "compensation": (
        lambda e: with_line(e, "bank-c", compensation=5),
        "bank-c",
        "compensation is 5, but",
    ),
    "budget": (lambda e: replace(e, budget=1), "", "budget is 1, but"),
    "settled": (lambda e: replace(e, settled=not e.settled), "", "settled is"),
    "round": (lambda e: replace(e, round=e.round + 1), "", "round is 5, but"),
    "upload": (lambda e: with_line(e, "bank-a", upload="0" * 64), "bank-a", "signature"),
    "unsigned": (lambda e: with_line(e, "bank-a", signature=""), "bank-a", "not signed"),
    "status": (
        lambda e: with_line(e, "bank-a", status="absent", reason="late"),
        "bank-a",
        "compensation|payoff",
    ),
    "member": (lambda e: replace(e, lines=e.lines[:-1]), NAMES[-1], "the line is missing"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_with_all_hashes_made_anew_is_named_by_what_it_pays(forgery: str) -> None:
    change, agent, words = FORGERIES[forgery]
    entries = present_run()
    entries[4] = change(entries[4])
    finding = mismatch_of(verify(rechained(entries)))
    assert (finding.number, finding.agent) == (4, agent)
    assert any(word in finding.what for word in words.split("|"))


def present_run() -> list[Entry]:
    """Make a run in which all members are present."""
    books = Accounts(RUN)
    entries = [books.agree(terms())]
    books.add(entries[0])
    for r in range(1, 7):
        values = (0.2 + 0.01 * r, 0.5 - 0.02 * r, 0.4, -0.1 + 0.01 * r)
        lines = [line(n, v, round_=r) for n, v in zip(NAMES, values, strict=True)]
        entries.append(books.settle(lines))
        books.add(entries[-1])
    return entries


def test_a_chain_that_was_written_anew_by_the_rules_is_noticed_by_who_kept_a_head(
    place: str,
) -> None:
    entries = make_run(5)
    other = make_run(5, seed=7)
    write(place, other)
    assert verdict_of(place).fits
    finding = mismatch_of(verdict_of(place, [Head(3, entries[3].hash)]))
    assert finding.number == 3
    assert "a member kept a different hash" in finding.what


def test_a_signature_by_another_member_or_for_another_round_is_named() -> None:
    entries = present_run()
    upload = entries[4].lines[0].upload
    for forged in (sign(RUN, 4, "bank-b", upload), sign(RUN, 3, "bank-a", upload), "00"):
        changed = list(entries)
        changed[4] = with_line(entries[4], "bank-a", signature=forged)
        finding = mismatch_of(verify(rechained(changed)))
        assert (finding.number, finding.agent) == (4, "bank-a")
        assert "signature" in finding.what


def run_with(changed: str, after: int = 2) -> list[Entry]:
    """Make a run whose second terms are some JSON text."""
    books, entries = Accounts(RUN), present_run()[: after + 1]
    for entry in entries:
        books.add(entry)
    return [*entries, books.agree(changed)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"currency": "USD"}, "currency"),
        ({"digits": 3}, "currency"),
        ({"budget": 1.5}, "budget"),
        ({"quorum": -1}, "quorum"),
        ({"pays": "nobody"}, "pays"),
        ({"members": {}}, "members"),
        ({"members": ["bank-a"]}, "members"),
        ({"members": {"bank-a": "no key"}}, "RSA"),
    ],
)
def test_terms_that_cannot_be_are_named(change: dict[str, object], words: str) -> None:
    text = json.dumps(json.loads(terms().to_json()) | change)
    finding = mismatch_of(verify(run_with(text)))
    assert finding.number == 3
    assert words in finding.what


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", "7", "null"])
def test_terms_that_cannot_be_read_are_named(text: str) -> None:
    assert "the terms cannot be read" in mismatch_of(verify(run_with(text))).what


def test_nobody_is_paid_after_the_agreed_rounds() -> None:
    finding = mismatch_of(verify(make_run_of(5, agreed=4)))
    assert (finding.number, finding.what) == (5, "the terms are for 4 rounds")


def make_run_of(rounds: int, agreed: int) -> list[Entry]:
    books = Accounts(RUN)
    entries = [books.agree(terms(rounds=agreed))]
    books.add(entries[0])
    for entry in present_run()[1 : rounds + 1]:
        entries.append(books.settle(entry.lines))
        books.add(entries[-1])
    return entries


def test_a_round_before_any_terms_is_named() -> None:
    alone = replace(present_run()[1], number=0, previous="0" * 64)
    assert mismatch_of(verify([alone])).what == "there are no terms before it"


def test_no_entries_fit_unless_a_member_kept_one() -> None:
    assert verify([]).fits
    assert mismatch_of(verify([], [Head(0, "ab" * 32)])).number == 0


def test_members_may_join_leave_and_change_their_keys_between_rounds() -> None:
    books, entries = Accounts(RUN), []

    def add(entry: Entry) -> None:
        entries.append(entry)
        books.add(entry)

    add(books.agree(terms(NAMES[:2])))
    for r in (1, 2):
        add(books.settle([line("bank-a", 0.6, round_=r), line("bank-b", 0.4, round_=r)]))
    add(books.agree(terms(NAMES[1:3])))
    lines = [line("bank-b", 0.6, round_=3), line("bank-c", 0.4, round_=3)]
    add(books.settle(lines))
    renewed = terms(NAMES[1:3])
    renewed.members["bank-b"] = public_key("bank-b, renewed")
    assert verify(entries).fits
    assert verify(entries).rounds == 3
    add(books.agree(renewed))
    add(books.settle(lines))
    assert mismatch_of(verify(entries)).agent == "bank-b"


def test_a_rejected_upload_needs_no_signature_but_a_signature_must_be_good() -> None:
    books = Accounts(RUN)
    first = books.agree(terms())
    books.add(first)
    good = [line(n, 0.3, round_=1) for n in NAMES]
    rejected: Line = replace(good[0], status="rejected", reason="NaN", signature="")
    assert verify([first, books.settle([rejected, *good[1:]])]).fits
    bad = replace(rejected, signature="00")
    assert mismatch_of(verify([first, books.settle([bad, *good[1:]])])).agent == "bank-a"


def test_heads_are_kept_line_by_line_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "heads"
    kept = {"r": [Head(0, "ab"), Head(1, "ef", "01")], "ü": [Head(3, "cd")]}
    path.write_text("".join(head_line(run, head) for run in kept for head in kept[run]))
    assert read_heads(path) == (kept, [])


@pytest.mark.parametrize("whole", [True, False])
def test_a_line_of_heads_that_a_full_disk_tore_is_named_and_the_rest_compared(
    tmp_path: Path, whole: bool
) -> None:
    entries, path, place = make_run(), tmp_path / "heads.jsonl", str(tmp_path / "ledger.sqlite")
    write(place, entries)
    lines = [head_line(RUN, Head(e.number, e.hash)) for e in entries]
    path.write_text("".join(lines[:2]) + lines[2][:20] + "\n" * whole + "".join(lines[3:]))
    command = ["ledger", "verify", "--ledger", place, "--heads", str(path)]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 0
    assert "heads.jsonl: line 3 cannot be read and was not compared" in ended.output
    assert f"the heads reach entry {entries[-1].number}" in ended.output
    flipped = lines[-1].replace(entries[-1].hash[:4], "0" * 4)
    path.write_text("".join(lines[:-1]) + flipped)
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 1
    assert f"entry {entries[-1].number}" in ended.output


def test_what_is_left_of_the_budget_after_the_last_round_is_said() -> None:
    books = Accounts(RUN)
    entries = [books.agree(terms(rounds=2, signed=False, quorum=4))]
    books.add(entries[0])
    for said in ("carried over to the next round", "stays with the operator"):
        entries.append(books.settle([line(n, 0.25, "absent") for n in NAMES]))
        books.add(entries[-1])
        (note,) = [n for n in verify(entries).notes if "not settled" in n]
        assert note.startswith(f"{100 * books.round}.00 EUR")
        assert said in note


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"run": "r"}', "\x00"])
def test_what_is_no_file_of_heads_is_said(tmp_path: Path, text: str) -> None:
    with pytest.raises(MotifairError, match=r"no file .*heads"):
        read_heads(tmp_path / "missing")
    (tmp_path / "heads").write_text(text)
    with pytest.raises(MotifairError, match="is not a file of heads"):
        read_heads(tmp_path / "heads")


def test_heads_of_two_histories_are_refused() -> None:
    with pytest.raises(MotifairError, match="two hashes for entry 1"):
        verify(make_run(2), [Head(1, "aa"), Head(1, "bb")])
