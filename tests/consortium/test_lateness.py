"""A member that keeps the others waiting is seen and, if the terms say so, not paid for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from deployed import NAMES, World, terms_of

from motifair.consortium.audit import audit
from motifair.consortium.lateness import ANSWERS, usual_seconds
from motifair.consortium.transports import OnReply
from motifair.consortium.transports.inprocess import InProcess
from motifair.statements.statement import make_statement
from motifair.statements.verification import verify

SLOW = "bank-b"
FAST = [name for name in NAMES if name != SLOW]


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Let answers take as many seconds as this says, 2 otherwise, without waiting."""
    seconds = {SLOW: 50.0}
    exchange = InProcess.exchange

    def exchanging(
        transport: InProcess, tasks: Mapping[str, bytes], deadline: float, on_reply: OnReply
    ) -> tuple[dict[str, bytes], dict[str, str]]:
        return exchange(
            transport, tasks, deadline, lambda name, _: on_reply(name, seconds.get(name, 2.0))
        )

    monkeypatch.setattr(InProcess, "exchange", exchanging)
    return seconds


def world(folder: Path, **federation: float) -> World:
    made = World(folder, terms_of(rounds=4, trial_rounds=0, **federation))
    assert made.drive()
    assert verify(made.entries()).fits
    assert audit(made.terms, made.folder / "run", made.entries()).fits
    return made


def statuses(made: World, name: str) -> list[str]:
    return [made.line(k, name).status for k in range(1, 5)]


def test_without_a_limit_lateness_costs_nothing_but_is_in_the_statement(
    tmp_path: Path, hours: dict[str, float]
) -> None:
    made = world(tmp_path)
    assert {s for name in NAMES for s in statuses(made, name)} == {"present"}
    seconds = usual_seconds(made.folder / "run" / ANSWERS)
    assert seconds == pytest.approx({**dict.fromkeys(FAST, 2.0), SLOW: 50.0}, abs=0.1)
    said = make_statement(made.entries(), SLOW, seconds=seconds).sentences
    assert "Its answers took 50.0 s in the median round, the median member's 2.0 s." in said


def test_a_late_answer_is_not_paid_where_the_terms_say_so(
    tmp_path: Path, hours: dict[str, float]
) -> None:
    """Except in the first round of a segment: some have their answers from before a crash."""
    made = world(tmp_path, max_time_ratio=10.0)
    assert statuses(made, SLOW) == ["present", "absent", "absent", "absent"]
    assert all(set(statuses(made, name)) == {"present"} for name in FAST)
    late = made.line(2, SLOW)
    assert late.payoff <= 0
    assert late.reason == "late: its answer took 50.0 s, where 2.0 s is usual and 20.0 s the most"
    said = make_statement(made.entries(), SLOW).sentences
    assert "Uploads of 3 rounds were late by the terms' max_time_ratio, which is not paid." in said
    assert not [text for text in said if "were missing" in text]


@pytest.mark.parametrize(
    ("seconds", "quorum"),
    [({SLOW: 19.0}, 2), ({SLOW: 9.9, **dict.fromkeys(FAST, 0.1)}, 2), ({SLOW: 50.0}, 4)],
    ids=["less than the limit", "within ten seconds", "the quorum needs it"],
)
def test_nobody_is_late_that_should_not_be(
    tmp_path: Path, hours: dict[str, float], seconds: dict[str, float], quorum: int
) -> None:
    hours |= seconds
    made = world(tmp_path, max_time_ratio=10.0, quorum=quorum)
    assert set(statuses(made, SLOW)) == {"present"}


def test_a_damaged_or_missing_file_of_times_is_not_needed(tmp_path: Path) -> None:
    assert usual_seconds(tmp_path / ANSWERS) == {}
    (tmp_path / ANSWERS).write_bytes(b"1,a,2.0\n2,a\n\xff,,\n3,a,x\n3,a,4.0\n")
    assert usual_seconds(tmp_path / ANSWERS) == {"a": 3.0}
