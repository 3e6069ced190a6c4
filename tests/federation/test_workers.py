"""Workers do all pieces, share rows, and do not outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from motifair.errors import MotifairError
from motifair.federation.workers import FORKS, Workers, portions, shared_rows

FORKING = pytest.mark.skipif(not FORKS, reason="workers are threads here")


@given(st.lists(st.integers(1, 1000), max_size=40), st.integers(1, 6))
def test_portions_have_every_piece_once_and_nearly_equal_sizes(sizes: list[int], n: int) -> None:
    shared = portions(sizes, n)
    assert sorted(piece for portion in shared for piece in portion) == list(range(len(sizes)))
    totals = [sum(sizes[k] for k in portion) for portion in shared]
    assert max(totals) - min(totals) <= max(sizes, default=0)


def test_workers_leave_what_they_did_in_shared_rows() -> None:
    given_rows, done = (
        shared_rows(torch.zeros(7, 3)),
        shared_rows(torch.zeros(7, dtype=torch.int64)),
    )

    def work(piece: int) -> None:
        done[piece] = int(given_rows[piece].sum()) + piece

    workers = Workers(2, work)
    for value in (1.0, 5.0):  # what is written after they started is seen, too
        given_rows.fill_(value)
        workers([[0, 2, 4, 6], [1, 3, 5]])
        assert done.tolist() == [3 * int(value) + k for k in range(7)]
    workers.close()
    workers.close()


def test_what_goes_wrong_in_a_worker_is_heard() -> None:
    def work(piece: int) -> None:
        raise MotifairError("no such graph")

    with pytest.raises(MotifairError, match="no such graph"):
        Workers(2, work)([[0], [1]])


@FORKING
@pytest.mark.kill
def test_a_worker_that_was_killed_is_one_sentence() -> None:
    workers = Workers(2, lambda piece: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(MotifairError, match="motifair resume"):
        workers([[0], [1]])


@FORKING
@pytest.mark.kill
def test_workers_end_with_a_parent_that_was_killed() -> None:
    script = """
import os, time
from motifair.federation.workers import Workers
def work(piece):
    os.write(1, f"{os.getpid()}\\n".encode())  # a whole line at once: two of them write
    time.sleep(0.2)
workers = Workers(2, work)
workers([[0], [1]])
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    children = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    parent.wait()
    for _ in range(100):
        if not any(alive(child) for child in children):
            return
        time.sleep(0.05)
    pytest.fail("workers outlived their parent")


def alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:  # noqa: PTH123
            return file.read().split()[2] != "Z"
    except FileNotFoundError:
        return False
