"""What the runs and comparisons in a folder are, and how far, without loading them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from motifair.config import make_config
from motifair.errors import MotifairError
from motifair.evaluation.metrics import find_metric
from motifair.experiments.comparison import is_comparison
from motifair.experiments.jobs import list_parts
from motifair.experiments.result import COMPARISON
from motifair.files import read_json


@dataclass(frozen=True)
class Listed:
    """A run or comparison in one row; `done` is the share of its training that is saved."""

    run: str
    what: str
    comparison: bool
    done: float
    accuracy: float | None = None
    gain: float | None = None

    @property
    def finished(self) -> bool:
        """Whether there is a result."""
        return self.done == 1.0


def list_runs(folder: Path) -> Iterator[Listed]:
    """Yield a row for each subfolder that is a run or a comparison, by name."""
    for place in sorted(folder.iterdir()):
        row = describe_run(place)
        if row is not None:
            yield row


def describe_run(place: Path) -> Listed | None:
    """Return the row of a folder, None if it is neither a run nor a finished comparison."""
    if is_comparison(place):
        compared = _read(place / COMPARISON)
        names = ", ".join(str(m.get("method")) for m in compared.get("measures", []))
        what = f"comparison of {names} on {compared.get('dataset')}"
        return Listed(place.name, what, comparison=True, done=1.0)
    if not (place / "config.json").exists():
        return None
    options = _read(place / "config.json").get("options", {})
    what = f"{options.get('method')} on {options.get('dataset')}"
    metric = find_metric(options.get("metric", ""))
    if metric.words != "accuracy":
        what += f", by {metric.words}"
    if not (place / "summary.json").exists():
        return Listed(place.name, what, comparison=False, done=_done(place, options))
    mean = _read(place / "summary.json").get("mean", {})
    reached = mean.get("personalised_accuracy")
    accuracy = None if reached is None else metric.sign * reached
    return Listed(place.name, what, False, 1.0, accuracy, mean.get("gain"))


def _done(place: Path, options: dict[str, Any]) -> float:
    """Return the share of all rounds of all jobs that checkpoints have; less than 1."""
    try:
        config = make_config(options)
    except (MotifairError, TypeError):
        return 0.0
    rounds = sum(_saved_rounds(path) for path in (place / "checkpoint").glob("*.safetensors"))
    whole = config.splits * len(list_parts(config)) * config.rounds
    return min(rounds / whole, 0.99)


def _saved_rounds(path: Path) -> int:
    try:
        with safe_open(path, "np") as file:
            return int((file.metadata() or {}).get("round", 0))
    except (OSError, ValueError, SafetensorError):
        return 0


def _read(path: Path) -> dict[str, Any]:
    """Read a file of a run; a damaged one counts as empty, `motifair show` says what it lacks."""
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
