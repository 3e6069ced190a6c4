"""The live status file of the current exchange."""

from __future__ import annotations

import threading
from pathlib import Path

from deployed import NAMES, World, away, terms_of

from motifair.consortium.live import LIVE, LiveStatusWriter, read_exchange_status


def test_a_run_leaves_who_answered_when(tmp_path: Path) -> None:
    world = World(tmp_path, terms_of(rounds=2), meddle=away({"bank-b": (2, 3)}))
    assert world.drive()
    last = read_exchange_status(tmp_path / "run" / LIVE)
    assert last is not None
    assert not last.open
    assert (last.round, last.asked) == (2, NAMES)
    assert set(last.seen) == set(NAMES)
    assert all(last.asked_at <= at <= last.deadline_at for at in last.answered.values())


def test_replies_show_while_others_are_waited_for(tmp_path: Path) -> None:
    path = tmp_path / LIVE
    with LiveStatusWriter(path) as live:
        live.started(3, ["a", "b"], 60)
        live.replied("a")
        pause = threading.Event()
        for _ in range(100):
            status = read_exchange_status(path)
            if status and status.answered:
                break
            pause.wait(0.05)
        assert status is not None
        assert status.open
        assert (status.round, set(status.answered)) == (3, {"a"})
    ended = read_exchange_status(path)
    assert ended is not None
    assert not ended.open
    with LiveStatusWriter(path) as again:
        assert set(again.now.seen) == {"a"}, "when somebody was last seen outlives the server"


def test_a_file_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    with LiveStatusWriter(tmp_path / "nowhere" / LIVE) as live:
        live.started(1, ["a"], 60)
        live.replied("a")
        live.ended()
    world = World(tmp_path, terms_of(rounds=1))
    (tmp_path / "run" / LIVE).mkdir(parents=True)
    assert world.drive()


def test_many_replies_at_once_lose_none(tmp_path: Path) -> None:
    names = [f"agent-{k}" for k in range(200)]
    with LiveStatusWriter(tmp_path / LIVE) as live:
        live.started(1, names, 60)
        threads = [threading.Thread(target=live.replied, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    status = read_exchange_status(tmp_path / LIVE)
    assert status is not None
    assert set(status.answered) == set(names)


def test_what_is_no_moment_is_none(tmp_path: Path) -> None:
    path = tmp_path / LIVE
    assert read_exchange_status(path) is None
    for text in ("", "[]", "{}", '{"round": 1}', "\x00"):
        path.write_text(text)
        assert read_exchange_status(path) is None
