"""Simulations and comparisons in a folder, for the operator: pages, tables and files.

They are read when they are asked for. Nothing here is live, and members see none of it: a
simulation has no members.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Annotated, cast

import numpy as np
from fastapi import Depends, HTTPException, Request

from motifair.consortium.dashboard.dependencies import Cache, ViewerDep
from motifair.consortium.dashboard.run_index import Series
from motifair.errors import MotifairError
from motifair.experiments.comparison import (
    is_comparison,
    load_comparison,
    paired_runs,
    unlike,
)
from motifair.experiments.listing import Listed, describe_run, list_runs
from motifair.experiments.result import COMPARISON, Result, load_result
from motifair.experiments.split_result import SplitResult
from motifair.experiments.tables import differences_table, splits_table
from motifair.report.run_section import RunSection, agents_table, metrics_table
from motifair.report.source import SIMULATED, Source, source_of
from motifair.report.timeline import timeline
from motifair.report.verdicts import verdict_on_comparison, verdict_on_run
from motifair.table import Table

FILES = ("agents.csv", "history.csv", "report.html")  # of a run, to download
MOST = 20  # runs beside each other


@dataclass(frozen=True)
class RunPage:
    """What the page of a simulation shows."""

    about: Listed
    verdict: str
    caveats: Sequence[str]
    tables: Sequence[Table]
    rounds: int


@dataclass(frozen=True)
class ComparedRuns:
    """Several simulations beside each other; `verdict` only if they are on the same splits."""

    verdict: str
    unlike: Sequence[str]
    tables: Sequence[Table]


class Results:
    """Reads the runs and comparisons of a folder; None is a folder without any."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._loaded, self._pages = Cache(32), Cache(64)
        self._lock = Lock()

    def rows(self) -> list[Listed]:
        """Return a row for each run and comparison."""
        try:
            return [] if self.folder is None else list(list_runs(self.folder))
        except OSError:
            return []

    def page(self, name: str) -> RunPage:
        """Return what is shown of a finished run or comparison."""
        place, about = self._find(name)
        return self._pages.get(name, _stamp(place), lambda: self._page(place, about))

    def compare(self, names: Sequence[str]) -> ComparedRuns:
        """Put runs beside each other, those of a comparison one by one."""
        results: dict[str, Result] = {}
        for name in names:
            place, about = self._find(name)
            loaded = self._load(place)
            for inner, result in loaded.items():
                results[f"{name}/{inner}" if about.comparison else name] = result
        if not 2 <= len(results) <= MOST:
            raise HTTPException(422, f"Choose 2 to {MOST} runs to compare.")
        return _compared(results)

    def split(self, name: str) -> tuple[Listed, SplitResult]:
        """Return the first split of a run, for its curves."""
        place, about = self._find(name)
        return about, next(iter(self._load(place).values())).splits[0]

    def file(self, name: str, file: str) -> str | bytes:
        """Return a file of a run, made now if it is a report."""
        place, about = self._find(name)
        if about.comparison or file not in FILES:
            raise HTTPException(404, "There is no such file.")
        if file != "report.html":
            return (place / file).read_bytes()
        from motifair.report.page import html_page  # imports matplotlib

        result = next(iter(self._load(place).values()))
        with self._lock:  # one at a time: it takes seconds
            return html_page([RunSection(name, None, source_of(result, books=False))])

    def _find(self, name: str) -> tuple[Path, Listed]:
        """Look a name up among those in the folder; it never becomes part of a path."""
        places = {} if self.folder is None else {p.name: p for p in self.folder.iterdir()}
        about = describe_run(places[name]) if name in places else None
        if about is None:
            raise HTTPException(404, "There is no such run in the folder of results.")
        if not about.finished:
            raise HTTPException(409, f"{name} is not finished: {100 * about.done:.0f} % are done.")
        return places[name], about

    def _load(self, place: Path) -> dict[str, Result]:
        def load() -> dict[str, Result]:
            try:
                if is_comparison(place):
                    return dict(load_comparison(place).results)
                return {place.name: load_result(place)}
            except MotifairError as error:
                raise HTTPException(409, str(error)) from None

        return self._loaded.get(place.name, _stamp(place), load)

    def _page(self, place: Path, about: Listed) -> RunPage:
        loaded = self._load(place)
        first = next(iter(loaded.values()))
        if about.comparison:
            compared = _compared(loaded)
            return RunPage(about, compared.verdict, (), compared.tables, first.config.rounds)
        source = _brief_source(first)
        tables = [agents_table(source, timeline(source)), metrics_table(loaded)]
        tables += [splits_table(first)] if len(first.splits) > 1 else []
        verdict = " ".join(verdict_on_run(first))
        return RunPage(about, verdict, first.caveats, tables, first.config.rounds)


def series_of(split: SplitResult) -> dict[str, Series]:
    """Return each agent's value and cumulative payoff by round."""
    value, payoff = (np.nan_to_num(split.history.columns[c]) for c in ("value", "payoff"))
    rounds = array("q", range(1, len(value) + 1))
    return {
        name: Series(rounds, array("d", value[:, k]), array("d", payoff[:, k].cumsum()))
        for k, name in enumerate(split.names)
    }


def _compared(results: dict[str, Result]) -> ComparedRuns:
    paired = paired_runs(results)
    tables = [metrics_table(results), *([differences_table(paired)] if paired else [])]
    verdict = " ".join(verdict_on_comparison(paired)) if paired else ""
    return ComparedRuns(verdict, unlike(results), tables)


def _brief_source(result: Result) -> Source:
    """Return what the table of agents needs, without motifs, for which graphs would be read."""
    split = result.splits[0]
    graphs = dict(zip(split.names, split.graphs, strict=True))
    return Source(SIMULATED, SIMULATED, result.config, (), graphs=graphs, result=result)


def _stamp(place: Path) -> int:
    """Return what changes when a result does."""
    path = place / (COMPARISON if is_comparison(place) else "summary.json")
    return path.stat().st_mtime_ns


async def results_of(request: Request, viewer: ViewerDep) -> Results:
    """Return the results of the application; for the operator alone."""
    if not viewer.is_operator:
        raise HTTPException(403, "Simulations are for the operator.")
    return cast(Results, request.app.state.results)


ResultsDep = Annotated[Results, Depends(results_of)]
