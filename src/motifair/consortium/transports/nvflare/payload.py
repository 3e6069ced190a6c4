"""Bytes in the engine's format: one array and JSON values, never a pickle."""

from __future__ import annotations

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable

TASK = "motifair"
MAX_BYTES = 256 * 2**20  # of a reply


class RefusedError(Exception):
    """The message is not a payload, is too large, or reports a failure of the sender."""


def pack(content: bytes, failure: str = "") -> Shareable:
    """Return bytes, or the description of a failure, as a message of the engine."""
    array = np.frombuffer(content, dtype=np.uint8)
    return DXO(
        DataKind.APP_DEFINED, data={"bytes": array}, meta={"failure": failure}
    ).to_shareable()


def unpack(shareable: Shareable, max_bytes: int) -> bytes:
    """Return the bytes of a message; raise `RefusedError` with a reason for the ledger."""
    code = shareable.get_return_code()
    if code != ReturnCode.OK:
        raise RefusedError(f"the engine returned {code}")
    try:
        dxo = from_shareable(shareable)
        array, failure = dxo.data["bytes"], dxo.meta.get("failure", "")
    except Exception as error:
        raise RefusedError("the reply has an unknown form") from error
    if failure:
        raise RefusedError(str(failure)[:500])
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 1:
        raise RefusedError("the reply has an unknown form")
    if array.nbytes > max_bytes:
        raise RefusedError(f"the reply has {array.nbytes} bytes; at most {max_bytes} are taken")
    return array.tobytes()
