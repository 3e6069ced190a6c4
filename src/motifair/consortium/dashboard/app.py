"""The dashboard as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp

from motifair.consortium.dashboard.access import Access
from motifair.consortium.dashboard.api import api, both
from motifair.consortium.dashboard.assets import Assets
from motifair.consortium.dashboard.dependencies import AppContext, ContextDep, ViewerDep
from motifair.consortium.dashboard.guard import Guard
from motifair.consortium.dashboard.metrics import TYPE, exposition
from motifair.consortium.dashboard.pages import error_page, pages
from motifair.consortium.dashboard.result_routes import results_api, results_pages
from motifair.consortium.dashboard.results import Results
from motifair.consortium.dashboard.watcher import Watcher


class Dashboard(FastAPI):
    """A FastAPI application with `Guard` around all of it, error pages included."""

    hosts: Sequence[str] = ()

    def build_middleware_stack(self) -> ASGIApp:
        """Wrap the middleware in the guard."""
        return Guard(
            super().build_middleware_stack(), self.hosts, self.state.context.access.is_open
        )


def make_app(
    watcher: Watcher, access: Access, hosts: Sequence[str] = (), results: Path | None = None
) -> Dashboard:
    """Make the application; `hosts` are the host names that it answers to, empty for any, and
    `results` is the folder of simulations, if there is one.
    """
    app = Dashboard(
        title="motifair dashboard",
        openapi_url=None,  # see _schema; FastAPI's own pages load scripts from another host
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.context, app.hosts = AppContext(watcher, access), hosts
    app.state.results = Results(results)
    app.include_router(api)
    app.include_router(results_api)
    app.include_router(pages)
    app.include_router(results_pages)
    # Only what is public is compressed: sizes of compressed pages tell of what is secret in them.
    app.router.routes.append(Route("/assets/{name}", GZipMiddleware(Assets(), compresslevel=6)))
    both(app.router, "/openapi.json", include_in_schema=False)(_schema)
    both(app.router, "/metrics", include_in_schema=False)(_metrics)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _failed)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Watch the ledger while the server runs."""
    watcher: Watcher = app.state.context.watcher
    await asyncio.to_thread(watcher.look)
    watching = asyncio.create_task(watcher.watch())
    yield
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    watcher.close()


async def _schema(request: Request, viewer: ViewerDep) -> Response:
    """The description of the API, for the operator's programs."""
    if not viewer.is_operator:
        raise HTTPException(403, "The description of the API is for the operator.")
    return JSONResponse(request.app.openapi())


async def _metrics(context: ContextDep, viewer: ViewerDep) -> Response:
    """The state of all runs for Prometheus, for the operator's token."""
    if not viewer.is_operator:
        raise HTTPException(403, "Metrics are for the operator.")
    details = [view.detail for view in context.watcher.views.values()]
    return Response(exposition(details, not context.watcher.problem), media_type=TYPE)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    if request.url.path.startswith(("/api", "/openapi", "/assets", "/metrics")):
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)
    unknown = error.status_code == 404 and error.detail == "Not Found"
    sentence = "There is no such page." if unknown else str(error.detail)
    made = error_page(error.status_code, sentence)
    made.headers.update(error.headers or {})
    return made


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [{k: e[k] for k in ("loc", "msg", "type")} for e in error.errors()]
    if request.url.path.startswith("/api"):
        return JSONResponse({"detail": errors}, 422)
    words = "; ".join(f"{e['loc'][-1]}: {e['msg']}" for e in errors)
    return error_page(422, f"The address cannot be understood ({words}).")


async def _failed(request: Request, error: Exception) -> Response:
    """Answer an unexpected exception; its details go to the server's log only."""
    return JSONResponse({"detail": "The dashboard failed; its log says why."}, 500)
