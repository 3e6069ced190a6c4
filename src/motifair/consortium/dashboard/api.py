"""The JSON API under /api; it only reads."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any

import pandas as pd
from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response, StreamingResponse

from motifair.consortium.dashboard.access import OPERATOR, Viewer
from motifair.consortium.dashboard.curves import curves_of
from motifair.consortium.dashboard.dependencies import (
    AWAY,
    PROBLEMS,
    AppContext,
    ContextDep,
    ViewerDep,
)
from motifair.consortium.dashboard.views import Curves, Detail, Page, Summary
from motifair.consortium.dashboard.watcher import View
from motifair.consortium.store.export import line_row, to_json
from motifair.errors import MotifairError
from motifair.report.statement import SUFFIXES, as_format
from motifair.statements.entry import LARGEST, Entry
from motifair.statements.statement import Statement, make_statement

BEAT = 15.0  # seconds between comments that keep a stream open in proxies
OPERATORS_STREAMS, AGENTS_STREAMS, ONE_AGENTS_STREAMS = 100, 400, 20  # open at once
JSON = "application/json"
UNFIT = "The ledger does not fit, so nothing can be paid by it."

api = APIRouter(prefix="/api", responses=PROBLEMS)

Run = Annotated[str, Path(max_length=300, description="The name of a run in the ledger.")]
Number = Annotated[int, Path(ge=0, le=LARGEST)]
PageNumber = Annotated[int, Query(ge=1, le=10**6)]
Size = Annotated[int, Query(ge=1, le=200)]


class Form(StrEnum):
    """Formats of a statement."""

    TXT = "txt"
    JSON = "json"
    HTML = "html"
    PDF = "pdf"


TYPES = {
    Form.TXT: "text/plain; charset=utf-8",
    Form.JSON: JSON,
    Form.HTML: "text/html; charset=utf-8",
    Form.PDF: "application/pdf",
}


def both(router: APIRouter, path: str, **options: Any) -> Callable[[Any], Any]:
    """Register a GET route, and a HEAD route that the schema does not list."""

    def decorate(function: Any) -> Any:
        router.add_api_route(path, function, methods=["GET"], **options)
        router.add_api_route(
            path, function, methods=["HEAD"], **(options | {"include_in_schema": False})
        )
        return function

    return decorate


@both(api, "/runs", response_model=list[Summary])
async def runs(context: ContextDep, viewer: ViewerDep) -> Response:
    """All runs of the ledger."""

    def make() -> str:
        return json.dumps([s.model_dump(mode="json") for s in context.summaries(viewer)])

    context.check()
    return Response(
        context.cache.get(("runs", viewer), context.watcher.version, make), media_type=JSON
    )


@both(api, "/runs/{run}", response_model=Detail)
async def run(run: Run, context: ContextDep, viewer: ViewerDep) -> Response:
    """One run: its progress, its agents, and whether its ledger is verified."""
    version = context.view(run).version
    made = context.cache.get(
        ("run", run, viewer), version, lambda: context.detail(run, viewer).model_dump_json()
    )
    return Response(made, media_type=JSON)


@both(api, "/runs/{run}/curves", response_model=Curves)
async def curves(
    run: Run,
    context: ContextDep,
    viewer: ViewerDep,
    points: Annotated[int, Query(ge=4, le=2000)] = 500,
    agent: Annotated[str | None, Query(max_length=300)] = None,
) -> Response:
    """Values and payoffs by round: of all agents for the operator, else of the agent itself; or of
    the one that is named.
    """
    chosen = agent or viewer.agent
    if chosen is not None and not viewer.may_see(chosen):
        raise HTTPException(403, "These are not your curves.")
    view = context.view(run)
    made = context.cache.get(
        ("curves", run, chosen, points),
        (id(view.index), view.entries),
        lambda: curves_of(view.index, points, chosen).model_dump_json(),
    )
    return Response(made, media_type=JSON)


@both(
    api,
    "/runs/{run}/rounds.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}}, 409: {"description": UNFIT}},
)
async def rounds_csv(run: Run, context: ContextDep, viewer: ViewerDep) -> Response:
    """All rounds as CSV, a row for each agent; an agent gets its own rows."""
    view = context.view(run)
    if not view.detail.summary.fits:
        raise HTTPException(409, UNFIT)

    def make() -> str:
        entries = _from_ledger(lambda: context.watcher.entries(run))
        terms = view.index.verification.books.agreed
        rows = (
            line_row(entry, line, terms, str)
            for entry in entries
            for line in entry.lines
            if viewer.may_see(line.agent)
        )
        return pd.DataFrame(rows).to_csv(index=False)

    made = await run_in_threadpool(
        context.documents.get, (run, viewer, "csv"), (id(view.index), view.entries), make
    )
    return Response(made, media_type="text/csv; charset=utf-8", headers=attached(f"{run}.csv"))


@both(api, "/runs/{run}/entries", response_model=Page)
async def entries(
    run: Run, context: ContextDep, viewer: ViewerDep, page: PageNumber = 1, size: Size = 25
) -> Response:
    """Entries of the ledger in brief, newest first."""
    return Response(page_of(context.view(run), page, size).model_dump_json(), media_type=JSON)


@both(api, "/runs/{run}/entries/{number}", response_model=dict[str, Any])
async def entry(run: Run, number: Number, context: ContextDep, viewer: ViewerDep) -> Response:
    """One entry as it is hashed, with the lines of all agents; for the operator."""
    entry = await run_in_threadpool(entry_of, context, viewer, run, number)
    return Response(json.dumps(to_json([entry])[0], indent=1), media_type=JSON)


@both(
    api,
    "/runs/{run}/statements/{agent}",
    response_class=Response,
    responses={
        200: {"content": {kind.partition(";")[0]: {} for kind in TYPES.values()}},
        409: {"description": UNFIT},
    },
)
async def statement(
    run: Run,
    agent: Annotated[str, Path(max_length=300)],
    context: ContextDep,
    viewer: ViewerDep,
    format: Form = Form.TXT,
) -> Response:
    """Download an agent's statement; the operator can have all, an agent its own."""
    view = allowed_view(context, viewer, run, agent)
    content = await run_in_threadpool(_document, context, view, agent, format)
    about = attached(f"{run}-{agent}.{format}")
    return Response(content, media_type=TYPES[format], headers=about)


