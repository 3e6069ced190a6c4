"""Fair graph federated learning: value every agent, reward while training, pay every round.

`run` trains one method, `compare` several, `sweep` one over a grid of options; they return objects
with tables, intervals and a view in notebooks. `against_truth` says how near what methods pay is to
what members are worth. `load_result` reads a run back from its folder.
`Config` holds all options; `Method` and `Callback` are what a method or a hook of one's own derives
from.

>>> import motifair
>>> result = motifair.run(method="fedavg", agents=3, rounds=2, hidden=8, device="cpu", threads=1)
>>> result.to_frame()["agent"].tolist()
['agent-00', 'agent-01', 'agent-02']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motifair.config import Config
    from motifair.errors import MotifairError
    from motifair.experiments.compare import compare
    from motifair.experiments.comparison import Comparison
    from motifair.experiments.result import Result, load_result
    from motifair.experiments.run import run
    from motifair.experiments.sweep import Sweep, sweep
    from motifair.federation.callbacks import Callback
    from motifair.methods.base import Method, Seen
    from motifair.studies.values.against import against_truth
    from motifair.version import __version__

__all__ = [
    "Callback", "Comparison", "Config", "Method", "MotifairError", "Result", "Seen", "Sweep",
    "__version__", "against_truth", "compare", "load_result", "run", "sweep",
]  # fmt: skip

_HOME = {
    "Callback": "motifair.federation.callbacks",
    "Comparison": "motifair.experiments.comparison",
    "Config": "motifair.config",
    "Method": "motifair.methods.base",
    "MotifairError": "motifair.errors",
    "Result": "motifair.experiments.result",
    "Seen": "motifair.methods.base",
    "Sweep": "motifair.experiments.sweep",
    "__version__": "motifair.version",
    "against_truth": "motifair.studies.values.against",
    "compare": "motifair.experiments.compare",
    "load_result": "motifair.experiments.result",
    "run": "motifair.experiments.run",
    "sweep": "motifair.experiments.sweep",
}


def __getattr__(name: str) -> Any:
    """Import on first use, so that `motifair --help` does not wait for torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'motifair' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted(__all__)
