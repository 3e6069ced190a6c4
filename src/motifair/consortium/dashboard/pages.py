"""The HTML pages, rendered by the server; they can be read without scripts."""

from __future__ import annotations

import json
from typing import Annotated
from urllib.parse import parse_qs, quote, urlsplit

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from jinja2 import Environment

from motifair.consortium.dashboard.access import LASTS, Viewer
from motifair.consortium.dashboard.api import (
    Form,
    Number,
    PageNumber,
    allowed_view,
    both,
    entry_of,
    page_of,
    statement_of,
    stream,
)
from motifair.consortium.dashboard.assets import address, plotly_styles
from motifair.consortium.dashboard.dependencies import COOKIE, AppContext, ContextDep, ViewerDep
from motifair.consortium.dashboard.results import Results
from motifair.consortium.dashboard.views import Detail
from motifair.consortium.store.export import to_json
from motifair.report.statement import describe
from motifair.report.templates import environment
from motifair.statements.entry import Entry, decimal, readable
from motifair.table import NONE, Table

ROWS = 25  # entries on one page
MOST_AGENTS = 200  # in the table of a page; the API has them all
MOST_ROUNDS = 50  # on the page of an agent; the CSV has them all
LONGEST = 4096  # bytes of a form

pages = APIRouter(include_in_schema=False)

RunName = Annotated[str, Path(max_length=300)]
AgentName = Annotated[str, Path(max_length=300)]


def _environment() -> Environment:
    made = environment("motifair.consortium.dashboard")
    made.globals |= {
        "asset": address,
        "forms": list(Form),
        "plotly_styles": plotly_styles,
    }
    made.filters |= {"path": lambda name: quote(name, safe=""), "readable": readable}
    made.tests |= {"addressable": addressable}
    return made


def addressable(name: str) -> bool:
    """Tell whether a run's name can be part of an address; others are listed without a link.

    >>> addressable("first"), addressable(".."), addressable("a/b")
    (True, False, False)
    """
    return name.isprintable() and "/" not in name and name.strip(". ") != "" and len(name) <= 300


def render(template: str, **content: object) -> str:
    """Render a template."""
    return TEMPLATES.get_template(template).render(content)


def parts_of_runs(context: AppContext, viewer: Viewer) -> str:
    """Render the part of the first page that changes."""
    return context.cache.get(
        ("parts", viewer),
        context.watcher.version,
        lambda: render("runs_parts.html", runs=context.summaries(viewer), viewer=viewer),
    )


def parts_of_run(context: AppContext, viewer: Viewer, run: str, page: int) -> str:
    """Render the part of a run's page that changes."""
    view = context.view(run)

    def make() -> str:
        detail = context.detail(run, viewer)
        names = sorted({*view.index.series}) if viewer.is_operator else [viewer.agent]
        return render(
            "run_parts.html",
            detail=detail,
            run=detail.summary,
            viewer=viewer,
            shown=detail.agents[:MOST_AGENTS],
            statements=[name for name in names[:MOST_AGENTS] if name in view.index.series],
            ledger=page_of(view, page, ROWS),
        )

    return context.cache.get(("parts", viewer, run, page), view.version, make)


@both(pages, "/")
async def overview(request: Request, context: ContextDep, viewer: ViewerDep) -> Response:
    """All runs."""
    context.check()
    results: Results = request.app.state.results
    rows = await run_in_threadpool(results.rows) if viewer.is_operator else []
    parts = parts_of_runs(context, viewer)
    about = {
        "viewer": viewer,
        "folder": results.folder is not None,
        "ledger": context.watcher.has_ledger,
        **_about(context),
    }
    return HTMLResponse(render("runs.html", parts=parts, results=rows, **about))


@both(pages, "/runs/{run}")
async def run(
    run: RunName, context: ContextDep, viewer: ViewerDep, page: PageNumber = 1
) -> Response:
    """One run."""
    parts = parts_of_run(context, viewer, run, page)
    made = context.cache.get(
        ("page", viewer, run, page),
        parts,
        lambda: render(
            "run.html", parts=parts, run=run, page=page, viewer=viewer, **_about(context)
        ),
    )
    return HTMLResponse(made)


