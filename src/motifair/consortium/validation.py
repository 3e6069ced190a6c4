"""Validation of uploads: everything that is checked before the server uses one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from motifair.consortium.wire import (
    JOIN,
    BadRecordError,
    Download,
    Upload,
    digest,
    unseal,
)
from motifair.federation.agents import WORST_LOSS
from motifair.statements.verification import signed_message

MOST_GRAPHS = 10**9
MOST_MOTIFS = 200_000  # all of DD's proteins together have 134,116
MOTIF = re.compile(r"(bond|ring)( -?[0-9]{1,19}(/-?[0-9]{1,19})?)+")
HASHED = re.compile(r"[0-9a-f]{32}")  # a motif under the members' key
LONGEST_MOTIF = 2000  # characters
MOST_PROTOTYPE = 1e6
MOST_SHARE = 1.001  # 1, up to rounding

Verify = Callable[[str, bytes, bytes], bool]


@dataclass(frozen=True)
class Accepted:
    """A valid upload, the SHA-256 of its bytes, and the agent's signature of it."""

    upload: Upload
    sha256: str
    signature: str


@dataclass(frozen=True)
class Shape:
    """Expected shapes of the arrays of an upload: components of update and gradient, (motifs,
    hidden units) of prototypes, numbers of fingerprints and of measures of the wiring, components
    of the model for judgement, (models, 2) of judgements, and units of second moments; None for an
    array that must not be sent.
    """

    update: int | None = None
    gradient: int | None = None
    prototypes: tuple[int, int] | None = None
    fingerprints: int | None = None
    wiring: int | None = None
    trial: int | None = None
    judgement: tuple[int, int] | None = None
    moments: int | None = None


def open_upload(
    task: Download,
    sealed: bytes,
    verify: Verify,
    *,
    shape: Callable[[Upload], Shape],
    max_norm: float,
    hashed: bool = False,
) -> Accepted:
    """Read and validate an answer to `task`; raise BadRecordError, with the reason, if invalid.

    `verify(agent, text, signature)` checks the agent's signature, `shape` returns the expected
    shapes of such an upload. Where motifs are `hashed`, none may be sent in the clear.
    """
    content, signature = unseal(sealed)
    upload = Upload.decode(content)
    for name in ("run", "round", "agent", "task", "head"):
        if getattr(upload, name) != getattr(task, name):
            raise BadRecordError(f"an upload of {name} {getattr(upload, name)!r:.40}")
    sha256 = digest(content)
    signed = signed_message(task.run, task.round, task.agent, sha256, task.head)
    if not verify(task.agent, signed, signature):
        raise BadRecordError("the signature is not the agent's")
    if not np.isfinite([upload.gradient_norm, upload.loss, upload.accuracy]).all():
        raise BadRecordError("numbers that are not finite")
    if list(upload.motifs) != sorted(set(upload.motifs)):
        raise BadRecordError("motifs that are not in order, once each")
    if len(upload.motifs) > MOST_MOTIFS:
        raise BadRecordError(f"{len(upload.motifs)} motifs, where {MOST_MOTIFS} are the most")
    motif, what = (HASHED, "not hashed") if hashed else (MOTIF, "neither a bond nor a ring")
    if not all(len(m) <= LONGEST_MOTIF and motif.fullmatch(m) for m in upload.motifs):
        raise BadRecordError(f"a motif that is {what}")
    if not (task.task == JOIN) <= upload.graphs <= MOST_GRAPHS:
        raise BadRecordError("a number of training graphs that cannot be")
    _check_arrays(upload, shape(upload), max_norm)
    return Accepted(upload, sha256, signature.hex())


def _check_arrays(upload: Upload, shape: Shape, max_norm: float) -> None:
    for name, wanted in vars(shape).items():
        expected = (wanted,) if isinstance(wanted, int) else wanted
        array = getattr(upload, name)
        shape_sent = None if array is None else array.shape
        if shape_sent != expected:
            raise BadRecordError(f"{name} of shape {shape_sent} instead of {expected}")
        if array is None:
            continue
        if name == "judgement":
            _check_judgement(array)
            continue
        if not np.isfinite(array).all():
            raise BadRecordError(f"{name} with numbers that are not finite")
        if name == "moments" and (array < 0).any():
            raise BadRecordError("second moments below 0")
        if name == "wiring" and np.abs(array).max(initial=0.0) > MOST_SHARE:
            raise BadRecordError("wiring that is not from -1 to 1")
        # A whole update, but each prototype: one that overflows spoils the others. Gradients may
        # be of any length: a steep loss is not the member's fault.
        most = {"update": max_norm, "prototypes": MOST_PROTOTYPE}.get(name, np.inf)
        if np.linalg.norm(array.astype(np.float64), axis=-1).max(initial=0.0) > most:
            raise BadRecordError(f"{name} longer than {most:g}")


def _check_judgement(array: np.ndarray) -> None:
    """Refuse losses that cannot be; where a judge has one class, there is no discrimination."""
    loss, told = array.T
    if not ((loss >= 0) & (loss <= WORST_LOSS)).all():
        raise BadRecordError(f"losses that are not from 0 to {WORST_LOSS:g}")
    if (np.abs(told) > MOST_SHARE).any():
        raise BadRecordError("discriminations that are not from -1 to 1")
