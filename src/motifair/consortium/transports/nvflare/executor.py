"""The site's side of a segment: called by the engine, calls the agent's handler."""

from __future__ import annotations

import sys
from pathlib import Path

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from motifair.consortium.transports import Handler
from motifair.consortium.transports.failures import describe_failure
from motifair.consortium.transports.nvflare.local import named, read_local
from motifair.consortium.transports.nvflare.payload import RefusedError, pack, unpack


class AgentExecutor(Executor):
    """Answers tasks with the handler named in the site's `local/motifair.json`.

    The file holds `handler`, the name of a function `make(name, settings) -> Handler`, and its
    `settings`. A job cannot change it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.handler: Handler | None = None

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Answer one task; a failure is sent as a sentence, and the site keeps running."""
        try:
            if self.handler is None:
                self.handler = make_handler(fl_ctx)
            reply = self.handler(unpack(shareable, max_bytes=sys.maxsize))
            return pack(bytes(reply))
        except RefusedError as refused:
            return pack(b"", failure=str(refused))
        except (Exception, SystemExit) as error:
            self.log_exception(fl_ctx, "the agent failed")
            return pack(b"", failure=describe_failure(error))


def make_handler(fl_ctx: FLContext) -> Handler:
    """Make the handler that this site's settings name."""
    kit = Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir())
    local = read_local(kit)
    handler: Handler = named(local["handler"])(fl_ctx.get_identity_name(), local["settings"])
    return handler
