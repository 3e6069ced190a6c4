"""Pieces of a study side by side, each in a process of its own.

A piece leaves what it computes in files, which the study itself then reads. On a GPU many small
trainings at a time keep the device busy, where one would wait for its launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import TypeVar

import torch

from motifair.errors import MotifairError
from motifair.experiments.plan import choose_device, choose_memory
from motifair.federation.loop import Stopped
from motifair.federation.workers import begin_worker
from motifair.studies.study import Settings, no_pieces, no_progress

T = TypeVar("T")

ASKED_EVERY = 0.5  # seconds between looks at whether to stop
_STOP: list[Event] = []  # in a worker, whether the study stops


def ahead(settings: Settings, work: Callable[[Settings, T], object], pieces: Sequence[T]) -> None:
    """Do `work` for all pieces if the study may use several processes; with one, do nothing.

    The first pieces are begun first: the longest should be in front. `work` and pieces must be
    picklable. Each process has its part of the memory of a GPU.
    """
    if settings.processes == 1:
        return
    context = get_context("spawn")  # CUDA does not survive a fork
    stop = context.Event()
    inner = replace(
        settings, processes=1, memory=_memory(settings), progress=no_progress, pieces=no_pieces,
        stop=stopping,
    )  # fmt: skip
    pool = ProcessPoolExecutor(settings.processes, context, initializer=_begin, initargs=(stop,))
    try:
        left = {pool.submit(work, inner, piece) for piece in pieces}
        while left:
            done, left = wait(left, ASKED_EVERY, FIRST_COMPLETED)
            for piece in done:
                piece.result()
            settings.pieces(len(pieces) - len(left), len(pieces))
            if settings.stop():
                raise Stopped
    except (BrokenProcessPool, torch.OutOfMemoryError) as error:
        raise MotifairError(
            "Memory was exhausted, or a process was ended; give the same command again to "
            "continue, with fewer --processes."
        ) from error
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def stopping() -> bool:
    """Return whether the study that this process works for stops."""
    return _STOP[0].is_set()


def _begin(stop: Event) -> None:
    begin_worker()
    _STOP[:] = [stop]


def _memory(settings: Settings) -> float | None:
    """Return the GiB of one process on a GPU, None on a CPU."""
    device = choose_device(settings.device)
    if device.type == "cpu":
        return settings.memory
    return choose_memory(settings.memory, device) / settings.processes / 2**30
