"""Federations of a stack decided one by one, on a GPU at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from motifair.federation.decision import Decision
from motifair.methods import Seen

STREAMS = 16
ALIGNED = 16  # bytes; of other addresses vectorised sums take the first numbers apart


def side_by_side(ask: Callable[[Seen], Decision], parts: Iterable[Seen]) -> list[Decision]:
    """Return the decision about each part; where a round is recorded, in parallel branches of it.

    Every part is computed by operations of the shapes that it has alone, so that its numbers are
    those that it has alone.
    """
    if not torch.cuda.is_available() or not torch.cuda.is_current_stream_capturing():
        return [ask(_aligned(part)) for part in parts]
    here = torch.cuda.current_stream()
    streams = [torch.cuda.Stream() for _ in range(STREAMS)]  # type: ignore[no-untyped-call]
    for stream in streams:
        stream.wait_stream(here)
    decisions = []
    for part, stream in zip(parts, cycle(streams), strict=False):
        with torch.cuda.stream(stream):
            decisions.append(ask(_aligned(part)))
    for stream in streams:
        here.wait_stream(stream)
    return decisions


def _aligned(seen: Seen) -> Seen:
    """Copy what does not begin at an address at which it would begin alone."""
    parts: dict[str, Any] = {f.name: getattr(seen, f.name) for f in fields(seen)}
    moved = {name: _copied(p) for name, p in parts.items() if isinstance(p, Tensor)}
    memory = {name: _copied(tensor) for name, tensor in seen.memory.items()}
    return Seen(**{**parts, **moved, "memory": memory})


def _copied(tensor: Tensor) -> Tensor:
    return tensor.clone() if tensor.data_ptr() % ALIGNED else tensor
