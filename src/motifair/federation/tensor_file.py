"""Tensors in one safetensors file with a checksum: written atomically, checked on loading."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from motifair.errors import MotifairError
from motifair.files import write_atomic

CHECKSUM = "sha256"


class DamagedFileError(MotifairError):
    """A file that cannot be read, or whose content is not what was written."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write tensors and texts about them to one file, atomically, with a checksum of both."""
    plain = _plain(tensors)
    metadata = {**about, CHECKSUM: tensors_digest(plain, about)}
    write_atomic(path, lambda temporary: save_file(plain, temporary, metadata))


def read_tensors(path: Path, format: str, fix: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return the texts and tensors of a file; raise DamagedFileError, which ends in `fix`.

    A file of another `format`, to be refused or read by the caller, may have no checksum.
    """
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise DamagedFileError(f"{path} is damaged ({error}); {fix}.") from error
    stored = about.pop(CHECKSUM, None)
    if stored is None and about.get("format") != format:
        return about, tensors
    if stored != tensors_digest(tensors, about):
        raise DamagedFileError(f"{path} is damaged (its checksum differs); {fix}.")
    return about, tensors


def tensors_digest(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> str:
    """Return the SHA-256 of names, types, shapes and bytes of tensors, and of texts about them.

    >>> one = tensors_digest({"a": torch.zeros(2)}, {})
    >>> one == tensors_digest({"a": torch.zeros(2)}, {}), one == tensors_digest({}, {"a": "0"})
    (True, False)
    """
    shapes = {name: [str(t.dtype), list(t.shape)] for name, t in tensors.items()}
    digest = hashlib.sha256(json.dumps([dict(about), shapes], sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as safetensors takes them: on the host, whole, no memory under two names."""
    named: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        whole = plain.nbytes == plain.untyped_storage().nbytes()
        if not whole or plain.data_ptr() in seen:
            plain = plain.clone()
        seen.add(plain.data_ptr())
        named[name] = plain
    return named
