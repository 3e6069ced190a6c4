"""Random command lines end in a result or a sentence, never in a traceback."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from test_json import ALL

import motifair
from motifair.cli import main
from motifair.errors import MotifairError

LINES = 200
# These start processes, or compute for minutes whatever they are given.
LONG = {
    "bench", "paper", "dashboard", "doctor", "federation demo", "federation server start",
    "federation agent start", "federation run", "federation provision",
}  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, half of one, a file that is none, and nothing."""
    folder = tmp_path_factory.mktemp("places")
    motifair.run(out=folder / "run", rounds=2, agents=3, hidden=16, threads=1)
    (folder / "half").mkdir()
    (folder / "half" / "config.json").write_text((folder / "run" / "config.json").read_text()[:99])
    (folder / "file.json").write_text('{"rounds": 2, "bogus": [1]}')
    (folder / "ledger.sqlite").write_bytes(b"no database")
    (folder / "empty").mkdir()
    return folder


def random_line(rng: random.Random) -> list[str]:
    """A command with some of its options, many with values that they do not take."""
    name = rng.choice(sorted(set(ALL) - LONG))
    values = [
        "run", "half", "empty", "file.json", "ledger.sqlite", "nowhere/x", "/proc/x", "", "-1",
        "0", "3", "1e400", "nan", "agent-00", "planted", "run,empty", "motifair", "fedavg,cgsv",
        "beta=inf", "rounds=", "=1", "hidden=-2", "\u2603", "a" * 300, "\x1b[31m", "json", "x.pdf",
    ]  # fmt: skip
    likely = {"folder": "run", "folders": "run", "run": "run", "agent": "agent-00", "out": "made"}
    words = name.split()
    for parameter in ALL[name].params:
        options = [o for o in parameter.opts if o.startswith("--")]
        if rng.random() > (0.5 if options else 0.9):
            continue
        words += options[:1]
        if not getattr(parameter, "is_flag", False):
            value = likely.get(str(parameter.name)) if rng.random() < 0.6 else None
            words.append(value or rng.choice(values))
    return words + rng.choices(["--bogus", "extra", "--json", "--debug="], k=rng.random() < 0.2)


@pytest.mark.slow
def test_no_command_line_ends_in_a_traceback(
    places: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise MotifairError("It would train.")

    monkeypatch.setattr("motifair.experiments.run.run_jobs", refuse)
    monkeypatch.setenv("MOTIFAIR_DATA", str(places))
    monkeypatch.chdir(places)
    rng, codes = random.Random(0), []
    for _ in range(LINES):
        line = random_line(rng)
        monkeypatch.setattr("sys.argv", ["motifair", *line])
        try:
            main()
        except SystemExit as stopped:
            codes.append(stopped.code)
        except Exception as error:
            pytest.fail(f"motifair {line} raised {error!r}")
        assert "Traceback" not in "".join(capfd.readouterr()), line
    assert {0, 2} <= {code or 0 for code in codes} <= {0, 1, 2}
