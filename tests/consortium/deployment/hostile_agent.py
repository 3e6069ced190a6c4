"""A member's agent that sends an update of length 999 in round 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from motifair.consortium.agent_process import make_handler, own_key
from motifair.consortium.keys import signer
from motifair.consortium.wire import Upload, digest, seal, unseal
from motifair.statements.verification import signed_message


def make(name: str, settings: dict[str, Any]) -> Callable[[bytes], bytes]:
    """Make an honest agent and change what it answers."""
    answer, sign = make_handler(name, settings), signer(own_key(Path(settings["kit"])))

    def handle(task: bytes) -> bytes:
        sent = answer(task)
        upload = Upload.decode(unseal(sent)[0])
        if upload.round != 2 or upload.update is None:
            return sent
        longer = -999 * upload.update / np.linalg.norm(upload.update)
        content = replace(upload, update=longer.astype(np.float32)).encode()
        about = (upload.run, upload.round, name, digest(content), upload.head)
        return seal(content, sign(signed_message(*about)))

    return handle
