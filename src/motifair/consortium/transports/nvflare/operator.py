"""The operator's requests to the server, from any machine: status, removing and readmitting."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nvflare.fuel.flare_api.api_spec import AuthenticationError
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session
from nvflare.fuel.utils.config_service import ConfigService

from motifair.consortium.transports.nvflare.kits import check_certificate, name_of
from motifair.consortium.transports.nvflare.processes import address, listens
from motifair.errors import MotifairError

# Without a handler the engine's warnings would be printed to the terminal.
logging.getLogger("nvflare").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class ServerStatus:
    """Start time of the server, last contact of each connected site, and running jobs."""

    since: datetime
    sites: dict[str, datetime]
    jobs: list[str]


def status(admin_kit: Path) -> ServerStatus:
    """Return the status of the server."""
    with session(admin_kit) as opened:
        info = opened.get_system_info()
    return ServerStatus(
        since=datetime.fromtimestamp(info.server_info.start_time, UTC),
        sites={c.name: datetime.fromtimestamp(c.last_connect_time, UTC) for c in info.client_info},
        jobs=[job.job_id for job in info.job_info],
    )


def remove(admin_kit: Path, member: str) -> None:
    """Refuse all certificates in the name of a member from now on.

    Renewing a kit does not invalidate the old one: both have the same name. A member that lost a
    kit is removed and added under another name.
    """
    with session(admin_kit) as opened:
        opened.disable_client(member)


def readmit(admin_kit: Path, member: str) -> None:
    """Admit a removed member again."""
    with session(admin_kit) as opened:
        opened.enable_client(member)


@contextlib.contextmanager
def session(admin_kit: Path) -> Iterator[Session]:
    """Open a session with the server as the operator; raise MotifairError on any failure."""
    check_certificate(admin_kit)
    host, port = address(admin_kit)
    server = f"The server at {host}:{port}"
    if not listens(host, port):  # the engine would go on trying, also when this process should end
        raise MotifairError(f"{server} cannot be reached. Check that it is running.")
    # Without a path the engine reads all folders below the present one for its settings.
    ConfigService.initialize({}, [str(admin_kit / "startup")])
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints that it connects
            opened = new_secure_session(name_of(admin_kit), str(admin_kit), timeout=10)
    except AuthenticationError as error:
        raise MotifairError(f"{server} does not accept the operator's kit ({error}).") from error
    except Exception as error:
        raise MotifairError(
            f"{server} cannot be reached ({error}). Check that it is running."
        ) from error
    try:
        yield opened
    except Exception as error:
        if not type(error).__module__.startswith("nvflare."):
            raise  # the caller's own
        raise MotifairError(
            f"{server} closed the connection ({type(error).__name__}: {error})."
        ) from error
    finally:
        with contextlib.suppress(Exception):
            opened.close()
