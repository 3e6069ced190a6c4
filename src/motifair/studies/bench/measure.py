"""Interleaved timing of variants, and a description of the machine."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from motifair.federation.members import Members
from motifair.federation.server import Record
from motifair.federation.state import FederationState

Work = Callable[[], object]
Clock = Callable[[Work], float]
Take = Callable[[FederationState], tuple[FederationState, Record]]

WARM = 2  # the first round compiles and allocates, the second is recorded on a GPU
PRECISION = (
    "float32; TF32 is not switched on, and our CUDA kernels multiply by tf32x3, "
    "which is as exact as single precision"
)


def host_seconds(work: Work) -> float:
    """Return the seconds of a call that is finished when it returns."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def device_seconds(work: Work) -> float:
    """Return the seconds of a call by the CUDA device's clock, from first to last kernel."""
    first = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    last = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()  # exclude kernels that were launched earlier
    first.record()
    work()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / 1000


def in_turn(
    variants: Mapping[str, Work], repeats: int, clock: Clock = host_seconds, *, warm: int = WARM
) -> dict[str, float]:
    """Return the median seconds of each variant.

    Variants take turns, so that noise of the machine affects all of them: ratios of medians are
    more reliable than seconds. In its turn each runs twice and the second run is timed, because the
    first runs with a cache filled by another variant.

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
    """Return a function that runs the next round with every call."""
    current = [state]

    def step() -> None:
        current[0] = take(current[0])[0]

    return step


def with_first_graphs(members: Members, count: int) -> Members:
    """Return members that train on their first graphs only."""
    return replace(
        members,
        train=tuple(s.select(np.arange(min(count, len(s)))) for s in members.train),
        numbers=tuple(numbers[:count] for numbers in members.numbers),
    )


def environment(device: torch.device) -> dict[str, Any]:
    """Describe the machine, the version of torch and the precision of a measurement."""
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
    """Return the model of the CPU from /proc/cpuinfo, or else from `platform`."""
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
    """Return the peak memory of this process so far, including all variants."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # macOS counts bytes, Linux KiB
