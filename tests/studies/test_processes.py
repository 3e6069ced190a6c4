"""Pieces of a study in processes of their own: what is said when one of them is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from motifair.errors import MotifairError
from motifair.studies.processes import ahead
from motifair.studies.study import Settings


def exhausted(settings: Settings, piece: int) -> None:
    if piece == 1:
        raise torch.OutOfMemoryError("CUDA out of memory")


def ended(settings: Settings, piece: int) -> None:
    if piece == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("work", [exhausted, ended])
def test_a_lost_piece_is_one_sentence(
    work: Callable[[Settings, int], None], tmp_path: Path
) -> None:
    settings = Settings(tmp_path, processes=2, device="cpu")
    with pytest.raises(MotifairError, match="again to continue, with fewer"):
        ahead(settings, work, range(3))
