"""Unit files for systemd: the server and the agents as services."""

from __future__ import annotations

import sys
from pathlib import Path

SERVER_UNIT, AGENT_UNIT = "motifair-server.service", "motifair-agent.service"
_UNIT = """\
[Unit]
Description={what}
After=network-online.target
Wants=network-online.target

[Service]
{start}
Restart=always
RestartSec=5
# The command ends its processes on SIGTERM; what is left after that is killed.
KillMode=mixed
TimeoutStopSec=30
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=full

[Install]
WantedBy=multi-user.target
"""


def server_unit(name: str, folder: Path) -> str:
    """Return the unit of the server of a federation with this operator's folder."""
    command = f"{sys.executable} -m motifair federation server start --json-log"
    start = f"ExecStart={command} --folder {folder.resolve()}"
    return _UNIT.format(what=f"motifair: server of {name}", start=start)


def agent_unit(name: str, member: str) -> str:
    """Return the unit of a member's agent, which names its own places in it."""
    command = "${PYTHON} -m motifair federation agent start --json-log"
    start = (
        "# Edit these three: Python with motifair, this kit, and your graphs.\n"
        "Environment=PYTHON=/usr/bin/python3\n"
        f"Environment=KIT=/srv/motifair/{member}\n"
        "Environment=GRAPHS=/srv/motifair/graphs\n"
        f"ExecStart=/usr/bin/env {command} --kit ${{KIT}} --graphs ${{GRAPHS}}"
    )
    return _UNIT.format(what=f"motifair: agent of {member} in {name}", start=start)
