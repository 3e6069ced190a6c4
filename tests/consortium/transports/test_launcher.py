"""Killed workers are restarted; workers that end are not."""

import os
import signal
import sys
import threading
import time

import pytest

pytest.importorskip("nvflare")

from nvflare.apis.job_launcher_spec import JobReturnCode
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle
from nvflare.utils.process_utils import spawn_process

from motifair.consortium.transports.nvflare.launcher import RestartingHandle


class Workers:
    """Launches real processes and remembers their pids."""

    def __init__(self, program):
        self.program, self.pids = program, []

    def __call__(self):
        worker = spawn_process([sys.executable, "-c", self.program], dict(os.environ))
        self.pids.append(worker.pid)
        return ProcessHandle(process_adapter=worker)


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def in_background(handle):
    thread = threading.Thread(target=handle.wait)
    thread.start()
    return thread


@pytest.mark.kill
def test_a_killed_worker_is_started_again_and_again(tmp_path):
    workers = Workers("import time; time.sleep(60)")
    handle = RestartingHandle(workers, tmp_path / "code")
    waiting = in_background(handle)
    for times in (2, 3):
        os.kill(workers.pids[-1], signal.SIGKILL)
        wait_until(lambda times=times: len(workers.pids) == times)
        assert waiting.is_alive()
    handle.terminate()
    waiting.join(timeout=20)
    assert not waiting.is_alive()
    assert len(workers.pids) == 3


def test_a_worker_that_is_finished_is_not_started_again(tmp_path):
    workers = Workers("")
    handle = RestartingHandle(workers, tmp_path / "code")
    handle.wait()
    assert len(workers.pids) == 1
    assert handle.poll() == JobReturnCode.SUCCESS


def test_a_worker_that_always_fails_is_given_up_without_a_word_that_would_end_the_job(tmp_path):
    code = tmp_path / "code"
    workers = Workers(f"open({str(code)!r}, 'w').write('104'); raise SystemExit(104)")
    handle = RestartingHandle(workers, code)
    handle.wait()
    assert len(workers.pids) == 3
    assert handle.poll() == JobReturnCode.SUCCESS
    assert not code.exists()
