"""Members' agents with changed software: each is an honest agent whose answers are changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from motifair.consortium.agent_process import make_handler, own_key
from motifair.consortium.keys import signer
from motifair.consortium.wire import JOIN, JUDGE, Upload, digest, seal, unseal
from motifair.errors import MotifairError
from motifair.statements.verification import signed_message

Handler = Callable[[bytes], bytes]
CLAIMED = 10  # times the graphs that there are


def changing(name: str, settings: dict[str, Any], change: Callable[[Upload], Upload]) -> Handler:
    """Make an honest agent that signs what `change` makes of its answers."""
    answer, sign = make_handler(name, settings), signer(own_key(Path(settings["kit"])))

    def handle(task: bytes) -> bytes:
        sent = answer(task)
        upload = Upload.decode(unseal(sent)[0])
        changed = change(upload)
        if changed is upload:
            return sent
        content = changed.encode()
        about = (upload.run, upload.round, name, digest(content), upload.head)
        return seal(content, sign(signed_message(*about)))

    return handle


def make(name: str, settings: dict[str, Any]) -> Handler:
    """An update of length 999, reversed, in round 2."""

    def change(upload: Upload) -> Upload:
        if upload.round != 2 or upload.update is None:
            return upload
        longer = -999 * upload.update / np.linalg.norm(upload.update)
        return replace(upload, update=longer.astype(np.float32))

    return changing(name, settings, change)


def claiming(name: str, settings: dict[str, Any]) -> Handler:
    """Ten times the graphs, with invented fingerprints, and lies on all others' models."""

    def change(upload: Upload) -> Upload:
        if upload.task == JOIN and upload.fingerprints is not None:
            own = upload.fingerprints
            words = np.concatenate([own ^ np.uint64(k << 16) for k in range(CLAIMED)])
            return replace(upload, graphs=CLAIMED * upload.graphs, fingerprints=words)
        if upload.task == JUDGE and upload.judgement is not None:
            return replace(upload, judgement=np.full_like(upload.judgement, [10.0, -1.0]))
        return upload

    return changing(name, settings, change)


def uploading(name: str, settings: dict[str, Any]) -> Handler:
    """Another cheat with its update in each round from the second on."""
    kept: list[np.ndarray] = []
    rng = np.random.default_rng(0)

    def change(upload: Upload) -> Upload:
        if upload.update is None:
            return upload
        kept.append(upload.update)
        noise = rng.standard_normal(len(upload.update))
        noise *= np.linalg.norm(upload.update) / np.linalg.norm(noise)
        cheats = {
            2: 100 * upload.update, 3: kept[0], 4: -upload.update, 5: noise, 6: 0 * upload.update,
        }  # fmt: skip
        if upload.round not in cheats:
            return upload
        return replace(upload, update=cheats[upload.round].astype(np.float32))

    return changing(name, settings, change)


def absent(name: str, settings: dict[str, Any]) -> Handler:
    """No answer in every other round."""
    answer = make_handler(name, settings)

    def handle(task: bytes) -> bytes:
        sent = answer(task)
        if Upload.decode(unseal(sent)[0]).round in (2, 4, 6):
            raise MotifairError("no answer today")
        return sent

    return handle
