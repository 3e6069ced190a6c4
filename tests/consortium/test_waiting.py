"""Who watches a run is told what it waits for."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deployed import NAMES, terms_of

from motifair.consortium import operate
from motifair.consortium.live import LIVE, LiveStatusWriter
from motifair.consortium.operate import StallDetector, progress, waits_for
from motifair.consortium.transports.nvflare import processes
from motifair.errors import MotifairError


@pytest.fixture
def operator(tmp_path: Path) -> Any:
    return cast(
        Any, SimpleNamespace(run=lambda name: tmp_path, kit=lambda name: tmp_path, terms=terms_of())
    )


def test_members_without_an_answer_are_named(
    operator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveStatusWriter(tmp_path / LIVE) as live:
        live.started(3, NAMES, 30.0)
        live.replied("bank-b")
    assert waits_for(operator, "r").startswith("the server is not running on this machine")
    monkeypatch.setattr(processes, "running", lambda kit: kit)
    assert waits_for(operator, "r").startswith("waiting for the server to begin a segment")
    live.now = live.now.__class__(3, True, NAMES, 0.0, 0.0, {"bank-b": 1.0})
    live._write(quiet=True)
    named = "round 3 waits for bank-a, bank-c, bank-d; it needs 2 of 4 members"
    assert waits_for(operator, "r") == named


def test_a_sentence_comes_after_every_pause(operator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 9.0, 10.0, 10.0, 12.0, 21.0, 21.0])
    clock = SimpleNamespace(monotonic=lambda: next(now), time=time.time)
    monkeypatch.setattr(operate, "time", clock)
    said: list[str] = []
    watch = progress(operator, "r", said.append)
    for _ in range(5):
        watch()
    assert len(said) == 2


def test_only_a_run_that_waits_for_nobody_is_given_up(operator: Any, tmp_path: Path) -> None:
    detector = StallDetector(operator, "r", patience=60.0)
    detector.since -= 61
    with LiveStatusWriter(tmp_path / LIVE) as live:
        live.started(3, NAMES, 30.0)
        end = time.monotonic() + 10
        while operate._open_exchange(operator, "r") is None:  # written by a thread
            assert time.monotonic() < end
            time.sleep(0.01)
        detector.check("")
    detector.since -= 61
    with pytest.raises(MotifairError, match="no progress since round 0 for 60 seconds"):
        detector.check("")
