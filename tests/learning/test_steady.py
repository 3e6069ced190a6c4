"""While a run computes the process is steady, and afterwards as it was."""

from __future__ import annotations

import gc

import torch

from motifair.learning.steady import steady_process


def test_threads_and_collector_are_as_they_were() -> None:
    torch.set_num_threads(2)
    try:
        with steady_process():
            assert torch.get_num_threads() == 1
            assert gc.get_freeze_count() > 1000
        assert torch.get_num_threads() == 2
        assert gc.get_freeze_count() == 0
    finally:
        torch.set_num_threads(1)
