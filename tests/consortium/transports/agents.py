"""Test agents that misbehave as configured in a file, round by round."""

import json
import os
import time
from pathlib import Path


def make(name, settings):
    """`settings["faults"]` names a file: {agent: {round: fault}}; a fault is a pair."""

    def handle(task):
        round_ = task.split(b" ")[0].decode()
        faults = json.loads(Path(settings["faults"]).read_text())
        kind, size = faults.get(name, {}).get(round_, ("", 0))
        if kind == "raise":
            raise ValueError("secret of " + name)
        if kind == "exit":
            os._exit(size)
        if kind == "sleep":
            time.sleep(size)
        if kind == "grow":
            task = task.ljust(size, b".")
        return name.encode() + b":" + task

    return handle
