"""Fair graph federated learning: value every agent, reward while training, pay every round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motifair.config import Config
    from motifair.errors import MotifairError
    from motifair.experiments.compare import Comparison, compare
    from motifair.experiments.result import Result, load_result
    from motifair.experiments.run import run

__all__ = [
    "Comparison", "Config", "MotifairError", "Result", "compare", "load_result", "run",
]  # fmt: skip

_HOME = {
    "Comparison": "motifair.experiments.compare",
    "Config": "motifair.config",
    "MotifairError": "motifair.errors",
    "Result": "motifair.experiments.result",
    "compare": "motifair.experiments.compare",
    "load_result": "motifair.experiments.result",
    "run": "motifair.experiments.run",
}


def __getattr__(name: str) -> Any:
    """Import on first use, so that `motifair --help` does not wait for torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'motifair' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
