"""The engine's program of a site, without access of the server to a member's files.

The engine deletes the folder KIT/JOB_ID when a job is deployed or removed, and accepts any name as
a job id, including `local` and `startup`. It also has a command that prints any file, and checks
permissions only if the server asks for it. No setting changes either, so both are patched here
before the engine's program starts.
"""

from __future__ import annotations

import logging
import sys

from nvflare.apis import workspace
from nvflare.apis.job_def import is_valid_job_id
from nvflare.fuel.f3.mpm import MainProcessMonitor
from nvflare.private.fed.app.client import client_train
from nvflare.private.fed.app.utils import version_check
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from nvflare.private.fed.client.shell_cmd import ShellCommandProcessor

logger = logging.getLogger(__name__)


def check_job_id(job_id: str) -> None:
    """Refuse a job id that is not a UUID, as the engine's own server makes them."""
    if not is_valid_job_id(job_id):
        # The engine sends the exception to the server, so it is logged for the owner here.
        logger.error("refused the job id %.80r of the server: it is not a UUID", job_id)
        raise ValueError("a job id must be a UUID")


def restrict() -> None:
    """Patch the engine in this process: job ids are UUIDs, and no command prints files."""
    workspace.check_job_id = check_job_id  # every path made from a job id passes it
    processors = ClientRequestProcessors.request_processors
    processors[:] = [p for p in processors if not isinstance(p, ShellCommandProcessor)]


def main() -> None:
    """Run the engine's program as its own `__main__` does."""
    restrict()
    version_check()
    args = client_train.parse_arguments()
    run = MainProcessMonitor.run
    sys.exit(run(main_func=client_train.main, run_dir=args.workspace, args=args))


if __name__ == "__main__":
    main()
