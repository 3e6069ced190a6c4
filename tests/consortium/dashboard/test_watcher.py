"""What the dashboard reads of a ledger, bit by bit, and what it notices."""

from __future__ import annotations

import json
import time
from pathlib import Path

import books
import pytest
from served import Writer

from motifair.consortium.dashboard import watcher as feed_module
from motifair.consortium.dashboard.curves import curves_of
from motifair.consortium.dashboard.watcher import Watcher
from motifair.consortium.store.ledger import open_ledger
from motifair.report.cast import look as look_of
from motifair.report.colours import LIGHT
from motifair.statements.verification import verify_run


def look(watcher: Watcher) -> Watcher:
    watcher.look()
    return watcher


def test_only_new_entries_are_read(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(place)
    writer.round()
    watcher = look(Watcher(place))
    read: list[tuple[str, int]] = []
    entries = watcher.ledger.entries

    def counted(run: str, after: int = -1) -> object:
        read.append((run, after))
        return entries(run, after)

    monkeypatch.setattr(watcher.ledger, "entries", counted)
    look(watcher)
    assert read == []
    writer.round()
    look(watcher)
    assert read == [("live", 1)]
    assert watcher.views["live"].detail.summary.round == 2
    watcher.close()


def test_bit_by_bit_is_the_same_as_all_at_once(place: str) -> None:
    entries = books.make_run(rounds=8)
    books.write(place, entries[:1])
    watcher = look(Watcher(place))
    for entry in entries[1:]:
        books.write(place, [entry])
        look(watcher)
    whole = look(Watcher(place))
    (piecemeal,), (at_once,) = watcher.views.values(), whole.views.values()
    same = {"checked_at": at_once.detail.summary.checked_at}
    summary = piecemeal.detail.summary.model_copy(update=same)
    assert piecemeal.detail.model_copy(update={"summary": summary}) == at_once.detail
    assert curves_of(piecemeal.index, 500) == curves_of(at_once.index, 500)
    with open_ledger(place, write=False) as ledger:
        verdict = verify_run(ledger, books.RUN)
    assert (summary.head, summary.fits) == (verdict.head, verdict.fits) == (entries[-1].hash, True)


def test_nothing_changes_as_long_as_nothing_happens(place: str) -> None:
    books.write(place, books.make_run())
    watcher = look(Watcher(place))
    version = watcher.version
    assert look(watcher).version == version


FORGED = [
    ("UPDATE lines SET payoff = payoff + 1 WHERE number = 2 AND agent = 'bank-b'", "bank-b"),
    ("UPDATE entries SET budget = 5 WHERE number = 2", "entry 2, round 2"),
    ("DELETE FROM lines WHERE number = 2 AND agent = 'bank-b'", "the line is missing"),
    ("DELETE FROM entries WHERE number = 4", "entry 4 is missing"),
    ("UPDATE entries SET terms = 'nonsense' WHERE number = 0", "entry 0"),
]


@pytest.mark.parametrize(("statement", "named"), FORGED)
def test_a_changed_row_is_named_as_verify_names_it(place: str, statement: str, named: str) -> None:
    books.write(place, books.make_run())
    watcher = look(Watcher(place))
    assert watcher.views[books.RUN].detail.summary.fits
    books.forge(place, statement)
    look(watcher)
    watcher._whole_at = -1e9  # a minute later
    summary = look(watcher).views[books.RUN].detail.summary
    assert not summary.fits
    with open_ledger(place, write=False) as ledger:
        assert summary.finding == str(verify_run(ledger, books.RUN).finding)
    assert named.split(" is ")[0] in summary.finding


def test_who_watches_notices_at_once_that_the_end_was_cut_off(place: str) -> None:
    books.write(place, books.make_run())
    watcher = look(Watcher(place))
    last = watcher.views[books.RUN].detail.summary.head
    books.forge(place, "DELETE FROM lines WHERE number = 6", "DELETE FROM entries WHERE number = 6")
    summary = look(watcher).views[books.RUN].detail.summary
    assert not summary.fits
    assert last[:16] in summary.finding
    assert not look(watcher).views[books.RUN].detail.summary.fits


@pytest.mark.parametrize("cell", ["payoff = 'x'", "value = x'00ff'", "reason = 7"])
def test_any_rubbish_in_a_cell_is_a_finding_and_not_a_crash(tmp_path: Path, cell: str) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, [*books.make_run(), *books.make_run(run="other")])
    lax = ["PRAGMA ignore_check_constraints = 1", "PRAGMA writable_schema = 1"]
    lax += ["UPDATE sqlite_master SET sql = replace(sql, 'STRICT', '')"]
    books.forge(place, *lax)
    books.forge(place, lax[0], f"UPDATE lines SET {cell} WHERE number = 3 AND run = 'bank-run'")
    watcher = look(Watcher(place))
    assert not watcher.problem
    assert not watcher.views[books.RUN].detail.summary.fits
    assert watcher.views["other"].detail.summary.fits


def test_an_empty_ledger_and_a_run_that_begins_later(place: str) -> None:
    with open_ledger(place, write=True):
        pass
    watcher = look(Watcher(place))
    assert watcher.views == {}
    Writer(place)
    assert look(watcher).views["live"].detail.summary.members == 4


def test_a_ledger_that_is_away_is_a_problem_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "ledger.sqlite"
    writer = Writer(str(place))
    watcher = look(Watcher(place))
    monkeypatch.setattr(watcher, "_read_new", lambda: 1 / 0)
    version = watcher.version
    assert "ZeroDivisionError" in look(watcher).problem
    assert watcher.version > version
    monkeypatch.undo()
    writer.round()
    assert look(watcher).problem == ""
    assert watcher.views["live"].detail.summary.round == 1


