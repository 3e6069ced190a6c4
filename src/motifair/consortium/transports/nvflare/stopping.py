"""Find and end the processes that were started from a kit.

Every process of the engine, including workers, has the path of its kit in its command line, so it
is found regardless of which process started it, and whether that one is still running.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from motifair.errors import MotifairError
from motifair.files import read_json, write_json

KEEPER = "keeper.json"
SITE = "motifair.consortium.transports.nvflare.site_train"
PROGRAM = re.compile(rf"nvflare\.private\.fed\.app\.(server|client)\.\w+|{re.escape(SITE)}")
GRACE = 3.0  # seconds between SIGTERM and SIGKILL
KEEPER_GRACE = 15.0  # a keeper first ends its processes
KILLED = 10.0  # seconds until a killed process must be gone
STEP = 0.1
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def engine(kit: Path) -> list[psutil.Process]:
    """Return the engine's processes that belong to `kit`, and their children."""
    place, processes = str(kit.resolve()), {}
    for process in psutil.process_iter():
        words = command(process)
        if place in words and any(PROGRAM.fullmatch(word) for word in words):
            processes[process.pid] = process
            with contextlib.suppress(psutil.Error):
                processes |= {child.pid: child for child in process.children(recursive=True)}
    return [process for process in processes.values() if alive(process)]


def main_process(kit: Path) -> psutil.Process | None:
    """Return the main process of the server or site started from `kit`, if it is running."""
    for process in engine(kit):
        if any(word.endswith("_train") for word in command(process)):
            return process
    return None


def keeper(kit: Path) -> psutil.Process | None:
    """Return the process that supervises `kit` (see `keeping`), if it is running."""
    try:
        mark = read_json(kit / KEEPER)
        process = psutil.Process(mark["pid"])
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None
    # The pid may belong to another process by now.
    return process if command(process) == mark["command"] else None


def check_free(kit: Path) -> None:
    """Refuse a kit that another process uses."""
    other = keeper(kit)
    if other is None or other.pid == os.getpid():
        other = main_process(kit)
    if other:
        raise MotifairError(
            f"{kit} is in use by process {other.pid}. Stop it first: "
            f"motifair federation stop --kit {kit}."
        )


@contextlib.contextmanager
def keeping(kit: Path) -> Iterator[None]:
    """Supervise what is started from `kit` inside this context: it ends with this process, however
    that ends, except by SIGKILL; and `stop` ends this process first.
    """
    check_free(kit)
    with _unwound_by_signals():
        write_json(kit / KEEPER, {"pid": os.getpid(), "command": command(psutil.Process())})
        try:
            yield
        finally:
            end_engine(kit)
            (kit / KEEPER).unlink(missing_ok=True)


def stop(kit: Path) -> bool:
    """End everything that was started from `kit`; return whether anything was running.

    The keeper is ended first, since it would restart the others. Raise MotifairError if a process
    does not end.
    """
    first = keeper(kit)
    was_running = bool(first or engine(kit))
    if first:
        _end(lambda: [first] if alive(first) else [], KEEPER_GRACE)
    end_engine(kit)
    (kit / KEEPER).unlink(missing_ok=True)
    return was_running


def end_engine(kit: Path, grace: float = GRACE) -> None:
    """End the engine's processes that belong to `kit`; without grace, kill them at once."""
    _end(lambda: engine(kit), grace)


def alive(process: psutil.Process) -> bool:
    """Return whether a process is running (and is not a zombie)."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def command(process: psutil.Process) -> list[str]:
    """Return the command line of a process; [] if it is dead or not accessible."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _end(find: Callable[[], list[psutil.Process]], grace: float) -> None:
    """End processes until none is left: one that ends may just have started another."""
    if grace:
        _send(signal.SIGTERM, find())
    began = time.monotonic()
    while left := find():
        waited = time.monotonic() - began
        if waited > grace + KILLED:
            numbers = ", ".join(str(process.pid) for process in left)
            raise MotifairError(
                f"These processes cannot be killed: {numbers}. They are blocked in the system, by "
                "a disk perhaps; try again, or restart the machine."
            )
        if waited >= grace:
            _send(signal.SIGKILL, left)
        time.sleep(STEP)


def _send(what: signal.Signals, processes: list[psutil.Process]) -> None:
    for process in processes:
        try:
            process.send_signal(what)
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied as error:
            raise MotifairError(
                f"Process {process.pid} belongs to another user. Stop it as that user."
            ) from error


@contextlib.contextmanager
def _unwound_by_signals() -> Iterator[None]:
    """Turn the first terminating signal into SystemExit, and ignore further ones during cleanup.

    Signals that are ignored, as under `nohup`, stay ignored.
    """

    def leave(number: int, frame: object) -> None:
        for s in handled:
            signal.signal(s, signal.SIG_IGN)
        raise SystemExit(128 + number)

    handled = {s: signal.getsignal(s) for s in SIGNALS if signal.getsignal(s) != signal.SIG_IGN}
    for s in handled:
        signal.signal(s, leave)
    try:
        yield
    finally:
        for s, handler in handled.items():
            signal.signal(s, handler)
