"""A process that computes for long: one thread, memory that stays, a collector that is brief.

Training frees and allocates the same megabyte blocks hundreds of times a round. By default the C
library hands such blocks back to the system each time and takes page faults to get them again;
with two threads this costs more than the arithmetic (an elementwise product took twelve times as
long in two threads as in one). Here freed blocks stay in one pool.
"""

from __future__ import annotations

import ctypes
import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8


@functools.cache
def keep_freed_memory() -> bool:
    """Tell glibc's allocator, once in a process; on other systems do nothing and return False."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    settings = {
        _ARENA_MAX: 1,
        _MMAP_THRESHOLD: 32 << 20,  # the largest it takes
        _TRIM_THRESHOLD: 2**31 - 1,
        _TOP_PAD: 64 << 20,
    }
    taken = [mallopt(option, value) for option, value in settings.items()]
    return all(t == 1 for t in taken)


@contextmanager
def steady_process() -> Iterator[None]:
    """Let agents be the unit of parallel work, so that results do not depend on the machine; keep
    freed memory; and keep the garbage collector from what is loaded by now, which stays: it would
    go through all of it every few rounds. What the work leaves behind is collected at its end.
    """
    keep_freed_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        torch.set_num_threads(before)
