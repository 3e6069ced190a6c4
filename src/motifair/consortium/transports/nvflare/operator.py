"""What the operator asks the server, from any machine: who is there, who may not come back."""

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

from motifair.consortium.transports.nvflare.kits import check_certificate, name_of
from motifair.consortium.transports.nvflare.processes import address
from motifair.errors import MotifairError

# Without a handler the engine's warnings would go to the terminal.
logging.getLogger("nvflare").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class ServerStatus:
    """Since when the server works, when each site was last heard of, which jobs are at work."""

    since: datetime
    sites: dict[str, datetime]
    jobs: list[str]


def status(admin_kit: Path) -> ServerStatus:
    """Ask the server how it stands."""
    with session(admin_kit) as opened:
        info = opened.get_system_info()
    return ServerStatus(
        since=datetime.fromtimestamp(info.server_info.start_time, UTC),
        sites={c.name: datetime.fromtimestamp(c.last_connect_time, UTC) for c in info.client_info},
        jobs=[job.job_id for job in info.job_info],
    )


def remove(admin_kit: Path, member: str) -> None:
    """Keep a member out from now on, whatever certificate in that name it shows.

    A renewed kit does not make the old one worthless: both bear the name. Who lost a kit is
    removed and comes back under another name.
    """
    with session(admin_kit) as opened:
        opened.disable_client(member)


def readmit(admin_kit: Path, member: str) -> None:
    """Let a removed member in again."""
    with session(admin_kit) as opened:
        opened.enable_client(member)


@contextlib.contextmanager
def session(admin_kit: Path) -> Iterator[Session]:
    """Speak to the server as the operator; whatever breaks that off is a `MotifairError`."""
    check_certificate(admin_kit)
    server = "The server at {}:{}".format(*address(admin_kit))
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints that it connects
            opened = new_secure_session(name_of(admin_kit), str(admin_kit), timeout=10)
    except AuthenticationError as error:
        raise MotifairError(f"{server} does not accept the operator's kit ({error}).") from error
    except Exception as error:
        raise MotifairError(f"{server} cannot be reached ({error}). Is it started?") from error
    try:
        yield opened
    except Exception as error:
        if not type(error).__module__.startswith("nvflare."):
            raise  # the caller's own
        raise MotifairError(f"{server} broke off ({type(error).__name__}: {error}).") from error
    finally:
        with contextlib.suppress(Exception):
            opened.close()
