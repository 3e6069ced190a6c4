"""What the routes share: the reader, who may see what, and what was made already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, HTTPException, Request

from motifair.consortium.dashboard.access import OPERATOR, Access, Viewer
from motifair.consortium.dashboard.views import Detail, Problem, Summary, for_agent, public
from motifair.consortium.dashboard.watcher import View, Watcher

Made = TypeVar("Made")
AWAY = "The ledger cannot be read just now; this is tried again by itself."
COOKIE = "motifair-session"
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request cannot be understood."},
    401: {"model": Problem, "description": "A token is needed."},
    403: {"model": Problem, "description": "It is somebody else's."},
    404: {"model": Problem, "description": "There is no such thing."},
    429: {"model": Problem, "description": "Too many tries."},
    503: {"model": Problem, "description": AWAY},
}


class Cache:
    """Keeps the last thing made under each key, as long as its tag is the same."""

    def __init__(self, most: int = 256) -> None:
        self.most, self.lock = most, Lock()
        self.made: dict[Any, tuple[Any, Any]] = {}

    def get(self, key: Any, tag: Any, make: Callable[[], Made]) -> Made:
        """Return what is there, or make it, one thing at a time."""
        with self.lock:
            found = self.made.pop(key, None)
            if found is None or found[0] != tag:
                found = (tag, make())
            self.made[key] = found  # at the end again: the first is the one not asked for longest
            while len(self.made) > self.most:
                self.made.pop(next(iter(self.made)))
        return cast(Made, found[1])


@dataclass
class AppContext:
    """One dashboard. `streams` is how many browsers listen."""

    watcher: Watcher
    access: Access
    cache: Cache = field(default_factory=Cache)
    documents: Cache = field(default_factory=lambda: Cache(64))
    streams: int = 0

    def view(self, run: str) -> View:
        """Return a run that the ledger has."""
        self.check()
        found = self.watcher.views.get(run)
        if found is None:
            raise HTTPException(404, "There is no such run in the ledger.")
        return found

    def detail(self, run: str, viewer: Viewer) -> Detail:
        """Return what a viewer may see of a run."""
        view = self.view(run)
        if viewer.agent is None:
            return view.detail
        return for_agent(view.detail, view.finding, viewer.agent)

    def summaries(self, viewer: Viewer) -> list[Summary]:
        """Return all runs in one row each."""
        self.check()
        views = self.watcher.views.values()
        if viewer.agent is None:
            return [view.detail.summary for view in views]
        return [public(view.detail.summary, view.finding, viewer.agent) for view in views]

    def check(self) -> None:
        """Say so where the ledger is away, in place of showing what may be old."""
        if self.watcher.problem:
            raise HTTPException(503, AWAY, {"Retry-After": "5"})

    def who(self, request: Request) -> Viewer | None:
        """Tell who asks; None for who has neither a token nor a session."""
        if self.access.is_open:
            return OPERATOR
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.by_token(token.strip(), request)
        return self.access.by_session(request.cookies.get(COOKIE, ""))

    def still(self, request: Request, viewer: Viewer) -> bool:
        """Tell whether who asked once may go on: a session can have ended."""
        if self.access.is_open or "authorization" in request.headers:
            return True
        return self.access.by_session(request.cookies.get(COOKIE, "")) == viewer

    def by_token(self, token: str, request: Request) -> Viewer | None:
        """Tell whose token it is; an address that keeps on trying has to wait."""
        address = request.client.host if request.client else ""
        if self.access.too_often(address):
            raise HTTPException(429, "Too many tries; wait a minute.", {"Retry-After": "60"})
        found = self.access.by_token(token)
        if found is None:
            self.access.note_failure(address)
        return found


def context_of(request: Request) -> AppContext:
    """Return the dashboard a request is for."""
    return cast(AppContext, request.app.state.context)


def viewer_of(request: Request) -> Viewer:
    """Return who asks, or refuse."""
    found = context_of(request).who(request)
    if found is None:
        raise HTTPException(401, "A token is needed.", {"WWW-Authenticate": "Bearer"})
    return found


async def _context(request: Request) -> AppContext:
    return context_of(request)


async def _viewer(request: Request) -> Viewer:
    return viewer_of(request)


ContextDep = Annotated[AppContext, Depends(_context)]
ViewerDep = Annotated[Viewer, Depends(_viewer)]
