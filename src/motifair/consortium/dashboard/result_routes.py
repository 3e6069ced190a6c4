"""Pages and answers about simulations, and runs of either kind beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response

from motifair.consortium.dashboard.api import attached, both
from motifair.consortium.dashboard.curves import choose_curves
from motifair.consortium.dashboard.dependencies import PROBLEMS, ContextDep, ViewerDep
from motifair.consortium.dashboard.pages import render
from motifair.consortium.dashboard.results import FILES, MOST, ResultsDep, results_of, series_of
from motifair.consortium.dashboard.views import Curves, Detail
from motifair.experiments.simulated_ledger import CURRENCY
from motifair.table import NONE, Table, number

UNFINISHED: dict[int | str, dict[str, Any]] = {409: {"description": "It is not finished."}}
TYPES = {"csv": "text/csv; charset=utf-8", "html": "text/html; charset=utf-8"}

results_api = APIRouter(prefix="/api/results", responses=PROBLEMS | UNFINISHED)
results_pages = APIRouter(include_in_schema=False)

Name = Annotated[str, Path(max_length=300, description="The name of a folder of results.")]
File = Literal["agents.csv", "history.csv", "report.html"]
Names = Annotated[list[str] | None, Query(max_length=MOST)]


@both(results_api, "", response_model=list[dict[str, Any]])
async def listed(results: ResultsDep) -> list[dict[str, Any]]:
    """All simulations and comparisons, for the operator."""
    return [asdict(row) for row in await run_in_threadpool(results.rows)]


@both(results_api, "/{name}/curves", response_model=Curves)
async def curves(
    name: Name, results: ResultsDep, points: Annotated[int, Query(ge=4, le=2000)] = 500
) -> Curves:
    """Values and payoffs by round on the first split of a simulation."""
    about, split = await run_in_threadpool(results.split, name)
    chosen = [] if about.comparison else choose_curves(series_of(split), points)
    return Curves(run=name, currency=CURRENCY, agents=len(split.names), curves=chosen)


@both(
    results_api,
    "/{name}/{file}",
    response_class=Response,
    responses={200: {"content": {kind.partition(";")[0]: {} for kind in TYPES.values()}}},
)
async def file(name: Name, file: File, results: ResultsDep) -> Response:
    """Download the agents or all rounds of a simulation as CSV, or its report."""
    content = await run_in_threadpool(results.file, name, file)
    kind = TYPES[file.rpartition(".")[2]]
    return Response(content, media_type=kind, headers=attached(f"{name}-{file}"))


@both(results_pages, "/results/{name}")
async def result(
    name: Name, results: ResultsDep, context: ContextDep, viewer: ViewerDep
) -> Response:
    """One simulation or comparison."""
    page = await run_in_threadpool(results.page, name)
    about = {"viewer": viewer, "open": context.access.is_open}
    return HTMLResponse(render("result.html", page=page, name=name, files=FILES, **about))


@both(results_pages, "/compare")
async def compare(
    request: Request,
    context: ContextDep,
    viewer: ViewerDep,
    run: Names = None,
    result: Names = None,
) -> Response:
    """Runs of the ledger beside each other, simulations, or both."""
    runs, names = list(dict.fromkeys(run or [])), list(dict.fromkeys(result or []))
    if len(runs) + len(names) < 2:
        raise HTTPException(422, "Choose at least two runs to compare.")
    details = [context.detail(name, viewer) for name in runs]
    simulated = None
    if names:
        results = await results_of(request, viewer)
        simulated = await run_in_threadpool(results.compare, names)
    about = {"viewer": viewer, "open": context.access.is_open}
    tables = [_runs_table(details), _paid_table(details)] if details else []
    return HTMLResponse(render("compare.html", paid=tables, simulated=simulated, **about))


def _runs_table(details: Sequence[Detail]) -> Table:
    """Return a row for each run of the ledger."""
    rows = [
        [
            s.run,
            s.method,
            f"{s.round} of {s.rounds}",
            str(s.members),
            f"{s.budget} {s.currency}",
            f"{s.paid} {s.currency}",
            "verified" if s.fits else "does not fit",
        ]
        for s in (detail.summary for detail in details)
    ]
    head = ("run", "method", "round", "members", "budget of a round", "paid out", "ledger")
    return Table(head, rows, "Runs of the ledger", (2, 3, 4, 5))


def _paid_table(details: Sequence[Detail]) -> Table:
    """Return a row for each agent: what each run paid it in all, and its last value there."""
    head, columns = ["agent"], []
    for detail in details:
        run = detail.summary
        head += [f"paid by {run.run}, {run.currency}", f"value in {run.run}"]
        known = {row.agent: row for row in detail.agents}
        columns.append({name: [row.paid, _value(row.value)] for name, row in known.items()})
    names = sorted({name for column in columns for name in column})
    rows = [
        [name, *(cell for column in columns for cell in column.get(name, [NONE, NONE]))]
        for name in names
    ]
    return Table(head, rows, "Agents", range(1, len(head)))


def _value(value: float | None) -> str:
    return number(float("nan") if value is None else value, 4)
