"""Run several plans in subfolders of one folder, with equal trainings alone shared."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from motifair.experiments.jobs import Progress
from motifair.experiments.plan import Plan
from motifair.experiments.result import Result
from motifair.experiments.run import execute
from motifair.federation.callbacks import Callback
from motifair.files import file_errors


class Saved(Protocol):
    """A collection of results that can be saved."""

    def save(self, folder: str | Path) -> None:
        """Write it to a folder."""
        ...


Gathered = TypeVar("Gathered", bound=Saved)


def execute_together(
    plans: Mapping[str, Plan],
    out: Path | None,
    gather: Callable[[Mapping[str, Result]], Gathered],
    baselines: Callable[[Plan], str],
    *,
    progress: Callable[[Plan], Progress | None],
    stop: Callable[[], bool],
    callbacks: Sequence[Callback],
) -> Gathered:
    """Run or continue plans in `out/NAME`; return their gathered results, saved in `out`.

    `baselines` returns the folder under `out` for the trainings alone of a plan, which plans may
    share. Without `out` a temporary folder is used, and nothing is saved.
    """
    hooks: dict[str, Any] = {"stop": stop, "callbacks": callbacks}
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            results = _execute(plans, Path(folder), baselines, progress, hooks)
        return gather({name: _in_memory(result) for name, result in results.items()})
    gathered = gather(_execute(plans, out, baselines, progress, hooks))
    gathered.save(out)
    return gathered


def _execute(
    plans: Mapping[str, Plan],
    out: Path,
    baselines: Callable[[Plan], str],
    progress: Callable[[Plan], Progress | None],
    hooks: Mapping[str, Any],
) -> dict[str, Result]:
    results = {}
    for name, plan in plans.items():
        alone = out / baselines(plan)
        with file_errors():
            (alone / "checkpoint").mkdir(parents=True, exist_ok=True)
        shown = progress(plan)
        results[name] = execute(plan, out / name, progress=shown, baselines=alone, **hooks)
    return results


def _in_memory(result: Result) -> Result:
    """Return a result without its folder, which was deleted with the models in it."""
    return replace(result, origin=replace(result.origin, folder=None))
