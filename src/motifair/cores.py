"""How many cores this process may use: a container often has fewer than its machine."""

from __future__ import annotations

import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """Return the whole cores within affinity and the container's quota, at least one."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text().split()
        return max(1, min(mine, int(quota) // int(period)))
    except (OSError, ValueError):  # no such file, or "max"
        return mine
