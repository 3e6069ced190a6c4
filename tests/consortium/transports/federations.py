"""A real federation on this machine: server and sites as processes, mutual TLS on loopback."""

import json
import socket
import time
from pathlib import Path

from requested import provision

from motifair.consortium.transports.nvflare import processes
from motifair.consortium.transports.nvflare.segments import build_job, run_segment

ADMIN = "operator@example.org"
DRIVER = "motifair.consortium.transports.echo:drive"


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


def wait_until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def export(folder, members, segment):
    """Write the engine's job of a segment, to be tampered with."""
    job = build_job(
        "job", members=members, driver=DRIVER, segment=segment, min_sites=1, max_bytes=10**6
    )
    job.export_job(str(folder))
    return folder / "job"


class Federation:
    def __init__(self, folder, members):
        self.folder, self.members, self.started = Path(folder), members, {}
        self.out, self.faults = self.folder / "out", self.folder / "faults.json"
        self.kits = provision(self.folder, members, port=free_port(), admin=ADMIN)
        self.out.mkdir()
        self.misbehave({})

    def start_server(self):
        self.started["server"] = processes.start_server(
            self.kits["server"], {"folder": str(self.out)}
        )

    def start_site(self, name, wait=120):
        settings = {"faults": str(self.faults)}
        self.started[name] = processes.start_site(
            self.kits[name], "agents:make", settings, wait=wait
        )

    def misbehave(self, faults):
        self.faults.write_text(json.dumps(faults))

    def lines(self):
        path = self.out / "trial.jsonl"
        return [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []

    def wait_for(self, rounds):
        wait_until(lambda: len(self.lines()) >= rounds)

    def segment(self, rounds=3, deadline=20.0, content=1000, max_bytes=10**6, timeout=180, **more):
        """Run a segment; returns how it ended and a line about each of its rounds."""
        (self.out / "trial.jsonl").unlink(missing_ok=True)
        more = {"driver": DRIVER, "min_sites": 1, "members": self.members, **more}
        plan = {"rounds": rounds, "bytes": content, "deadline": deadline}
        ending = run_segment(
            self.kits[ADMIN], segment=plan, timeout=timeout, max_bytes=max_bytes,
            done=lambda: len(self.lines()) == rounds, **more,
        )  # fmt: skip
        return ending, self.lines()

    def stop(self):
        for part in self.started.values():
            part.kill()
