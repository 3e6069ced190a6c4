"""Launcher of a site's workers that restarts those that die."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import FLContextKey, FLMetaKey, JobConstants
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobHandleSpec, JobReturnCode
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle

MOST_KILLED = 50
MOST_FAILED = 3
PAUSE = 0.5


class RestartingHandle(JobHandleSpec):
    """Handle of a worker that is restarted when it dies; to the engine it looks like one process,
    since the engine aborts the whole job when a worker dies.

    All state of a worker is on disk, so a killed one (out of memory, say) is replaced, unless the
    engine itself ended it. One that exits with an error is tried a few times; then this site leaves
    the job, and the others continue.
    """

    def __init__(self, launch: Callable[[], ProcessHandle], code_file: Path) -> None:
        """`code_file` is where a worker writes its exit code, which the engine reads first."""
        self.launch, self.code_file = launch, code_file
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.gave_up = False
        self.worker = launch()

    def terminate(self) -> None:
        """End the worker and do not restart it."""
        with self.lock:
            self.ended.set()
            self.worker.terminate()

    def poll(self) -> Any:
        """Return the engine's return code of the worker."""
        return JobReturnCode.SUCCESS if self.gave_up else self.worker.poll()

    def wait(self) -> None:
        """Wait until the worker has ended and will not be restarted."""
        killed = failed = 0
        while killed < MOST_KILLED and failed < MOST_FAILED:
            self.worker.wait()
            code = self.worker.adapter.poll()
            if code == 0 or self.ended.wait(PAUSE):
                return
            self.code_file.unlink(missing_ok=True)
            killed, failed = killed + (code < 0), failed + (code > 0)
            with self.lock:
                if self.ended.is_set():
                    return
                if killed < MOST_KILLED and failed < MOST_FAILED:
                    self.worker = self.launch()
        self.gave_up = True


class LastingLauncher(ClientProcessJobLauncher):
    """The engine's launcher of a site, with workers that are restarted.

    A site has one worker at a time: the worker of an earlier job (whose server may have died) is
    ended before the next starts, since both would write the agent's state.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last: RestartingHandle | None = None

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> JobHandleSpec:
        """Start a worker; the engine waits for the handle."""
        launch = super().launch_job
        workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        folder = Path(workspace.get_run_dir(job_meta[JobConstants.JOB_ID]))
        if self.last:
            self.last.terminate()
        self.last = RestartingHandle(
            lambda: launch(job_meta, fl_ctx), folder / FLMetaKey.PROCESS_RC_FILE
        )
        return self.last
