"""Segments: engine jobs of some rounds, submitted and monitored by the operator."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nvflare.fuel.flare_api.flare_api import Session
from nvflare.job_config.api import FedJob

from motifair.consortium.transports.nvflare.controller import SegmentController, encode
from motifair.consortium.transports.nvflare.executor import AgentExecutor
from motifair.consortium.transports.nvflare.operator import session
from motifair.consortium.transports.nvflare.payload import MAX_BYTES, TASK
from motifair.errors import MotifairError

POLL = 0.5
IDLE_POLL = 3.0

How = Literal["done", "finished", "aborted", "lost", "refused", "timeout"]


@dataclass(frozen=True)
class SegmentResult:
    """How a segment ended.

    `done`: the caller's `done` returned true. `finished`: the driver returned. `aborted`: the
    engine ended it, or the driver failed. `lost`: the server was restarted and forgot it.
    `refused`: it was not scheduled, or too few members were connected. `timeout`: it was still
    running. `back` names the site that returned, if it was aborted for that.
    """

    how: How
    job: str
    reason: str = ""
    back: str = ""


def build_job(
    name: str, *, members: Sequence[str], driver: str, segment: Mapping[str, Any],
    min_sites: int, max_bytes: int,
) -> FedJob:  # fmt: skip
    """Return a segment as a job of the engine. It names our classes; no code is sent."""
    job = FedJob(name=name, min_clients=min_sites)
    job.set_app_packages(["motifair"])
    job.to_server(SegmentController(driver, list(members), encode(segment), max_bytes))
    # By default sites poll every 2 s and arrays are sent in chunks: a round would take seconds.
    whole = {"np_download_chunk_size": 0}
    job.to_server({"server": {"task_request_interval": 0.1}, **whole})
    for member in members:
        job.to(AgentExecutor(), member, tasks=[TASK])
        job.to(whole, member)
    return job


def run_segment(
    admin_kit: Path, *, members: Sequence[str], driver: str, segment: Mapping[str, Any],
    min_sites: int, timeout: float, done: Callable[[], bool] | None = None,
    awaited: Sequence[str] = (), max_bytes: int = MAX_BYTES,
) -> SegmentResult:  # fmt: skip
    """Run one segment and return how it ended.

    The driver gets `segment` and `members` in addition to the server's local settings. `done` tells
    whether the segment has finished its work: it takes precedence over the engine's status, which
    may lag by a quarter of an hour when a site was lost. An `awaited` site that was lost and is
    back cannot rejoin a running segment, so that is aborted and the next one includes it.
    """
    end = time.monotonic() + timeout
    job = build_job(
        "segment", members=members, driver=driver, segment=segment,
        min_sites=min_sites, max_bytes=max_bytes,
    )  # fmt: skip
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        job.export_job(folder)
        opened = stack.enter_context(session(admin_kit))
        _clear(opened, end)
        began = opened.get_system_info().server_info.start_time
        name = opened.submit_job(str(Path(folder) / "segment"))
        idle_sites = IdleSites(name, awaited)
        try:
            while time.monotonic() < end:
                if done and done():
                    return SegmentResult("done", name)
                try:
                    opened = opened or stack.enter_context(session(admin_kit))
                    if result := _ended(opened, name, began):
                        return result
                    if back := idle_sites(opened):
                        opened.abort_job(name)
                        why = f"{back} is back, but not in it"
                        return SegmentResult("aborted", name, why, back)
                except Exception:  # the server is down, and may come back
                    opened = None
                    stack.close()
                time.sleep(POLL)
        except BaseException:  # Ctrl-C, say: rounds do not go on behind the operator's back
            _abort(admin_kit, name)
            raise
    _abort(admin_kit, name)
    return SegmentResult("timeout", name, "it was still running, and was aborted")


def _abort(admin_kit: Path, job: str) -> None:
    """End a job, if the server can be reached."""
    with contextlib.suppress(MotifairError), session(admin_kit) as opened:
        opened.abort_job(job)


def _clear(opened: Session, end: float) -> None:
    """Abort jobs left by an operator that died: a site runs one segment at a time."""
    for job in opened.list_jobs():
        if not job["status"].startswith("FINISHED"):
            with contextlib.suppress(Exception):  # a job of a dead server is no longer running
                opened.abort_job(job["job_id"])
    while opened.get_system_info().job_info and time.monotonic() < end:
        time.sleep(POLL)


class IdleSites:
    """Detects sites that are connected but not part of the running segment."""

    def __init__(self, job: str, members: Sequence[str]) -> None:
        self.job, self.members = job, members
        self.idle: set[str] = set()
        self.next = time.monotonic() + IDLE_POLL

    def __call__(self, opened: Session) -> str:
        """Return a site that was idle in two successive polls; '' if none, or between polls."""
        if time.monotonic() < self.next:
            return ""
        before, self.idle = self.idle, self._ask(opened)
        self.next = time.monotonic() + IDLE_POLL
        return min(before & self.idle, default="")

    def _ask(self, opened: Session) -> set[str]:
        if opened.get_job_meta(self.job).get("status") != "RUNNING":
            return set()
        connected = {c.name for c in opened.get_system_info().client_info}
        asked = [m for m in self.members if m in connected]
        jobs = opened.get_client_job_status(asked) if asked else None
        return {j["client_name"] for j in jobs or () if j.get("status") == "no_jobs"}


def _ended(opened: Session, job: str, began: float) -> SegmentResult | None:
    """Return how the job ended, None if it has not; a restarted server does not resume a job."""
    if opened.get_system_info().server_info.start_time != began:
        return SegmentResult("lost", job, "the server was restarted")
    status = str(opened.get_job_meta(job).get("status"))
    if status == "FINISHED:COMPLETED":
        return SegmentResult("finished", job)
    if status in ("FINISHED:CAN_NOT_SCHEDULE", "FINISHED:FAILED_TO_RUN"):
        return SegmentResult("refused", job, status)
    if status.startswith("FINISHED"):
        return SegmentResult("aborted", job, status)
    return None
