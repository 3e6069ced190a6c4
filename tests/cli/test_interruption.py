"""Real processes, really killed: a resumed run ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import motifair
from motifair.cli.app import app
from motifair.errors import MotifairError

COMMAND = [sys.executable, "-m", "motifair"]
WORDS = ["run", "--rounds", "40", "--agents", "4", "--threads", "1", "--quiet",
         "--set", "hidden=32", "--set", "batch_size=50", "--set", "trial_rounds=2"]  # fmt: skip
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def finished(out: Path) -> tuple[dict[str, object], bytes, bytes]:
    """What must be equal: the summary but for its timing, and both tables to the last byte."""
    summary = json.loads((out / "summary.json").read_text())
    del summary["seconds"], summary["finished"]
    return summary, (out / "history.csv").read_bytes(), (out / "agents.csv").read_bytes()


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def in_peace(words: list[str], out: Path) -> Path:
    """The same run in this process, which nobody kills."""
    assert CliRunner().invoke(app, [*words, "--out", str(out)]).exit_code == 0
    return out


def resume(out: Path) -> None:
    """Go on in this process: to start one more takes longer than the rounds that are left."""
    assert CliRunner().invoke(app, ["resume", str(out), "--quiet"]).exit_code == 0


@pytest.mark.kill
def test_killed_at_random_moments_a_run_still_ends_bit_identical(tmp_path: Path) -> None:
    whole = in_peace(WORDS, tmp_path / "whole")
    broken = tmp_path / "broken"
    moments = random.Random(7)
    kills = 0
    process = start(*WORDS, "--out", str(broken))
    while True:
        # Kills before the first file would test nothing: wait until the run has begun.
        while process.poll() is None and not any((broken / "checkpoint").glob("*.safetensors")):
            time.sleep(0.02)
        try:
            process.wait(timeout=moments.uniform(0.1, 1.5) if kills < 3 else None)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            process = start("resume", str(broken), "--quiet")
            time.sleep(moments.uniform(1.5, 3.0))
            continue
        break
    assert process.returncode == 0
    assert kills >= 2
    assert finished(whole) == finished(broken)


@pytest.mark.kill
def test_killed_while_an_agent_gives_less_a_run_still_ends_bit_identical(tmp_path: Path) -> None:
    words = [*WORDS, "--rounds", "6", "--agents", "3", "--set", "incentives=true"]
    whole = in_peace(words, tmp_path / "whole")
    broken = tmp_path / "broken"
    process = start(*words, "--out", str(broken))
    while process.poll() is None and not any((broken / "checkpoint").glob("*gives-050*")):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (broken / "summary.json").exists()
    resume(broken)
    assert finished(whole) == finished(broken)


@pytest.mark.kill
def test_an_interrupt_saves_says_how_to_go_on_and_loses_nothing(tmp_path: Path) -> None:
    words = [*WORDS, "--rounds", "12"]
    whole = in_peace(words, tmp_path / "whole")
    broken = tmp_path / "broken"
    process = start(*words, "--out", str(broken))
    while process.poll() is None and not any((broken / "checkpoint").glob("*.safetensors")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Stopping after this round" in said
    assert f"motifair resume {broken}" in said
    assert not (broken / "summary.json").exists()
    resume(broken)
    assert finished(whole) == finished(broken)


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    motifair.run(out=out, rounds=2, agents=3, hidden=16, threads=1)
    config = json.loads((out / "config.json").read_text())
    config["options"]["learning_rate"] = 0.5
    (out / "config.json").write_text(json.dumps(config))
    (out / "summary.json").unlink()
    refused = CliRunner().invoke(app, ["resume", str(out)])
    assert isinstance(refused.exception, MotifairError)
    assert "another configuration" in str(refused.exception)
