"""The server's side of a segment: called by the engine, calls our driver."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task, TaskCompletionStatus
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from motifair.consortium.transports import EngineStopped, OnReply, ignore_reply
from motifair.consortium.transports.nvflare.local import our_own, read_local
from motifair.consortium.transports.nvflare.payload import TASK, RefusedError, pack, unpack

POLL = 0.5


def encode(content: Mapping[str, Any]) -> str:
    """Return JSON values as letters and digits.

    >>> decode(encode({"path": "{x}"}))
    {'path': '{x}'}
    """
    return json.dumps(dict(content)).encode().hex()


def decode(text: str) -> Any:
    """Read what `encode` wrote."""
    return json.loads(bytes.fromhex(text))


class SegmentController(Controller):
    """Runs `driver(transport, where)` for one segment.

    `where` is the content of the server's `local/motifair.json`, with the `members` and the
    `segment` of the job, and the engine's id of the `job`.
    """

    def __init__(self, driver: str, members: list[str], segment: str, max_bytes: int) -> None:
        """`segment` is the result of `encode`.

        The engine reads a job's arguments from attributes of the same name; it would build classes
        from dictionaries and replace placeholders in braces.
        """
        super().__init__(task_check_period=0.05)
        self.driver, self.members, self.segment = driver, members, segment
        self.max_bytes = max_bytes

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to prepare."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to clean up."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the driver; an exception ends the segment, and is logged."""
        kit = Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir())
        try:
            job = {"members": self.members, "segment": decode(self.segment)}
            job["job"] = fl_ctx.get_job_id()
            drive = our_own(self.driver)
            drive(NVFlareTransport(self, abort_signal, fl_ctx), {**read_local(kit), **job})
        except EngineStopped as stopped:
            self.log_info(fl_ctx, f"the segment was stopped: {stopped}")
        except Exception as error:
            self.log_exception(fl_ctx, "the driver failed")
            self.system_panic(f"{type(error).__name__}: {error}", fl_ctx)

    def process_result_of_unknown_task(
        self,
        client: Client,
        task_name: str,
        client_task_id: str,
        result: Shareable,
        fl_ctx: FLContext,
    ) -> None:
        """Drop a reply that came after its deadline."""
        self.log_info(fl_ctx, f"{client.name} replied too late")


class NVFlareTransport:
    """The transport of a driver: one NVFlare task for each agent.

    A broadcast would send the first agent's bytes to all.
    """

    def __init__(self, controller: SegmentController, abort: Signal, fl_ctx: FLContext) -> None:
        self.controller, self.abort, self.fl_ctx = controller, abort, fl_ctx

    def exchange(
        self, tasks: Mapping[str, bytes], deadline: float, on_reply: OnReply = ignore_reply
    ) -> tuple[dict[str, bytes], dict[str, str]]:
        """Send each agent its bytes; collect until all have replied or the deadline has passed."""
        results: dict[str, bytes | str] = {}
        arrived = threading.Condition()
        began = time.monotonic()
        received = partial(self._received, results, arrived, on_reply, began)
        pending = {
            name: Task(TASK, pack(content), result_received_cb=received)
            for name, content in tasks.items()
        }
        for name, task in pending.items():
            self.controller.send(task, self.fl_ctx, targets=[name])
        end = began + deadline
        with arrived:
            while len(results) < len(tasks) and not self.abort.triggered:
                left = end - time.monotonic()
                if left <= 0:
                    break
                arrived.wait(min(left, POLL))
            in_time = dict(results)
        for name in pending.keys() - in_time.keys():
            self.controller.cancel_task(pending[name], TaskCompletionStatus.CANCELLED, self.fl_ctx)
        if self.abort.triggered:
            raise EngineStopped("the engine aborted the job")
        late = {n: f"did not reply within {deadline:g} s" for n in tasks if n not in in_time}
        failures = {n: reason for n, reason in in_time.items() if isinstance(reason, str)}
        return {n: r for n, r in in_time.items() if isinstance(r, bytes)}, failures | late

    def _received(
        self,
        results: dict[str, bytes | str],
        arrived: threading.Condition,
        on_reply: OnReply,
        began: float,
        client_task: ClientTask,
        fl_ctx: FLContext,
    ) -> None:
        """Store a reply under the name that the engine has authenticated."""
        try:
            result: bytes | str = unpack(client_task.result, self.controller.max_bytes)
        except RefusedError as refused:
            result = str(refused)
        client_task.result = None
        on_reply(client_task.client.name, time.monotonic() - began)
        with arrived:
            results[client_task.client.name] = result
            arrived.notify_all()
