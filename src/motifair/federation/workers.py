"""Worker processes that train agents in parallel, exchanging tensors through shared memory.

Threads would contend for the GIL: between two matrix products an agent needs it a dozen times, and
handing it over takes as long as the work. On Linux workers are forked and inherit the graphs;
elsewhere they are threads.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import multiprocessing
import signal
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import torch
from torch import Tensor

from motifair.errors import MotifairError

FORKS = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1  # of prctl(2)
_WORK: dict[int, Callable[[int], None]] = {}  # inherited by the workers: it cannot be sent
_NUMBER = itertools.count()


class Workers:
    """So many workers that do a piece of work by its number, and leave results in shared rows.

    They start with the first piece, and see the memory of that moment; what is written later they
    see only in rows from `shared_rows`.
    """

    def __init__(self, count: int, work: Callable[[int], None]) -> None:
        self.number = next(_NUMBER)
        _WORK[self.number] = work
        self.pool: Executor
        if FORKS:
            context = multiprocessing.get_context("fork")
            self.pool = ProcessPoolExecutor(count, context, initializer=begin_worker)
        else:
            self.pool = ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,))
        self._close = weakref.finalize(self, _end, self.number, self.pool)

    def __call__(self, portions: Iterable[Sequence[int]]) -> None:
        """Do all pieces, portion by portion; return when they are done."""
        try:
            for _ in self.pool.map(partial(_do, self.number), portions):
                pass
        except BrokenProcessPool as error:
            raise MotifairError(
                "A worker process was ended, perhaps for lack of memory; continue with "
                "motifair resume, or run it again with --threads 1."
            ) from error

    def close(self) -> None:
        """End the workers."""
        self._close()


def shared_rows(like: Tensor) -> Tensor:
    """Return memory for a tensor of the same shape and type that workers share with the parent."""
    if like.numel() == 0:
        return torch.empty_like(like)
    memory = mmap.mmap(-1, like.nbytes)
    return torch.frombuffer(memory, dtype=like.dtype, count=like.numel()).view(like.shape)


def portions(sizes: Sequence[int], count: int) -> list[list[int]]:
    """Share pieces out to `count` portions of nearly equal size: the largest first, each to the
    portion that has least.

    >>> portions([5, 3, 3, 2], 2)
    [[0, 3], [1, 2]]
    """
    shared: list[list[int]] = [[] for _ in range(count)]
    total = [0] * count
    for piece in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        least = total.index(min(total))
        shared[least].append(piece)
        total[least] += sizes[piece]
    return shared


def begin_worker() -> None:
    """Leave interrupts to the parent, end with it, and compute in one thread."""
    # An interrupt is for the parent: it asks for the end of the round, which workers finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A parent that is killed cannot end its workers; the system does.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    torch.set_num_threads(1)


def _do(number: int, pieces: Sequence[int]) -> None:
    for piece in pieces:
        _WORK[number](piece)


def _end(number: int, pool: Executor) -> None:
    pool.shutdown(wait=True, cancel_futures=True)
    _WORK.pop(number, None)
