"""The engine's program of a site, without what lets a server reach a member's files.

The engine deletes the folder KIT/JOB_ID when a job is deployed or removed, and accepts any name as
a job id, `local` and `startup` included. It also has a command that prints any file, and checks
rights only where the server asks for that. No setting changes either, so both are changed here
before the engine's own program starts.
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
        # The engine turns the exception into a reply to the server, so the owner is told here.
        logger.error("refused the job id %.80r of the server: it is not a UUID", job_id)
        raise ValueError("a job id must be a UUID")


def restrict() -> None:
    """Change the engine in this process: job ids are UUIDs, and no command prints files."""
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
