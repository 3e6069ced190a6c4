"""Scripts and styles of the pages: a fixed list of files, served by starlette."""

from __future__ import annotations

import os
import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOREVER = "public, max-age=31536000, immutable"
FILES = {
    name: Path(str(files(package))) / path
    for name, (package, path) in {
        "theme.css": ("motifair.report", "assets/theme.css"),
        "dashboard.css": ("motifair.consortium.dashboard", "assets/dashboard.css"),
        "dashboard.js": ("motifair.consortium.dashboard", "assets/dashboard.js"),
        "icon.svg": ("motifair.consortium.dashboard", "assets/icon.svg"),
        "plotly.js": ("plotly", "package_data/plotly.min.js"),
    }.items()
}


class Assets(StaticFiles):
    """Serve the files of the list at /assets/{name}, and nothing else of their folders.

    A file asked for by `address`, with the version of its content, can be cached forever.
    """

    def get_path(self, scope: Scope) -> str:
        """Return the name of the route; it is looked up in the list, never joined to a folder."""
        return str(scope["path_params"]["name"])

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """Return a file of the list."""
        file = FILES.get(path)
        return ("", None) if file is None else (str(file), file.stat())

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file with how long it can be cached."""
        response = await super().get_response(path, scope)
        asked = QueryParams(scope["query_string"]).get("v")
        response.headers["Cache-Control"] = FOREVER if asked == version(path) else "no-cache"
        return response


@cache
def version(name: str) -> str:
    """Return a hash of a file's content."""
    return sha256(FILES[name].read_bytes()).hexdigest()[:12]


def address(name: str) -> str:
    """Return the address of a file in a page."""
    return f"/assets/{name}?v={version(name)}"


@cache
def plotly_styles() -> list[str]:
    """Return the ids of the style elements that plotly adds to a page for its maps.

    The content security policy forbids that; plotly does not try where they exist.
    """
    ids = re.findall(rb'getElementById\("([0-9a-f]{64})"\)', FILES["plotly.js"].read_bytes())
    return sorted({name.decode() for name in ids})
