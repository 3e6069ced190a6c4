"""Transport to agents in this process, one after another."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from motifair.consortium.transports import Handler, OnReply, ignore_reply
from motifair.consortium.transports.failures import describe_failure

logger = logging.getLogger(__name__)


class InProcess:
    """Calls one handler after another; an exception of a handler is its agent's failure.

    The deadline applies to each agent separately, since they do not run in parallel here.

    >>> transport = InProcess({"a": lambda task: task.upper()})
    >>> transport.exchange({"a": b"x", "b": b"y"}, deadline=1.0)
    ({'a': b'X'}, {'b': 'is not here'})
    """

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self.handlers = handlers

    def exchange(
        self, tasks: Mapping[str, bytes], deadline: float, on_reply: OnReply = ignore_reply
    ) -> tuple[dict[str, bytes], dict[str, str]]:
        """Call the handler of every agent of `tasks`; see `Transport.exchange`."""
        replies: dict[str, bytes] = {}
        failures: dict[str, str] = {}
        for name, task in tasks.items():
            if name not in self.handlers:
                failures[name] = "is not here"
                continue
            began = time.monotonic()
            try:
                reply = self.handlers[name](task)
            except Exception as error:
                logger.exception("agent %s", name)
                failures[name] = describe_failure(error)
                continue
            seconds = time.monotonic() - began
            on_reply(name, seconds)
            if seconds > deadline:
                failures[name] = f"did not reply within {deadline:g} s"
            else:
                replies[name] = reply
        return replies, failures
