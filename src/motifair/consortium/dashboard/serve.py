"""Run the dashboard's web server."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from motifair.consortium.dashboard.access import Access, check_access, is_loopback
from motifair.consortium.dashboard.app import make_app
from motifair.consortium.dashboard.connections import bounded_protocol
from motifair.consortium.dashboard.guard import LOOPBACK
from motifair.consortium.dashboard.watcher import Watcher
from motifair.errors import MotifairError

BACKLOG = 128  # connections accepted at once; a process has 1024 files by default


def serve(
    watcher: Watcher,
    access: Access,
    *,
    host: str,
    port: int,
    names: Sequence[str] = (),
    results: Path | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve until Ctrl-C; `ready` is called with the address before the first request.

    `names` are host names that a proxy uses. On a loopback address only its own names are answered
    (and `names`); on others, where tokens are needed, any name is, unless `names` are given.
    `results` is a folder of simulations.
    """
    check_access(access, host, names)
    local = is_loopback(host)
    hosts = (*LOOPBACK, *(name.lower() for name in names)) if local or names else ()
    listening = _listen(host, port)
    config = server_config(make_app(watcher, access, hosts, results))
    at = f"[{host}]" if ":" in host else host
    ready(f"http://{at}:{listening.getsockname()[1]}/")
    try:
        DashboardServer(config, watcher).run([listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()


def server_config(app: ASGIApp, **options: Any) -> uvicorn.Config:
    """Return the configuration of the web server."""
    usual: dict[str, Any] = {
        "http": bounded_protocol(),
        "backlog": BACKLOG,
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "ws": "none",
        "timeout_graceful_shutdown": 3,
    }
    return uvicorn.Config(app, **(usual | options))


class DashboardServer(uvicorn.Server):
    """Ends open event streams before it shuts down, since they never end by themselves."""

    def __init__(self, config: uvicorn.Config, watcher: Watcher) -> None:
        super().__init__(config)
        self.watcher = watcher

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the streams, then the server."""
        self.watcher.stop()
        super().handle_exit(sig, frame)


def _listen(host: str, port: int) -> socket.socket:
    try:
        kind, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.create_server(place[:2], family=kind, backlog=BACKLOG)
    except OSError as error:
        raise MotifairError(
            f"{host}:{port} cannot be listened on ({error.strerror}); "
            "name another with --host and --port."
        ) from error
    # Headers and body are written separately: without this the body waits 40 ms until the client
    # acknowledges the headers. Connections inherit it from the listening socket.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened
