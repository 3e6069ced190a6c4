"""Rounds without content: what the engine alone costs, and whether it reaches everybody."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from motifair.consortium.transports import Handler, Transport


def make_echo(name: str, settings: dict[str, Any]) -> Handler:
    """Make an agent that puts its name before what it was sent.

    >>> make_echo("a", {})(b"task")
    b'a:task'
    """
    return lambda task: name.encode() + b":" + task


def drive(transport: Transport, where: dict[str, Any]) -> None:
    """Exchange `rounds` pieces of `bytes` bytes with every member; write a line about each.

    The lines go to `trial.jsonl` in the server's own `folder`: how long the round took, how each
    reply begins and how long it is, and who failed.
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
