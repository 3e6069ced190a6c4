"""Transports: exchange of bytes between the server and its agents.

The interface is one method, `exchange`: the server passes bytes for each agent and gets the replies
that arrived in time, and for every other agent the reason as a sentence. A transport does not know
what the bytes mean. `inprocess` calls handlers in this process, `nvflare` agents on other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

Handler = Callable[[bytes], bytes]
"""An agent: maps the bytes of a task to the bytes of its reply."""

OnReply = Callable[[str, float], None]
"""Callback with the name of each agent whose reply arrives, valid or not, and the seconds that it
took; from any thread."""


def ignore_reply(name: str, seconds: float) -> None:
    """Default callback: do nothing."""


class Transport(Protocol):
    """What the server needs from an engine."""

    def exchange(
        self, tasks: Mapping[str, bytes], deadline: float, on_reply: OnReply = ignore_reply
    ) -> tuple[dict[str, bytes], dict[str, str]]:
        """Send each agent its own bytes and wait at most `deadline` seconds.

        Return the replies by agent, and for each agent without one the reason as a sentence; every
        agent of `tasks` is in exactly one of the two. Raise `EngineStopped` when the engine ends
        the whole run.
        """
        ...


class EngineStopped(Exception):  # noqa: N818 -- nothing went wrong
    """Raised when the engine ends the run: the operator aborted it, or too few agents are left."""
