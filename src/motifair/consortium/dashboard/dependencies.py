"""What the routes depend on: the watcher, access, and caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, HTTPException, Request

from motifair.consortium.dashboard.access import OPERATOR, Access, Viewer
from motifair.consortium.dashboard.views import Detail, Problem, Summary, for_agent, public
from motifair.consortium.dashboard.watcher import View, Watcher

Made = TypeVar("Made")
AWAY = "The ledger cannot be read just now; the dashboard keeps trying."
COOKIE = "motifair-session"
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request cannot be understood."},
    401: {"model": Problem, "description": "A token is needed."},
    403: {"model": Problem, "description": "It belongs to another agent."},
    404: {"model": Problem, "description": "There is no such thing."},
    429: {"model": Problem, "description": "Too many attempts."},
    503: {"model": Problem, "description": AWAY},
}


class Cache:
    """An LRU cache whose entries hold as long as their tag is the same."""

    def __init__(self, most: int = 256) -> None:
        self.most, self.lock = most, Lock()
        self.made: dict[Any, tuple[Any, Any]] = {}

    def get(self, key: Any, tag: Any, make: Callable[[], Made]) -> Made:
        """Return the entry of `key`, made anew where its tag differs; one thread at a time."""
        with self.lock:
            entry = self.made.pop(key, None)
            if entry is None or entry[0] != tag:
                entry = (tag, make())
            self.made[key] = entry  # last in the dict: the first is the least recently used
            while len(self.made) > self.most:
                self.made.pop(next(iter(self.made)))
        return cast(Made, entry[1])


@dataclass
class AppContext:
    """The state of a dashboard; `streams` counts open event streams by viewer."""

    watcher: Watcher
    access: Access
    cache: Cache = field(default_factory=Cache)
    documents: Cache = field(default_factory=lambda: Cache(64))
    statements: Cache = field(default_factory=lambda: Cache(64))
    streams: Counter[Viewer] = field(default_factory=Counter)

    def view(self, run: str) -> View:
        """Return the view of a run, or answer 404."""
        self.check()
        view = self.watcher.views.get(run)
        if view is None:
            raise HTTPException(404, "There is no such run in the ledger.")
        return view

    def detail(self, run: str, viewer: Viewer) -> Detail:
        """Return what a viewer may see of a run."""
        view = self.view(run)
        if viewer.agent is None:
            return view.detail
        return for_agent(view.detail, view.finding, view.pause, viewer.agent)

    def summaries(self, viewer: Viewer) -> list[Summary]:
        """Return all runs in one row each."""
        self.check()
        views = self.watcher.views.values()
        if viewer.agent is None:
            return [view.detail.summary for view in views]
        return [public(view.detail.summary, view.finding, viewer.agent) for view in views]

    def check(self) -> None:
        """Answer 503 while the ledger cannot be read; older data may be out of date."""
        if self.watcher.problem:
            raise HTTPException(503, AWAY, {"Retry-After": "5"})

    def viewer(self, request: Request) -> Viewer | None:
        """Return the viewer of a request, None without a valid token or session."""
        if self.access.is_open:
            return OPERATOR
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.by_token(token.strip())
        return self.access.by_session(request.cookies.get(COOKIE, ""))

    def still(self, request: Request, viewer: Viewer) -> bool:
        """Tell whether an open stream may continue; its session can have expired."""
        if self.access.is_open or "authorization" in request.headers:
            return True
        return self.access.by_session(request.cookies.get(COOKIE, "")) == viewer

    def by_token(self, token: str) -> Viewer | None:
        """Return the owner of a token; answer 429 to a wrong one after many others."""
        viewer = self.access.by_token(token)
        if viewer is None and self.access.too_often():
            raise HTTPException(429, "Too many attempts; wait a minute.", {"Retry-After": "60"})
        return viewer


def context_of(request: Request) -> AppContext:
    """Return the context of the application that serves a request."""
    return cast(AppContext, request.app.state.context)


def viewer_of(request: Request) -> Viewer:
    """Return the viewer of a request, or answer 401."""
    viewer = context_of(request).viewer(request)
    if viewer is None:
        raise HTTPException(401, "A token is needed.", {"WWW-Authenticate": "Bearer"})
    return viewer


async def _context(request: Request) -> AppContext:
    return context_of(request)


async def _viewer(request: Request) -> Viewer:
    return viewer_of(request)


ContextDep = Annotated[AppContext, Depends(_context)]
ViewerDep = Annotated[Viewer, Depends(_viewer)]
