"""Process settings of training runs are applied, and restored afterwards."""

from __future__ import annotations

import gc
import weakref

import torch

from motifair.learning.process import training_process


def test_threads_and_collector_are_as_they_were() -> None:
    torch.set_num_threads(2)
    try:
        with training_process():
            assert torch.get_num_threads() == 1
            assert gc.get_freeze_count() > 1000
        assert torch.get_num_threads() == 2
        assert gc.get_freeze_count() == 0
    finally:
        torch.set_num_threads(1)


def test_what_the_work_leaves_is_collected_without_going_through_the_rest() -> None:
    class Ring:
        pass

    frozen = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            frozen.append(gc.get_freeze_count())

    gc.callbacks.append(note)
    try:
        with training_process():
            ring = Ring()
            ring.itself = ring  # type: ignore[attr-defined]
            left = weakref.ref(ring)
            del ring
        assert left() is None
        assert frozen
        assert all(count > 1000 for count in frozen)
    finally:
        gc.callbacks.remove(note)
