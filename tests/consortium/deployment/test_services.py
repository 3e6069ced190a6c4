"""Server and agents as services: unit files, logs as JSON, a health check."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import pytest

pytest.importorskip("nvflare")

from consortium import Consortium
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.cli.federation import _teller
from motifair.consortium.live import LIVE, PULSE, LiveStatusWriter
from motifair.consortium.operate import problems
from motifair.consortium.operator_folder import SERVER

RUN, NAME = "run-1", "agent-00"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    made = Consortium(tmp_path_factory.mktemp("services") / "operator")
    made.prepare(2, 3)
    return made


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit_files(world: Consortium) -> None:
    units = [
        world.folder / "motifair-server.service",
        world.operator.kit(NAME) / "motifair-agent.service",
    ]
    for unit in units:
        command = ["systemd-analyze", "verify", "--man=no", str(unit)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        about_it = [x for x in ended.stderr.splitlines() if unit.name in x or str(unit) in x]
        assert (ended.returncode, about_it) == (0, []), ended.stderr


def test_a_unit_starts_what_it_says(world: Consortium) -> None:
    text = (world.folder / "motifair-server.service").read_text()
    (start,) = [x for x in text.splitlines() if x.startswith("ExecStart=")]
    words = start.removeprefix("ExecStart=").split()
    assert words[-2:] == ["--folder", str(world.folder.resolve())]
    ended = subprocess.run([*words[:-3], "--help"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert "--json-log" in ended.stdout


def test_a_message_in_a_log_is_one_object_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    _teller(True, NAME)("it died;\nrestarting it")
    (line,) = capsys.readouterr().out.splitlines()
    about = json.loads(line)
    assert (about["part"], about["message"]) == (NAME, "it died;\nrestarting it")
    assert about["time"].endswith("+00:00")


def test_a_health_check_names_what_is_wrong(world: Consortium) -> None:
    operator, folder = world.operator, world.folder / "runs" / RUN
    folder.mkdir(parents=True)
    away = "the server is not running on this machine"
    assert problems(operator, RUN) == [away]
    live = LiveStatusWriter(folder / LIVE)
    live.now = live.now.__class__(2, True, (NAME,), 0.0, deadline_at=time.time() - 1)
    live._write(quiet=False)
    assert problems(operator, RUN)[1:] == [f"round 2 waits for {NAME}; it needs 2 of 2 members"]
    for shift, said in ((-4 * PULSE, "does not work on run run-1"), (3600, "the machine's clock")):
        content = json.loads((folder / LIVE).read_text()) | {"written_at": time.time() + shift}
        (folder / LIVE).write_text(json.dumps(content))
        assert said in problems(operator, RUN)[1]
    log = "Connection CN2 is evicted for CN3 from endpoint agent-01 for exceeding limit 1\n"
    (operator.kit(SERVER) / "engine.log").write_text(2 * log)
    command = ["federation", "status", "--folder", str(world.folder), "--json"]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 0
    assert any("agent-01 is running twice" in p for p in json.loads(ended.stdout)["problems"])
    assert CliRunner().invoke(app, [*command, "--check"]).exit_code == 1
