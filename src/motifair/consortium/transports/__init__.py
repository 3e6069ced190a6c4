"""How bytes travel between the server and its agents.

The one seam is `exchange`: the server hands over one piece of bytes for each agent and gets back
the replies that came in time, and for every other agent the reason in words. What the bytes mean is
not known here. `inprocess` asks handlers in this process; `nvflare` asks agents on other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

Handler = Callable[[bytes], bytes]
"""An agent: takes the bytes of a task, returns the bytes of its reply."""

OnReply = Callable[[str], None]
"""Is told the name of each agent when its reply arrives, whatever it says; from any thread."""


def ignore_reply(name: str) -> None:
    """Hear of a reply, and do nothing."""


class Transport(Protocol):
    """What the server needs of an engine."""

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
    """The engine ends the run: an operator aborted it, or too few agents are left."""
