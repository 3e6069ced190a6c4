"""`motifair ledger`, and the files and tables it makes."""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from books import NAMES, RUN, forge, make_run, write
from typer.testing import CliRunner, Result

from motifair.cli.ledger import ledger_app
from motifair.consortium.store.export import decimal
from motifair.errors import MotifairError
from motifair.statements.entry import Entry
from motifair.statements.verification import Head, head_line, verify


def call(*words: str) -> Result:
    return CliRunner().invoke(ledger_app, list(words))


def said(*words: str) -> str:
    result = call(*words)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words: str) -> str:
    """Return the error message of a refused command."""
    result = call(*words)
    assert isinstance(result.exception, MotifairError), result.output
    return str(result.exception)


def test_verify_says_that_all_fits_and_names_the_head(place: str) -> None:
    entries = make_run()
    write(place, entries)
    fit = f"{RUN}: 7 entries, 6 rounds, verified; head {entries[-1].hash}"
    note = "entries are not signed: the terms name no operator's key"
    assert said("verify", "--ledger", place) == f"{fit}\n{RUN}: {note}\n"
    (verdict,) = json.loads(said("verify", "--ledger", place, "--json"))
    assert verdict == {
        "fits": True,
        "run": RUN,
        "entries": 7,
        "rounds": 6,
        "head": entries[-1].hash,
        "finding": None,
        "notes": [note],
    }


def test_verify_ends_with_1_and_names_the_row(place: str) -> None:
    write(place, make_run(3, run="a-good-run"))
    write(place, make_run())
    forge(
        place,
        f"UPDATE lines SET payoff = 1 WHERE run = '{RUN}' AND number = 2 AND agent = 'bank-c'",
    )
    result = call("verify", "--ledger", place)
    assert result.exit_code == 1
    assert "a-good-run: 4 entries, 3 rounds, verified" in result.output
    assert f"{RUN}: entry 2, round 2, bank-c: the line was changed" in result.output
    result = call("verify", "--ledger", place, "--json")
    assert result.exit_code == 1
    finding = json.loads(result.output)[1]["finding"]
    assert (finding["number"], finding["round"], finding["agent"]) == (2, 2, "bank-c")


def test_a_run_has_its_ledger_in_its_folder(tmp_path: Path) -> None:
    write(str(tmp_path / "ledger.sqlite"), make_run(2))
    assert "2 rounds, verified" in said("verify", "--run", str(tmp_path))


def test_heads_show_what_is_missing_even_a_whole_run(tmp_path: Path) -> None:
    place, entries = str(tmp_path / "ledger.sqlite"), make_run(3)
    write(place, entries[:3])
    heads = tmp_path / "heads"
    heads.write_text("".join(head_line(RUN, Head(e.number, e.hash)) for e in entries[:3]))
    assert "rounds, verified" in said("verify", "--ledger", place, "--heads", str(heads))
    for kept, words in (
        (head_line(RUN, Head(3, entries[3].hash)), f"{RUN}: entry 3: is missing"),
        (head_line("gone", Head(5, "ab" * 32)), "gone: entry 5: is missing"),
        (
            head_line(RUN, Head(1, "cd" * 32)),
            f"{RUN}: entry 1, round 1: a member kept a different hash",
        ),
    ):
        heads.write_text(kept)
        result = call("verify", "--ledger", place, "--heads", str(heads))
        assert result.exit_code == 1
        assert words in result.output


def test_it_is_said_how_far_heads_reach(tmp_path: Path) -> None:
    place, entries = str(tmp_path / "ledger.sqlite"), make_run(5)
    write(place, entries)
    write(place, make_run(1, run="other"))
    heads = tmp_path / "heads"
    nothing = "the file has no head of this run: nothing was compared\n"
    for kept, words in (
        (entries[:3], "the heads reach entry 2 of 5; 3 later entries were not compared\n"),
        (entries[4:5], "the heads reach entry 4 of 5; 1 later entry was not compared\n"),
        (entries, "the heads reach entry 5 of 5\n"),
        ([], nothing),
    ):
        heads.write_text("".join(head_line(RUN, Head(e.number, e.hash)) for e in kept))
        printed = said("verify", "--ledger", place, "--heads", str(heads))
        assert f"{RUN}: {words}" in printed
        assert f"other: {nothing}" in printed
        verdicts = json.loads(said("verify", "--ledger", place, "--heads", str(heads), "--json"))
        assert verdicts[0]["notes"][0] == words.strip()
    assert "head of this run" not in said("verify", "--ledger", place)


