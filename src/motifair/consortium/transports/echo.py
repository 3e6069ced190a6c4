"""Echo agents and empty rounds, to measure the engine alone and to test connections."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from motifair.consortium.transports import Handler, Transport


def make_echo(name: str, settings: dict[str, Any]) -> Handler:
    """Return an agent that replies with its name and the task.

    >>> make_echo("a", {})(b"task")
    b'a:task'
    """
    return lambda task: name.encode() + b":" + task


def drive(transport: Transport, where: dict[str, Any]) -> None:
    """Run `rounds` exchanges of `bytes` bytes with every member.

    Write a line about each to `trial.jsonl` in the server's `folder`: seconds, replies without
    padding, their sizes, and failures.
    """
    plan = where["segment"]
    with (Path(where["folder"]) / "trial.jsonl").open("a") as lines:
        for t in range(1, plan["rounds"] + 1):
            tasks = {
                m: f"{t} for {m}".encode().ljust(plan["bytes"], b".") for m in where["members"]
            }
            began = time.monotonic()
            replies, failures = transport.exchange(tasks, plan["deadline"])
            line = {
                "round": t,
                "seconds": time.monotonic() - began,
                "replies": {m: reply.rstrip(b".").decode() for m, reply in replies.items()},
                "bytes": {m: len(reply) for m, reply in replies.items()},
                "failures": failures,
            }
            lines.write(json.dumps(line) + "\n")
            lines.flush()
