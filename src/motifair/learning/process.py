"""Process settings for long training runs.

These are single-threaded tensor operations, an allocator that keeps freed pages, and a frozen
garbage collector. Training frees and allocates the same megabyte blocks hundreds of times a round.
By default glibc returns such blocks to the system each time and takes page faults to get them back;
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
    """Configure glibc's allocator, once per process, to keep freed memory.

    Returns whether it was configured: other C libraries have no `mallopt`.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    settings = {
        _ARENA_MAX: 1,
        _MMAP_THRESHOLD: 32 << 20,  # the largest value it accepts
        _TRIM_THRESHOLD: 2**31 - 1,
        _TOP_PAD: 64 << 20,
    }
    accepted = [mallopt(option, value) for option, value in settings.items()]
    return all(a == 1 for a in accepted)


@contextmanager
def training_process() -> Iterator[None]:
    """Apply the process settings for a long training run, and restore them at its end.

    Tensor operations use one thread: agents are the unit of parallel work, and results do not
    depend on the number of cores. The garbage collector ignores the objects that exist at the start
    (it would scan them every few rounds) and collects the others at the end.
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