def test_many_agents_have_a_few_marked_curves(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    writer = Writer(place, [f"agent-{k:03}" for k in range(80)])
    for _ in range(9):
        writer.round()
    found = curves_of(look(Watcher(place)).views["live"].index, points=4)
    assert found.agents == 80
    assert len(found.curves) == 60
    assert sum(curve.marked for curve in found.curves) == 12
    for curve in found.curves:
        assert len(curve.rounds) <= 4
        assert (curve.rounds[0], curve.rounds[-1]) == (1, 9)


def moment(folder: Path, **content: object) -> None:
    now = time.time()
    folder.mkdir(parents=True, exist_ok=True)
    full = {
        "round": 4, "open": True, "asked": list(books.NAMES), "asked_at": now,
        "deadline_at": now + 60, "answered": {}, "seen": {"bank-a": now - 5}, "written_at": now,
    }  # fmt: skip
    (folder / "live.json").write_text(json.dumps(full | content))


def statuses(watcher: Watcher) -> dict[str, str]:
    return {row.agent: row.status for row in look(watcher).views["live"].detail.agents}


def test_what_agents_do_follows_from_moments_and_ledger(tmp_path: Path) -> None:
    place, folder, now = str(tmp_path / "ledger.sqlite"), tmp_path / "runs" / "live", time.time()
    writer = Writer(place)
    for absent in (["bank-d"], ["bank-d"], ["bank-c", "bank-d"]):
        writer.round(absent)
    ledger_only = {"bank-a": "present", "bank-b": "present", "bank-c": "absent", "bank-d": "gone"}
    assert statuses(Watcher(place)) == ledger_only
    watcher = Watcher(place, tmp_path)
    moment(folder, answered={"bank-a": now})
    live = {"bank-a": "waiting", "bank-b": "training", "bank-c": "late", "bank-d": "gone"}
    assert statuses(watcher) == live
    detail = watcher.views["live"].detail
    assert detail.exchange is not None
    assert (detail.exchange.answered, detail.exchange.asked) == (1, 4)
    assert detail.agents[0].seen_at is not None
    moment(folder, deadline_at=now - 1)
    assert statuses(watcher)["bank-b"] == "late"
    moment(folder, open=False, answered=dict.fromkeys(books.NAMES, now))
    assert set(statuses(watcher).values()) == {"waiting"}


def test_without_a_pulse_the_moments_of_a_server_are_not_believed(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    Writer(place).round()
    watcher = Watcher(place, tmp_path)
    moment(tmp_path / "live", written_at=time.time() - 3600)
    assert set(statuses(watcher).values()) == {"present"}
    assert watcher.views["live"].detail.summary.state == "standing"
    assert watcher.views["live"].detail.exchange is None
    (tmp_path / "live" / "live.json").write_text("{nonsense")
    assert look(watcher).views["live"].detail.summary.state == "open"


def test_a_folder_is_found_by_looking_it_up(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    Writer(place, run="../secret")
    (tmp_path / "secret").mkdir()
    (tmp_path / "runs").mkdir()
    watcher = look(Watcher(place, tmp_path / "runs"))
    assert "../secret" in watcher.views
    assert watcher.folder("../secret") is None
    assert feed_module.PAUSE <= 1


def test_a_pause_is_explained_by_name_to_the_operator_and_by_number_to_members(
    tmp_path: Path,
) -> None:
    place, folder, now = str(tmp_path / "ledger.sqlite"), tmp_path / "runs" / "live", time.time()
    Writer(place).round()
    watcher = Watcher(place, tmp_path)
    moment(folder, answered={"bank-a": now})
    assert look(watcher).views["live"].detail.pause == ""
    moment(folder, answered={"bank-a": now}, deadline_at=now - 1)
    view = look(watcher).views["live"]
    assert view.detail.pause.endswith("2 uploads; no answer yet from bank-b, bank-c, bank-d.")
    assert view.pause.endswith("2 uploads; no answer yet from 3 members.")
    moment(folder, written_at=now - 3600)
    view = look(watcher).views["live"]
    assert "server start" in view.detail.pause == view.pause


def test_the_time_left_is_that_of_the_rounds_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "ledger.sqlite")
    writer = Writer(place)
    writer.round()
    watcher = Watcher(place, tmp_path)
    clock = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    moment(tmp_path / "live")
    assert look(watcher).views["live"].detail.summary.left is None
    for _ in range(2):
        writer.round()
        clock += 3.0
        look(watcher)
    assert watcher.views["live"].detail.summary.left == 3 * (500 - 3)
    moment(tmp_path / "live", written_at=time.time() - 3600)
    assert look(watcher).views["live"].detail.summary.left is None


def test_what_members_reported_at_the_end_is_shown_and_rubbish_is_not(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    Writer(place).round()
    watcher = Watcher(place, tmp_path)
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "result.json").write_text('{"accuracy": {"bank-a": 0.75}}')
    rows = look(watcher).views["live"].detail.agents
    assert [row.accuracy for row in rows] == [0.75, None, None, None]
    assert max(row.received or 0 for row in rows) == 1
    (tmp_path / "live" / "result.json").write_text("{nonsense")
    assert look(watcher).views["live"].detail.agents[0].accuracy is None
    assert watcher.problem == ""


def test_curves_look_as_in_the_report(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    Writer(place).round()
    drawn = curves_of(look(Watcher(place)).views["live"].index, 500).curves
    styles = [look_of(k) for k in range(4)]
    assert [c.light for c in drawn] == [LIGHT[s.colour] for s in styles]
    assert [c.dash for c in drawn] == [s.dash for s in styles]
