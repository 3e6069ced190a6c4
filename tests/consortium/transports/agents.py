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
        if kind in ("grow", "stall"):
            task = task.ljust(size, b".")
        if kind == "stall":
            stop_halfway(size)
        return name.encode() + b":" + task

    return handle


def stop_halfway(size):
    """Send half of the next reply of this size, and then nothing for as long as the process lives.

    Heartbeats go on: to the server the site is there.
    """
    from nvflare.fuel.f3.streaming.blob_streamer import BlobStream

    read = BlobStream.read

    def stalled(stream, chunk_size):
        while stream.get_size() >= size and stream.pos >= size // 2:
            time.sleep(3600)
        return read(stream, chunk_size)

    BlobStream.read = stalled
