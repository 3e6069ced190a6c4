"""Workers by default: as many as there are cores for this process, not for the machine."""

from pathlib import Path

import pytest

from motifair import cores
from motifair.experiments.plan import make_plan


@pytest.mark.parametrize(
    ("said", "usable"),
    [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), ("900000 100000", 8), ("?", 8)],
)
def test_affinity_and_quota_bound_the_cores(
    said: str, usable: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text(said)
    monkeypatch.setattr(cores, "_QUOTA", quota)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    assert cores.usable_cores() == usable
    assert make_plan("planted", {"rounds": 1}, device="cpu").threads == usable


def test_without_a_quota_affinity_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_QUOTA", tmp_path / "missing")
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 5})
    assert cores.usable_cores() == 2
