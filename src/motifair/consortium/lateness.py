"""How long members take to answer: which answers are late, and a file of all times.

The ledger has no clock. The server measures times by its own, and nothing but `late` depends on
them, where the terms ask for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median, median_low

from motifair.statements.explanations import LATE

ANSWERS = "answers.csv"  # of a run: round, agent, seconds
LEAST_TIME = 10.0  # seconds that every member has, however fast the others are


def late(seconds: Mapping[str, float], ratio: float) -> dict[str, str]:
    """Return the reason for each answer that took more than `ratio` times the median member's.

    Of an even number of answers the lower median is taken.

    >>> late({"a": 20.0, "b": 21.0, "c": 300.0}, ratio=10)
    {'c': 'late: its answer took 300.0 s, where 21.0 s is usual and 210.0 s the most'}
    >>> late({"a": 0.2, "b": 0.2, "c": 9.0}, ratio=10)
    {}
    """
    if not seconds:
        return {}
    usual = median_low(seconds.values())
    most = max(LEAST_TIME, ratio * usual)
    return {
        name: f"{LATE} its answer took {took:.1f} s, where {usual:.1f} s is usual and {most:.1f} s "
        "the most"
        for name, took in seconds.items()
        if took > most
    }


def record_answers(path: Path, round: int, seconds: Mapping[str, float]) -> None:
    """Append how long the members took to answer in a round, unless the disk is full."""
    with suppress(OSError), path.open("a") as file:
        file.writelines(f"{round},{name},{took:.3f}\n" for name, took in seconds.items())


def usual_seconds(path: Path) -> dict[str, float]:
    """Return the median time of each member's answers; none where the file is lost.

    A line that is damaged is left out: nothing that is paid depends on it.
    """
    times: dict[str, list[float]] = {}
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    for line in lines:
        try:
            _, name, text = line.split(",")
            took = float(text)
        except ValueError:
            continue
        times.setdefault(name, []).append(took)
    return {name: median(took) for name, took in sorted(times.items())}
