"""Processes of server and sites: started from a kit, monitored by their log."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from motifair.consortium.transports.nvflare.kits import (
    ORGANISATION,
    SERVER,
    check_certificate,
    check_version,
    damaged_kit,
    name_of,
    set_state_paths,
)
from motifair.consortium.transports.nvflare.local import write_local
from motifair.consortium.transports.nvflare.payload import MAX_BYTES
from motifair.consortium.transports.nvflare.stopping import (
    SITE,
    alive,
    check_free,
    end_engine,
    main_process,
)
from motifair.errors import MotifairError
from motifair.files import read_json

LOG = "engine.log"
SERVER_PROGRAM = "nvflare.private.fed.app.server.server_train"
LOOK_BACK = 200_000
STEP = 0.1
STALLED = 30  # seconds after which a message that has stopped arriving is dropped
SERVER_READY = re.compile(r"Server started")
SITE_READY = re.compile(r"Successfully registered client")
EVICTED = re.compile(r"is evicted for \S+ from endpoint ([\w-]+) for")
REMOVED = re.compile(r"Client '[^']*' is disabled")
STRANGE = re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate verify failed", re.IGNORECASE)


@dataclass(frozen=True)
class EngineProcess:
    """A server or site that was started from `kit`; its log is `kit/engine.log`."""

    kit: Path
    process: psutil.Process

    @property
    def log(self) -> Path:
        """Log file of the engine."""
        return self.kit / LOG

    def alive(self) -> bool:
        """Return whether the process is running."""
        return alive(self.process)

    def workers(self) -> list[psutil.Process]:
        """Return the worker processes of the current segment."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return list(self.process.children(recursive=True))
        return []

    def stop(self) -> None:
        """End the process and its workers with SIGTERM, then SIGKILL."""
        end_engine(self.kit)

    def kill(self) -> None:
        """Kill the process and its workers at once, like a machine failure."""
        end_engine(self.kit, grace=0)


def start_server(kit: Path, settings: Mapping[str, Any], *, wait: float = 60) -> EngineProcess:
    """Start the server and return when it listens; drivers get `settings` as `where`."""
    _, port = address(kit)
    if listens("localhost", port):
        raise MotifairError(
            f"Port {port} is in use. Stop what listens there, or provision with another port."
        )
    running = _start(kit, "server", SERVER_PROGRAM, dict(settings))
    return _ready(running, SERVER_READY, wait, lambda: "The server did not start")


def start_site(
    kit: Path, handler: str, settings: Mapping[str, Any], *, wait: float = 60
) -> EngineProcess:
    """Start a site whose agent is made by `handler`, with `settings`.

    Return when the site is registered with the server, which is waited for.
    """
    host, port = address(kit)
    running = _start(kit, "client", SITE, {"handler": handler, "settings": dict(settings)})

    def why() -> str:
        if listens(host, port):
            return f"The server at {host}:{port} does not admit {name_of(kit)}"
        there = f"The server at {host}:{port}"
        return f"{there} cannot be reached. Check that it is running and its port open"

    return _ready(running, SITE_READY, wait, why)


def running(kit: Path) -> EngineProcess | None:
    """Return the process that was started from `kit` by any command, if it is running."""
    process = main_process(kit)
    return EngineProcess(kit, process) if process else None


def trouble(kit: Path) -> str | None:
    """Return the known problem that the log of a kit shows, as a sentence; None if there is none.

    The engine admits the same kit twice, and the two evict each other repeatedly: only the server's
    log shows that.
    """
    text = _last(kit / LOG)
    evicted = Counter(EVICTED.findall(text))
    if twice := sorted(name for name, times in evicted.items() if times > 1):
        return (
            f"{twice[0]} is running twice. Stop one of the two; if its owner runs only one, its "
            "kit was stolen: remove that name and add the member under another"
        )
    if REMOVED.search(text) and name_of(kit) != SERVER:
        return (
            f"{name_of(kit)} was removed. Ask the operator to let it in again: motifair federation "
            f"readmit {name_of(kit)}"
        )
    if STRANGE.search(text) and name_of(kit) != SERVER:
        return (
            f"Server and {name_of(kit)} do not accept each other's certificates. "
            "Use kits of one federation, and have expired ones renewed"
        )
    return None


def _last(log: Path) -> str:
    """Return the end of a log; '' if there is none."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOOK_BACK))
        return file.read().decode(errors="replace")


def address(kit: Path) -> tuple[str, int]:
    """Return host and port of the server from a kit."""
    for path in kit.glob("startup/fed_*.json"):
        content = read_json(path)
        if "admin" in content:
            return content["admin"]["host"], int(content["admin"]["port"])
        host, _, port = content["servers"][0]["service"]["target"].rpartition(":")
        return host, int(port)
    raise MotifairError(f"{kit} is not a startup kit: it has no startup/fed_*.json.")


def check_kit(kit: Path) -> None:
    """Refuse a kit that is damaged, expired, or of another version."""
    with damaged_kit(kit):
        address(kit)
        check_certificate(kit)
        check_version(kit)


def _start(kit: Path, part: str, program: str, local: dict[str, Any]) -> EngineProcess:
    """Start a program of the engine in the kit's folder, with its log in a file."""
    kit = kit.resolve()
    if re.search(r"\s", str(kit)):
        raise MotifairError(f"The engine cannot work in '{kit}'. Use a path without spaces.")
    check_kit(kit)
    check_free(kit)
    end_engine(kit)  # workers left by a dead server or site
    if part == "server":
        set_state_paths(kit)
    write_local(kit, local)
    identity = [] if part == "server" else [f"uid={name_of(kit)}"]
    command = [
        sys.executable, "-u", "-m", program, "-m", str(kit), "-s", f"fed_{part}.json",
        "--set", "secure_train=true", *identity, f"org={ORGANISATION}", "config_folder=config",
    ]  # fmt: skip
    # Without PYTHONSAFEPATH, modules would also be imported from the kit's folder.
    environment = {
        # A larger message is refused by its announced size, before it is received.
        "NVFLARE_STREAMING_MAX_BLOB_SIZE": str(MAX_BYTES + 2**20),
        "NVFLARE_STREAMING_READ_TIMEOUT": str(STALLED),
        **os.environ,
        "PYTHONSAFEPATH": "1",
        "MALLOC_ARENA_MAX": "4",
    }
    if (kit / LOG).exists():
        (kit / LOG).replace(kit / f"{LOG}.1")
    with (kit / LOG).open("w") as log:
        process = subprocess.Popen(
            command, cwd=kit, env=environment, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    return EngineProcess(kit, psutil.Process(process.pid))


def _ready(
    started: EngineProcess, sign: re.Pattern[str], wait: float, why: Callable[[], str]
) -> EngineProcess:
    """Wait for `sign` in the log; if it does not appear, stop the process and raise an error."""
    end = time.monotonic() + wait
    while time.monotonic() < end and started.alive():
        if sign.search(started.log.read_text(errors="replace")):
            return started
        if trouble(started.kit):  # waiting does not help
            break
        time.sleep(STEP)
    reason = trouble(started.kit) or why()
    started.stop()
    raise MotifairError(f"{reason} (details: {started.log}).")


def listens(host: str, port: int) -> bool:
    """Return whether something accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=2):
        return True
    return False
