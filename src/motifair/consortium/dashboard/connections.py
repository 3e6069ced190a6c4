"""Connections of the dashboard's web server, bounded in number and time until a request is whole.

uvicorn has no time limit for a request, so that half-open connections would use up all sockets.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_WAITING = 200
WITHIN = 10.0  # seconds for a request with its body


def bounded_protocol(most: int = MOST_WAITING, within: float = WITHIN) -> type[H11Protocol]:
    """Return a protocol for one server: of more than `most` connections without a whole request the
    oldest is closed, and each after `within` seconds.
    """
    waiting: dict[asyncio.Protocol, asyncio.TimerHandle] = {}  # oldest first

    class BoundedProtocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._count()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._count()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._count()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

        def _count(self) -> None:
            """Count this connection as waiting unless its request is whole and not answered yet."""
            cycle: Any = self.cycle
            if cycle is not None and not cycle.more_body and not cycle.response_complete:
                self._forget()
            elif self not in waiting and not self.transport.is_closing():
                waiting[self] = self.loop.call_later(within, self.transport.abort)
                if len(waiting) > most:
                    oldest: Any = next(iter(waiting))
                    oldest.transport.abort()
                    oldest._forget()

        def _forget(self) -> None:
            if timer := waiting.pop(self, None):
                timer.cancel()

    return BoundedProtocol