def attached(name: str) -> dict[str, str]:
    """Return the header that has a browser save an answer under a name."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return {"Content-Disposition": f'attachment; filename="{plain}"'}


def _from_ledger(read: Callable[[], Any]) -> Any:
    try:
        content = read()
    except MotifairError:
        raise HTTPException(503, AWAY, {"Retry-After": "5"}) from None
    if content is None:
        raise HTTPException(404, "There is no such entry.")
    return content


def entry_of(context: AppContext, viewer: Viewer, run: str, number: int) -> Entry:
    """Read one entry for the operator."""
    if not viewer.is_operator:
        raise HTTPException(403, "An entry holds all payoffs; your statement holds yours.")
    if number >= context.view(run).entries:
        raise HTTPException(404, "There is no such entry.")
    entry: Entry = _from_ledger(lambda: context.watcher.entry(run, number))
    return entry


def allowed_view(context: AppContext, viewer: Viewer, run: str, agent: str) -> View:
    """Return the view of a run, if the viewer may see the agent's statement and there is one."""
    if not viewer.may_see(agent):
        raise HTTPException(403, "This is not your statement.")
    view = context.view(run)
    if agent not in view.index.series:
        raise HTTPException(404, "There is no such agent in this run.")
    if not view.detail.summary.fits:
        raise HTTPException(409, UNFIT)
    return view


def statement_of(context: AppContext, view: View, agent: str) -> Statement:
    """Make an agent's statement, or return the cached one of the same ledger."""
    run = view.index.run

    def make() -> Statement:
        entries = _from_ledger(lambda: context.watcher.entries(run))
        known = _known(context, run)
        return make_statement(entries, agent, accuracy=_accuracies(view), **known)

    return context.statements.get((run, agent), _tag(view), make)


