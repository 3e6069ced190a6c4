"""Wire format between a deployed server and its agents: typed records as bytes.

A record is one safetensors file in memory: arrays, and the other values as JSON. It contains no
code, and encoding is deterministic, so that the hash of a record can be signed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

SCHEMA = 3
LARGEST_MODEL = 10**9  # parameters
JOIN, JUDGE, TRAIN, FINISH, AGREE = "join", "judge", "train", "finish", "agree"

Floats = NDArray[np.float32]
_KINDS: Mapping[str, Any] = {"str": str, "int": int, "float": float, "tuple[str, ...]": tuple}


class BadRecordError(Exception):
    """Bytes that are not a valid record of the expected kind; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class _Record:
    """Fields of every record: run, round, agent and task."""

    run: str
    round: int
    agent: str
    task: str

    ARRAYS: ClassVar[Mapping[str, type]] = {}

    def encode(self) -> bytes:
        """Return the record as bytes, always the same for the same record."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {n: plain.pop(n) for n in self.ARRAYS}
        about = {"schema": SCHEMA, "kind": type(self).__name__, **plain}
        text = json.dumps(about, sort_keys=True, separators=(",", ":"), allow_nan=True)
        present = {n: np.ascontiguousarray(a) for n, a in arrays.items() if a is not None}
        return save(self.pack(present), {"record": text})

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Read a record; raise BadRecordError if it is invalid or of another version."""
        about, arrays = _opened(content)
        if (version := about.pop("schema", None)) != SCHEMA:
            raise BadRecordError(
                f"version {version!r:.20} of the format instead of {SCHEMA}; the server and all "
                "agents need the same version of motifair"
            )
        if about.pop("kind", None) != cls.__name__:
            raise BadRecordError(f"not of the kind {cls.__name__.lower()}")
        plain = {f.name: _KINDS[str(f.type)] for f in fields(cls) if f.name not in cls.ARRAYS}
        if set(about) != set(plain):
            raise BadRecordError("other fields than expected")
        for name, kind in plain.items():
            if not isinstance(about[name], kind):
                raise BadRecordError(f"{name} is of another type than expected")
        present: dict[str, Any] = dict.fromkeys(cls.ARRAYS)
        for name, array in cls.unpack(arrays).items():
            if name not in cls.ARRAYS or array.dtype != cls.ARRAYS[name]:
                raise BadRecordError(f"unexpected array {name} of type {array.dtype}")
            present[name] = array
        return cls(**about, **present)

    @classmethod
    def pack(cls, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return arrays in the form in which they are sent."""
        return arrays

    @classmethod
    def unpack(cls, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Undo `pack`."""
        return arrays


@dataclass(frozen=True, kw_only=True)
class Download(_Record):
    """A task for one agent: its reward `(D,)` and the share of its own step to keep (`retained`),
    the prototypes `(k, H)` of its motifs and which of them exist (`active`, `(k,)`), and number and
    hash of the last entry of the ledger (`head`), with the operator's signature of that hash in hex
    (`receipt`). `weights` `(D,)` replaces the shared part of its model, for an agent that was
    absent; `models` `(n, D)` are those of its peers that it judges; `moments` `(U,)` the common
    second moments of units, if the method has any.

    `terms` is the digest of the agreed terms. `changed` are the terms, as for the ledger, that a
    member is asked to sign after a change.
    """

    terms: str
    changed: str = ""
    number: int = -1
    head: str = ""
    receipt: str = ""
    retained: float = 1.0
    reward: Floats | None = None
    prototypes: Floats | None = None
    active: NDArray[np.bool_] | None = None
    weights: Floats | None = None
    models: Floats | None = None
    moments: Floats | None = None

    ARRAYS: ClassVar[Mapping[str, type]] = {
        "reward": np.float32,
        "prototypes": np.float32,
        "active": np.bool_,
        "weights": np.float32,
        "models": np.float32,
        "moments": np.float32,
    }

    @property
    def compares(self) -> bool:
        """Whether models to be judged are the server's own: such a task follows the last round, and
        names no entry. Nobody gains by how sure they are.
        """
        return self.round > 0 and not self.head

    @classmethod
    def pack(cls, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Encode a reward that is mostly zeros as indices and values."""
        reward = arrays.get("reward")
        if reward is None or 2 * np.count_nonzero(reward) > reward.size:
            return arrays
        place = np.flatnonzero(reward).astype(np.uint32)
        sparse = {"place": place, "kept": reward[place], "size": np.array([reward.size], np.uint32)}
        return {n: a for n, a in arrays.items() if n != "reward"} | sparse

    @classmethod
    def unpack(cls, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Undo `pack`."""
        if "place" not in arrays:
            return arrays
        place, kept, size = (arrays.pop(name, np.empty(())) for name in ("place", "kept", "size"))
        kinds = [(place, np.uint32), (kept, np.float32), (size, np.uint32)]
        fits = all(a.ndim == 1 and a.dtype == kind for a, kind in kinds) and len(size) == 1
        if not fits or len(place) != len(kept) or (place >= size).any():
            raise BadRecordError("a sparse reward that does not fit together")
        if size[0] > LARGEST_MODEL:
            raise BadRecordError("a reward larger than any model")
        reward = np.zeros(size[0], np.float32)
        reward[place] = kept
        return arrays | {"reward": reward}


@dataclass(frozen=True, kw_only=True)
class Upload(_Record):
    """An agent's answer. On joining: its number of training graphs, the keys of its motifs with
    their prototypes under the initial model and, if the method believes only some graphs, a
    fingerprint of each and how they are wired (`GraphSummary`), and its own model `(D,)`, trained
    alone (`trial`), where peers judge it. As a judge: loss and discrimination of each model
    that it was sent, `(n, 2)` (`judgement`). After training: its update `(D,)`, its mean gradient
    if the method uses it, the norm of the last gradient, prototypes `(k, H)`, second moments of
    units `(U,)` if the method makes them common, and the loss. At the end: its accuracy on its test
    graphs. `head` is that of the task: the last entry of the ledger that the agent has seen.
    """

    head: str = ""
    graphs: int = 0
    motifs: tuple[str, ...] = ()
    gradient_norm: float = 0.0
    loss: float = 0.0
    accuracy: float = 0.0
    update: Floats | None = None
    gradient: Floats | None = None
    prototypes: Floats | None = None
    fingerprints: NDArray[np.uint64] | None = None
    wiring: NDArray[np.float64] | None = None
    trial: Floats | None = None
    judgement: NDArray[np.float64] | None = None
    moments: Floats | None = None

    ARRAYS: ClassVar[Mapping[str, type]] = {
        "update": np.float32,
        "gradient": np.float32,
        "prototypes": np.float32,
        "fingerprints": np.uint64,
        "wiring": np.float64,
        "trial": np.float32,
        "judgement": np.float64,
        "moments": np.float32,
    }


def digest(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def seal(content: bytes, signature: bytes) -> bytes:
    """Return content with its signature in front."""
    return len(signature).to_bytes(2, "big") + signature + content


def unseal(sealed: bytes) -> tuple[bytes, bytes]:
    """Return content and signature of sealed bytes."""
    length = int.from_bytes(sealed[:2], "big")
    if len(sealed) < 2 + length:
        raise BadRecordError("cut off")
    return sealed[2 + length :], sealed[2 : 2 + length]


def _opened(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return values and arrays of untrusted bytes."""
    try:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        about = json.loads(header["__metadata__"]["record"])
        arrays = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadRecordError("no record at all") from error
    if not isinstance(about, dict):
        raise BadRecordError("no record at all")
    if isinstance(about.get("motifs"), list):
        about["motifs"] = tuple(map(str, about["motifs"]))
    return about, arrays
