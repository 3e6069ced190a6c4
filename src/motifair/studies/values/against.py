"""How near the pay of a method of one's own is to the truth that was measured before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from rich.console import Console
from rich.progress import track

from motifair.config import OPTIONS
from motifair.errors import MotifairError
from motifair.methods import MECHANISM_OPTIONS, Method, find_method, method_settings
from motifair.studies.study import Settings
from motifair.studies.values.cell import ALWAYS, ROUNDS, Cell, about_split, pay_of
from motifair.studies.values.known import Known


def against_truth(
    methods: str | Sequence[str | Method | type[Method]],
    truth: str | Path,
    *,
    datasets: str | Sequence[str] = "planted",
    scenarios: str | Sequence[str] = (),
    splits: int = 1,
    data_dir: str | Path | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Compare what methods pay with what members are worth, which was measured by retraining.

    Arguments:
        methods: names joined by commas, or a list of names, subclasses of `Method` or their
            instances.
        truth: folder with results of `motifair paper values`, such as `docs/results/values`.
        datasets, scenarios: which of those in the folder, joined by commas or as a list; default
            the embedded dataset, in all scenarios.
        splits: how many splits of each dataset and scenario.
        data_dir, device, threads, progress: as for `run`.
        **options: of the methods, as for `compare`. Others say what the truth is of, and are fixed.

    Returns:
        A row for each split, valuation and agent: its `share` and the `truth`, and `rank`, the rank
        correlation of both in the split. Beside the methods (`pay of NAME`) are the valuations of
        the folder, `(reliability)` first: how well two measurements of the truth agree. Of most of
        these it has no shares of agents. What motifair paid there is left out, since it may pay
        otherwise now: name it among the methods.
    """
    fixed = [name for name in options if name in OPTIONS and name not in MECHANISM_OPTIONS]
    if fixed:
        raise MotifairError(
            f"The truth was measured with {fixed[0]} as it is there; leave {fixed[0]} out."
        )
    chosen = {s["method"]: {**options, **s} for s in map(method_settings, _listed(methods))}
    if not chosen or splits < 1:
        raise MotifairError("Name at least one method, and at least one of the splits.")
    for name in chosen:
        find_method(name)
    known = Known(Path(truth), stale=tuple(map(pay_of, ALWAYS)))
    cells = [(d, s) for d in _listed(datasets) for s in _listed(scenarios) or known.scenarios(d)]
    pieces = [(*cell, k) for cell in cells for k in range(splits)]
    for piece in pieces:
        known.find(about_split(*piece), ROUNDS)
    console = Console(stderr=True)
    shown = console.is_terminal or console.is_jupyter if progress is None else progress
    folder = None if data_dir is None else Path(data_dir)
    with TemporaryDirectory() as out:
        settings = Settings(Path(out), data_dir=folder, device=device, threads=threads)
        made = [Cell(settings, known, *cell, splits, chosen) for cell in cells]
        tasks = track(
            [(cell, k) for cell in made for k in range(splits)],
            "paid", console=console, disable=not shown, transient=True,
        )  # fmt: skip
        return pd.concat([cell.rows(k).valuations for cell, k in tasks], ignore_index=True)


def _listed(names: str | Sequence[Any]) -> Sequence[Any]:
    return [w.strip() for w in names.split(",")] if isinstance(names, str) else names