def _accuracies(view: View) -> dict[str, float]:
    return {row.agent: row.accuracy for row in view.detail.agents if row.accuracy is not None}


def _tag(view: View) -> tuple[object, ...]:
    """Return what a statement depends on: entries, and accuracies, which come after the last."""
    return id(view.index), view.entries, _accuracies(view)


def _document(context: AppContext, view: View, agent: str, form: Form) -> str | bytes:
    """Return a statement as a file."""

    def make() -> str | bytes:
        return as_format(statement_of(context, view, agent), SUFFIXES[f".{form}"], 80)

    key = (view.index.run, agent, form)
    try:
        return context.documents.get(key, _tag(view), make)
    except MotifairError as error:  # for example, WeasyPrint is not installed
        raise HTTPException(404, str(error)) from None


def _known(context: AppContext, run: str) -> dict[str, Any]:
    """Return how many graphs and which motifs each agent has, and how long its answers took, where
    the run's folder is known.
    """
    from motifair.consortium.checkpoint import load_checkpoint
    from motifair.consortium.lateness import ANSWERS, usual_seconds

    if (folder := context.watcher.folder(run)) is None:
        return {}
    try:
        checkpoint = load_checkpoint(folder)
    except MotifairError:
        checkpoint = None
    roster = () if checkpoint is None else checkpoint.roster
    return {
        "graphs": {j.name: j.graphs for j in roster},
        "motifs": {j.name: j.motifs for j in roster},
        "seconds": usual_seconds(folder / ANSWERS),
    }


def page_of(view: View, page: int, size: int) -> Page:
    """Return some rows of the ledger, newest first."""
    rows = view.index.rows[: view.entries]
    end = len(rows) - (page - 1) * size
    shown = rows[max(end - size, 0) : max(end, 0)]
    return Page(page=page, pages=max(1, -(-len(rows) // size)), entries=shown[::-1])


def stream(
    context: AppContext, request: Request, viewer: Viewer, render: Callable[[], str]
) -> StreamingResponse:
    """Stream what `render` returns, now and whenever it changes (Server-Sent Events)."""
    if _too_many(context, viewer):
        raise HTTPException(429, "Too many pages are open; close some.")
    known = request.headers.get("last-event-id", "")
    about = {"X-Accel-Buffering": "no"}  # nginx would buffer events
    return StreamingResponse(
        _events(context, viewer, lambda: context.still(request, viewer), known, render),
        media_type="text/event-stream",
        headers=about,
    )


def _too_many(context: AppContext, viewer: Viewer) -> bool:
    """Tell whether a viewer has as many streams as it may; no agent can take another's."""
    own = context.streams[viewer]
    if viewer.is_operator:
        return own >= OPERATORS_STREAMS
    agents = context.streams.total() - context.streams[OPERATOR]
    return own >= ONE_AGENTS_STREAMS or agents >= AGENTS_STREAMS


async def _events(
    context: AppContext,
    viewer: Viewer,
    allowed: Callable[[], bool],
    known: str,
    render: Callable[[], str],
) -> AsyncIterator[str]:
    """Yield each state once; `known` is the last one that a reconnecting browser has."""
    watcher, here = context.watcher, None
    context.streams[viewer] += 1
    try:
        yield "retry: 2000\n\n"
        while not watcher.stopping and allowed():
            version = watcher.version
            kind, text = ("problem", AWAY) if watcher.problem else ("parts", render())
            mark = sha256(text.encode()).hexdigest()[:16]
            if mark not in (here, known):
                yield f"id: {mark}\nevent: {kind}\ndata: {json.dumps(text)}\n\n"
            here, known = mark, ""
            while not (watcher.stopping or await watcher.changed(version, BEAT)):
                yield ": still here\n\n"
    finally:
        context.streams[viewer] -= 1