def test_mistakes_end_in_a_sentence(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    assert "Name one ledger" in refused("verify")
    assert "Name one ledger" in refused("verify", "--ledger", place, "--run", str(tmp_path))
    assert "There is no ledger at" in refused("verify", "--run", str(tmp_path))
    write(place, [])
    assert "has no entries yet" in refused("verify", "--ledger", place)
    assert "no rounds" in refused("export", "--ledger", place, "--out", str(tmp_path / "x"))
    write(place, make_run(1))
    out = str(tmp_path / "no" / "file.csv")
    assert "cannot be written" in refused("export", "--ledger", place, "--out", out)
    words = ("export", "--ledger", place, "--out", str(tmp_path / "x"), "--format", "xml")
    assert "There is no format xml" in refused(*words)
    assert not (tmp_path / "x").exists()
    forge(place, "UPDATE entries SET terms = '{}' WHERE number = 0")
    assert "motifair ledger verify" in refused("balance", "--ledger", place)


def rows_of(entries: list[Entry]) -> list[tuple[object, ...]]:
    return [
        (e.round, x.agent, x.status, Decimal(x.value) / 10**12, Decimal(x.payoff) / 100)
        for e in entries
        for x in e.lines
    ]


def test_csv_and_parquet_have_every_number_exactly(place: str, tmp_path: Path) -> None:
    entries = make_run()
    write(place, entries)
    for kind in ("csv", "parquet"):
        said("export", "--ledger", place, "--format", kind, "--out", str(tmp_path / kind))
    with (tmp_path / "csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [
        (int(r["round"]), r["agent"], r["status"], Decimal(r["value"]), Decimal(r["payoff"]))
        for r in rows
    ] == rows_of(entries)
    assert not any("E" in r["value"] for r in rows)
    frame = pd.read_parquet(tmp_path / "parquet")
    assert all(isinstance(v, Decimal) for v in [*frame["value"], *frame["payoff"]])
    columns = [frame[c] for c in ("round", "agent", "status", "value", "payoff")]
    assert list(zip(*columns, strict=True)) == rows_of(entries)
    assert set(frame["hash"]) == {e.hash for e in entries[1:]}


def test_a_file_is_written_as_it_is_named(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    write(place, make_run())
    for name in ("x.parquet", "x.csv", "x.json"):
        said("export", "--ledger", place, "--out", str(tmp_path / name))
    rows = pd.read_parquet(tmp_path / "x.parquet")
    assert len(rows) == len(pd.read_csv(tmp_path / "x.csv"))
    assert json.loads((tmp_path / "x.json").read_text())
    words = ("export", "--ledger", place, "--out", str(tmp_path / "y.csv"), "--format", "parquet")
    assert "has the suffix of csv" in refused(*words)
    assert "no format of a table" in refused(*words[:-3], str(tmp_path / "y.xls"))


def test_json_has_the_entries_from_which_all_can_be_computed_again(
    place: str, tmp_path: Path
) -> None:
    entries = make_run()
    write(place, entries)
    said("export", "--ledger", place, "--format", "json", "--out", str(tmp_path / "json"))
    exported = json.loads((tmp_path / "json").read_text())
    assert [e.pop("hash") for e in exported] == [e.hash for e in entries]
    again = [Entry.from_json(json.dumps(e)) for e in exported]
    assert again == entries
    assert verify(again).fits
    assert json.loads(said("entries", "--ledger", place, "--json"))[0]["kind"] == "terms"


def test_balances_are_exact_and_add_up_to_the_settled_budgets(place: str) -> None:
    entries = make_run()
    write(place, entries)
    rows = json.loads(said("balance", "--ledger", place, "--json"))
    assert [row["agent"] for row in rows] == list(NAMES)
    settled = sum(e.budget for e in entries if e.settled)
    assert sum(Decimal(row["balance"]) for row in rows) == Decimal(settled) / 100
    for row in rows:
        paid = [x.payoff for e in entries for x in e.lines if x.agent == row["agent"]]
        assert row["earned"] == decimal(sum(p for p in paid if p > 0), 2)
        assert row["penalties"] == decimal(-sum(p for p in paid if p < 0), 2)
        assert row["balance"] == decimal(sum(paid), 2)
        assert row["balance"] in said("balance", "--ledger", place)


def test_entries_are_listed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    entries = make_run()
    write(place, entries)
    printed = said("entries", "--ledger", place)
    for entry in entries:
        assert entry.hash[:16] in printed
    assert printed.count("round ") >= 6
    assert " no " in printed
