"""Timing variants of the same work side by side, and saying where it was measured."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from motifair.federation.server import Record
from motifair.federation.state import FederationState

Work = Callable[[], object]
Clock = Callable[[Work], float]
Take = Callable[[FederationState], tuple[FederationState, Record]]

WARM = 2  # the first round compiles and allocates, the second is recorded where it can be
PRECISION = (
    "float32; TF32 is not switched on, and our CUDA kernels multiply by tf32x3, "
    "which is as exact as single precision"
)


def host_seconds(work: Work) -> float:
    """Time work that is done when the call returns."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def device_seconds(work: Work) -> float:
    """Time work by the clock of the CUDA device, from its first kernel to its last."""
    first = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    last = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()  # nothing that was started earlier is counted
    first.record()
    work()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / 1000


def in_turn(
    variants: Mapping[str, Work], repeats: int, clock: Clock = host_seconds, *, warm: int = WARM
) -> dict[str, float]:
    """Return the median seconds of each variant.

    They take turns, so that a noisy machine is noisy for all of them: ratios of medians then mean
    something where seconds do not. In its turn each works twice and the second time counts, since
    rounds follow rounds: the first finds the cache as another variant left it.

    >>> sorted(in_turn({"a": lambda: None, "b": lambda: None}, 3))
    ['a', 'b']
    """
    times: dict[str, list[float]] = {name: [] for name in variants}
    for repeat in range(warm + repeats):
        for name, work in variants.items():
            work()
            seconds = clock(work)
            if repeat >= warm:
                times[name].append(seconds)
    return {name: statistics.median(t) for name, t in times.items()}


def stepper(take: Take, state: FederationState) -> Work:
    """Go on by one round with every call."""
    now = [state]

    def step() -> None:
        now[0] = take(now[0])[0]

    return step


def surroundings(device: torch.device) -> dict[str, Any]:
    """Say what a measurement depends on beside the code."""
    on_cuda = device.type == "cuda"
    return {
        "device": device.type,
        "machine": {
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "gpu": torch.cuda.get_device_name(device) if on_cuda else None,
        },
        "torch": torch.__version__,
        "tf32": on_cuda and bool(torch.backends.cuda.matmul.allow_tf32),
        "precision": PRECISION,
    }


def cpu_name(info: Path = Path("/proc/cpuinfo")) -> str:
    """Return the model of the CPU where the system tells it, else what platform knows."""
    try:
        lines = info.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()


def peak_memory_mib() -> float:
    """Return the most memory this process has held so far, all variants included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # macOS counts bytes, Linux KiB
