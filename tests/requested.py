"""Kits of a federation whose members made their own keys, on one machine."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from motifair.consortium.keys import write_request
from motifair.consortium.transports.nvflare import kits


def write_requests(folder: Path, members: Sequence[str]) -> None:
    """Make each member's key, in `folder/keys`, and its request."""
    (folder / "requests").mkdir(parents=True, exist_ok=True)
    for name in members:
        _, request = write_request(folder / "keys", name)
        request.rename(folder / "requests" / request.name)


def provision(folder: Path, members: Sequence[str], **about: Any) -> dict[str, Path]:
    """Make kits by the members' requests, and put the members' keys into them."""
    write_requests(folder, members)
    settings: dict[str, Any] = {"name": "trial", "server_host": "localhost", "port": 8002, **about}
    made = kits.provision(folder, members=members, **settings)
    for name in members:
        shutil.copy(folder / "keys" / f"{name}.key", made[name] / "startup" / "client.key")
    return made
