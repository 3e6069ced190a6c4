"""Stopping a real federation: afterwards no process of it is alive or is restarted."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import psutil
import pytest

pytest.importorskip("nvflare")

from consortium import PATIENCE, Consortium, motifair, motifair_here, wait_until

from motifair.consortium.operator_folder import OPERATOR, SERVER

pytestmark = pytest.mark.federation
RUN, MEMBERS = "run-1", ["agent-00", "agent-01"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with Consortium(tmp_path_factory.mktemp("stop") / "operator") as made:
        made.prepare(2, 10_000)
        yield made


def processes(world: Consortium) -> list[str]:
    """Return the command lines that name the federation's folder: all of its processes do."""
    lines = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(world.folder) in line:
            lines.append(f"{process.info['pid']} {line}")
    return lines


def start_run(world: Consortium) -> Popen[str]:
    return world.start(OPERATOR, "federation", "run", "--run", RUN, "--folder", world.folder)


def stands(world: Consortium) -> bool:
    """Return whether no round is done for a while; one takes less than a second."""
    before = world.round(RUN)
    time.sleep(5)
    return world.round(RUN) == before


def at_work(world: Consortium) -> None:
    """Start everything by its command, and let it train: server, sites and their workers."""
    world.start_all()
    done = world.round(RUN)
    start_run(world)
    wait_until(lambda: world.round(RUN) > done + 1, "rounds are done")
    assert sum("worker_process" in line for line in processes(world)) == len(MEMBERS)


def running_here(world: Consortium) -> list[str]:
    words = ("--run", RUN, "--folder", world.folder, "--json")
    names: list[str] = json.loads(motifair_here("federation", "status", *words))["running here"]
    return names


def stopped(world: Consortium) -> None:
    """Check that no process is left, now and after a while."""
    assert processes(world) == []
    time.sleep(3)
    assert processes(world) == []
    assert running_here(world) == []
    for name, process in world.started.items():
        assert process.poll() is not None
        assert "restarting it" not in world.said(name)
    world.started.clear()


def test_a_run_whose_server_is_not_there_says_so_and_ends_when_told_to(world: Consortium) -> None:
    run = start_run(world)
    wait_until(lambda: "the server is not running" in world.said(OPERATOR), "it says so")
    run.send_signal(signal.SIGTERM)
    assert run.wait(PATIENCE) == 128 + signal.SIGTERM


def test_one_kit_is_stopped_for_good_and_then_all_of_the_folder(world: Consortium) -> None:
    at_work(world)
    assert running_here(world) == [*MEMBERS, OPERATOR, SERVER]
    gone = str(world.operator.kit(MEMBERS[0]))
    assert motifair_here("federation", "stop", "--kit", gone) == f"{MEMBERS[0]} is stopped.\n"
    assert not [line for line in processes(world) if gone in line]
    time.sleep(3)
    assert not [line for line in processes(world) if gone in line]
    assert running_here(world) == [MEMBERS[1], OPERATOR, SERVER]
    said = motifair_here("federation", "stop", "--folder", world.folder)
    assert said.splitlines() == [
        f"{MEMBERS[0]} was not running.",
        *(f"{name} is stopped." for name in (MEMBERS[1], OPERATOR, SERVER)),
    ]
    stopped(world)


def test_a_command_that_is_terminated_ends_its_engine_and_a_killed_one_is_cleaned_up_after(
    world: Consortium,
) -> None:
    at_work(world)
    interrupted = world.started[OPERATOR]
    interrupted.send_signal(signal.SIGTERM)  # Ctrl-C is ignored by what runs in the background
    assert interrupted.wait(PATIENCE) == 128 + signal.SIGTERM
    wait_until(lambda: stands(world), "the rounds end")
    ended, killed = world.started[MEMBERS[0]], world.started[SERVER]
    ended.send_signal(signal.SIGTERM)
    assert ended.wait(PATIENCE) == 128 + signal.SIGTERM
    assert not [line for line in processes(world) if str(world.operator.kit(MEMBERS[0])) in line]
    killed.kill()
    killed.wait()
    assert running_here(world) == [MEMBERS[1], SERVER]
    again = motifair("federation", "server", "start", "--folder", world.folder)
    assert again.returncode == 2
    assert "is in use by process" in again.stderr
    motifair_here("federation", "stop", "--folder", world.folder)
    stopped(world)


@pytest.mark.parametrize("moment", ["starting agent-01", "round "])
def test_a_demo_that_is_terminated_leaves_nothing(tmp_path: Path, moment: str) -> None:
    with Consortium(tmp_path) as world:
        demo = Consortium(tmp_path / "operator")
        words = ("federation", "demo", "--agents", 2, "--rounds", 60, "--out", demo.folder)
        process = world.start("demo", *words)
        wait_until(lambda: moment in world.said("demo"), moment)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert processes(demo) == []
