"""Run one method over a grid of options, with trainings alone shared between settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.experiments.jobs import Progress
from motifair.experiments.plan import ALONE, Given, Plan, join_settings, make_plan
from motifair.experiments.progress import show_progress
from motifair.experiments.result import Result
from motifair.experiments.split_result import METRICS
from motifair.experiments.together import execute_together
from motifair.federation.callbacks import Callback
from motifair.files import file_errors, write_atomic, write_json

Setting = dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """The results of a grid of options, as `sweep` returns them; iterates over the results.

    Attributes:
        settings: the swept options of each result, as they were resolved.
        results: the results by the names of their folders, in the same order.
    """

    settings: tuple[Setting, ...]
    results: Mapping[str, Result]

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results.values())

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, number: int) -> Result:
        return list(self.results.values())[number]

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each setting: its options and metrics.

        For each metric the mean over splits and the ends of its 95 % interval, `METRIC_low` and
        `METRIC_high`.
        """
        return pd.DataFrame(
            [{**s, **_measured(r)} for s, r in zip(self.settings, self, strict=True)]
        )

    def to_json(self) -> dict[str, Any]:
        """Return the sweep as values that JSON can hold."""
        return {"options": list(self.settings[0]), "settings": self.to_frame().to_dict("records")}

    def save(self, folder: str | Path) -> None:
        """Write `sweep.csv` and `sweep.json` to a folder."""
        folder = Path(folder)
        with file_errors():
            folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "sweep.csv", self.to_frame().to_csv(index=False))
        write_json(folder / "sweep.json", self.to_json())

    def __repr__(self) -> str:
        first = self[0].config
        return f"Sweep of {first.method} on {first.dataset}: {', '.join(self.results)}"

    def _repr_html_(self) -> str:
        from motifair.experiments.notebook import sweep_html

        return sweep_html(self)


def sweep(
    options: Mapping[str, Sequence[Any]],
    dataset: Given = None,
    *,
    config: Config | None = None,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    threads: int | None = None,
    memory: float | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    **fixed: Any,
) -> Sweep:
    """Run a method with every combination of some options' values.

    Settings that differ only in options of the mechanism share the two trainings of every agent
    alone; options of data, model and training need their own.

    Arguments:
        options: the values of each swept option, by name.
        dataset, config, out, data_dir, device, threads, memory, callbacks, progress: as for `run`.
            In `out` each setting has a folder; calling again continues.
        **fixed: options that are the same in all settings.

    Returns:
        The results, in the order of the grid (the last option changes fastest).

    >>> small = {"agents": 3, "rounds": 2, "hidden": 8, "device": "cpu", "threads": 1}
    >>> grid = sweep({"beta": [1, 5], "retention": [0, 0.5]}, **small)
    >>> grid.to_frame()[["beta", "retention"]].values.tolist()
    [[1.0, 0.0], [1.0, 0.5], [5.0, 0.0], [5.0, 0.5]]
    >>> [result.config.beta for result in grid]
    [1.0, 1.0, 5.0, 5.0]
    """
    chosen, settings = join_settings(dataset, config, fixed)
    where = {"data_dir": data_dir, "device": device, "threads": threads, "memory": memory}
    plans = make_plans(options, chosen, settings, where)
    with show_progress(plans, progress) as shown:
        return execute_sweep(
            plans, tuple(options), _folder(out), progress=shown, callbacks=callbacks
        )


def make_plans(
    options: Mapping[str, Sequence[Any]],
    dataset: Any,
    fixed: Mapping[str, Any],
    where: Mapping[str, Any],
) -> dict[str, Plan]:
    """Check every setting of a grid; return the plans by the names of their folders."""
    if not options:
        raise MotifairError("A sweep needs options with their values, such as {'beta': [1, 5]}.")
    for name, values in options.items():
        if name in fixed:
            raise MotifairError(f"{name} is swept over and set; leave one of them out.")
        if isinstance(values, str) or not len(values):
            raise MotifairError(f"{name} needs a list of values; give at least one.")
    plans: dict[str, Plan] = {}
    for values in product(*options.values()):
        given = {**fixed, **dict(zip(options, values, strict=True))}
        plan = make_plan(given.pop("dataset", dataset), given, **where)
        name = _name(plan.config, options)
        if name in plans and plans[name].config != plan.config:
            raise MotifairError(f"Two settings would have the folder {name}; sweep in two parts.")
        plans[name] = plan
    return plans


def execute_sweep(
    plans: Mapping[str, Plan],
    options: Sequence[str],
    out: Path | None = None,
    *,
    progress: Callable[[Plan], Progress | None] = lambda plan: None,
    stop: Callable[[], bool] = lambda: False,
    callbacks: Sequence[Callback] = (),
) -> Sweep:
    """Run all plans of a grid, or continue them in `out`; return their results."""
    settings = tuple({o: p.config.value(o) for o in options} for p in plans.values())

    def gather(results: Mapping[str, Result]) -> Sweep:
        return Sweep(settings, results)

    return execute_together(
        plans, out, gather, _baselines, progress=progress, stop=stop, callbacks=callbacks
    )


def _baselines(plan: Plan) -> str:
    """Return the folder of the trainings alone, named by the options that affect them."""
    return f"baselines/{plan.about(0, ALONE[0])['config']}"


def _name(config: Config, options: Mapping[str, Any]) -> str:
    words = ",".join(f"{name}={config.to_json()[name]}" for name in options)
    return "".join(c if c.isalnum() or c in "-_.,=+" else "-" for c in words)


def _measured(result: Result) -> dict[str, float]:
    mean, interval = result.mean, result.ci95
    row: dict[str, float] = {}
    for metric in METRICS:
        low, high = interval[metric]
        row |= {metric: mean[metric], f"{metric}_low": low, f"{metric}_high": high}
    return row


def _folder(out: str | Path | None) -> Path | None:
    return None if out is None else Path(out)
