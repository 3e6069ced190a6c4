"""Stopping leaves no process of a kit, whoever started it, and even if it ignores signals."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("nvflare")

import psutil

from motifair.consortium.transports.nvflare import stopping
from motifair.errors import MotifairError

pytestmark = pytest.mark.kill
SITE = stopping.SITE
WORKER = "nvflare.private.fed.app.client.worker_process"
SLEEP = "import time; time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
# Restarts its worker, as the launcher of a site does, even while it is being ended.
RESTARTING = f"""
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    subprocess.run([sys.executable, "-c", "{SLEEP}", "{WORKER}", "-m", sys.argv[-1]])
"""
KEEPING = f"""
import subprocess, sys, time
from contextlib import suppress
from pathlib import Path
from motifair.consortium.transports.nvflare.stopping import alive, keeping, psutil
with suppress(SystemExit), keeping(Path(sys.argv[1])):
    while True:
        part = psutil.Popen([sys.executable, "-c", sys.argv[2], "{SITE}", "-m", sys.argv[1]])
        while alive(part):
            time.sleep(0.05)
time.sleep(1)  # the end of a large program takes a while
"""


@pytest.fixture
def kit(tmp_path):
    folder = tmp_path / "kits" / "a"
    folder.mkdir(parents=True)
    yield folder
    stopping.stop(folder)


def start(kit, program, name=SITE):
    """Start a process that looks like one of the engine."""
    return subprocess.Popen([sys.executable, "-c", program, name, "-m", str(kit)])


def hear_signals():
    """Undo what nohup, or a shell's `&`, makes all its children ignore."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def keep(kit, program=SLEEP):
    """Start a process that repeatedly starts another one."""
    words = [sys.executable, "-c", KEEPING, str(kit), program]
    process = subprocess.Popen(words, preexec_fn=hear_signals)
    wait_until(lambda: stopping.engine(kit))
    return process


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_processes_of_a_kit_are_known_by_its_path(kit, tmp_path):
    other = tmp_path / "kits" / "a-too"
    other.mkdir()
    site, worker = start(kit, SLEEP), start(kit, SLEEP, WORKER)
    stranger = subprocess.Popen([sys.executable, "-c", SLEEP, str(kit)])
    elsewhere = start(other, SLEEP)
    try:
        wait_until(lambda: len(stopping.engine(kit)) == 2)
        assert {p.pid for p in stopping.engine(kit)} == {site.pid, worker.pid}
        assert stopping.main_process(kit).pid == site.pid
        assert stopping.stop(kit) is True
        assert stopping.engine(kit) == []
        assert stranger.poll() is elsewhere.poll() is None
    finally:
        for process in (stranger, elsewhere):
            process.kill()
            process.wait()


def test_there_may_be_nothing_to_stop(kit):
    assert stopping.stop(kit) is False


@pytest.mark.parametrize("program", [DEAF, RESTARTING])
def test_who_does_not_listen_is_killed_with_all_that_it_starts(kit, program):
    start(kit, program)
    wait_until(lambda: len(stopping.engine(kit)) == 1 + (program is RESTARTING))
    time.sleep(0.3)  # until it ignores the signal
    assert stopping.stop(kit) is True
    time.sleep(0.5)
    assert stopping.engine(kit) == []


def test_a_keeper_ends_before_what_it_would_start_again(kit):
    process = keep(kit)
    first = stopping.main_process(kit)
    first.kill()
    wait_until(lambda: stopping.main_process(kit) not in (None, first))
    assert stopping.keeper(kit).pid == process.pid
    assert stopping.stop(kit) is True
    assert process.poll() is not None
    assert stopping.engine(kit) == []
    assert stopping.keeper(kit) is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_keeper_ends_what_it_keeps_first(kit, number):
    process = keep(kit, DEAF)
    time.sleep(0.3)
    process.send_signal(number)
    time.sleep(0.5)
    process.send_signal(number)  # a second signal changes nothing
    assert process.wait(20) == 0
    assert stopping.engine(kit) == []
    assert list(kit.iterdir()) == []


def test_what_a_killed_keeper_leaves_is_stopped(kit):
    process = keep(kit)
    process.kill()
    process.wait()
    assert stopping.keeper(kit) is None
    assert stopping.engine(kit)
    assert stopping.stop(kit) is True
    assert stopping.engine(kit) == []


def test_a_kit_in_use_is_refused_and_goes_on(kit):
    process = keep(kit)
    said = "in use by process {}. Stop it first"
    with pytest.raises(MotifairError, match=said.format(process.pid)), stopping.keeping(kit):
        pass
    process.kill()
    process.wait()
    (left,) = stopping.engine(kit)
    with pytest.raises(MotifairError, match=said.format(left.pid)), stopping.keeping(kit):
        pass
    assert stopping.alive(left)


def test_a_number_that_is_another_process_by_now_is_not_believed(kit):
    mark = {"pid": os.getpid(), "command": ["motifair", "federation", "server", "start"]}
    (kit / stopping.KEEPER).write_text(json.dumps(mark))
    assert stopping.keeper(kit) is None
    assert stopping.stop(kit) is False


def test_what_cannot_be_ended_is_said(kit, monkeypatch):
    monkeypatch.setattr(stopping, "KILLED", 0.2)
    start(kit, SLEEP)
    wait_until(lambda: stopping.engine(kit))
    with monkeypatch.context() as patch:
        patch.setattr(psutil.Process, "send_signal", lambda process, number: None)
        with pytest.raises(MotifairError, match="cannot be killed"):
            stopping.end_engine(kit, grace=0)