@both(pages, "/runs/{run}/agents/{agent}")
async def agent(run: RunName, agent: AgentName, context: ContextDep, viewer: ViewerDep) -> Response:
    """One agent of a run: what it was paid, why, and its rounds."""
    view = allowed_view(context, viewer, run, agent)
    statement = await run_in_threadpool(statement_of, context, view, agent)
    made = render(
        "agent.html",
        run=view.detail.summary,
        agent=next((row for row in view.detail.agents if row.agent == agent), None),
        name=agent,
        s=statement,
        about=describe(statement),
        shown=statement.rounds[: -MOST_ROUNDS - 1 : -1],
        viewer=viewer,
        **_about(context),
    )
    return HTMLResponse(made)


@both(pages, "/runs/{run}/entries/{number}")
async def entry(run: RunName, number: Number, context: ContextDep, viewer: ViewerDep) -> Response:
    """One entry of the ledger; for the operator."""
    view = context.view(run)
    found = await run_in_threadpool(entry_of, context, viewer, run, number)
    row = view.index.rows[number]
    made = render(
        "entry.html",
        run=view.detail.summary,
        row=row,
        previous=found.previous,
        entry=json.dumps(to_json([found])[0], indent=1),
        lines=lines_table(found, view.detail) if row.fits and found.lines else None,
        last=view.entries - 1,
        viewer=viewer,
        **_about(context),
    )
    return HTMLResponse(made)


@pages.get("/api/events")
async def runs_events(
    request: Request, context: ContextDep, viewer: ViewerDep
) -> StreamingResponse:
    """Stream the part of the first page that changes."""
    return stream(context, request, viewer, lambda: parts_of_runs(context, viewer))


@pages.get("/api/runs/{run}/events")
async def run_events(
    request: Request, run: RunName, context: ContextDep, viewer: ViewerDep, page: PageNumber = 1
) -> StreamingResponse:
    """Stream the part of a run's page that changes."""
    context.view(run)
    return stream(context, request, viewer, lambda: parts_of_run(context, viewer, run, page))


@both(pages, "/login")
async def login_form(context: ContextDep, failed: Annotated[bool, Query()] = False) -> Response:
    """Ask for a token."""
    if context.access.is_open:
        return RedirectResponse("/", 303)
    return HTMLResponse(render("login.html", failed=failed, viewer=None))


@pages.post("/login")
async def login(request: Request, context: ContextDep) -> Response:
    """Start a session for a token."""
    _check_origin(request)
    token = (await _form(request)).get("token", "")
    viewer = context.by_token(token)
    if viewer is None:
        return RedirectResponse("/login?failed=true", 303)
    response = RedirectResponse("/", 303)
    response.set_cookie(
        COOKIE,
        context.access.log_in(viewer),
        max_age=int(LASTS),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@pages.post("/logout")
async def logout(request: Request, context: ContextDep) -> Response:
    """End a session."""
    _check_origin(request)
    context.access.log_out(request.cookies.get(COOKIE, ""))
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE)
    return response


def lines_table(entry: Entry, detail: Detail) -> Table:
    """Return a row for each agent of an entry; values are recorded in units of 1e-12."""
    digits = len(detail.summary.budget.partition(".")[2])

    def pico(value: int | None) -> str:
        return NONE if value is None else decimal(value, 12)[:-6]

    rows = [
        [
            line.agent,
            f"{line.status}: {line.reason}" if line.reason else line.status,
            pico(line.value),
            pico(line.alignment),
            pico(line.diversity),
            pico(line.compensation),
            str(line.kept),
            readable(decimal(line.payoff, digits)),
        ]
        for line in entry.lines
    ]
    head = ("agent", "status", "value", detail.aligned, "diversity", "compensation")
    paid = f"payoff, {detail.summary.currency}"
    return Table((*head, "components received", paid), rows, "Agents", range(2, 8))


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LONGEST:
            raise HTTPException(413, "That is too long for a token.")
    return {name: values[0].strip() for name, values in parse_qs(body.decode("latin-1")).items()}


def _check_origin(request: Request) -> None:
    """Refuse forms of other sites, by the `Sec-Fetch-Site` or `Origin` header."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        ours = site in ("same-origin", "none")
    else:
        ours = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    if not ours:
        raise HTTPException(403, "Only forms of this dashboard's own pages are accepted.")


def _about(context: AppContext) -> dict[str, object]:
    return {"open": context.access.is_open}


def error_page(status: int, sentence: str) -> Response:
    """Return an error page; without a session, redirect to the login form."""
    if status == 401:
        return RedirectResponse("/login", 303)
    page = render("error.html", status=status, sentence=sentence, viewer=None)
    return HTMLResponse(page, status)


TEMPLATES = _environment()
