"""Scripts and styles: a fixed list of files, read once, each under an address that never changes
its content.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.resources import files

# The style of reports is ours, too; plotly brings its own script.
FILES = {
    "theme.css": ("motifair.report", "assets/theme.css"),
    "dashboard.css": ("motifair.consortium.dashboard", "assets/dashboard.css"),
    "dashboard.js": ("motifair.consortium.dashboard", "assets/dashboard.js"),
    "icon.svg": ("motifair.consortium.dashboard", "assets/icon.svg"),
    "plotly.js": ("plotly", "package_data/plotly.min.js"),
}
TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True)
class Asset:
    """One file."""

    name: str

    @cached_property
    def content(self) -> bytes:
        """What is in it."""
        package, path = FILES[self.name]
        return files(package).joinpath(path).read_bytes()

    @cached_property
    def zipped(self) -> bytes:
        """The same, compressed."""
        return gzip.compress(self.content, 6, mtime=0)

    @cached_property
    def version(self) -> str:
        """A name of its content."""
        return sha256(self.content).hexdigest()[:12]

    @property
    def kind(self) -> str:
        """Its media type."""
        return f"{TYPES[self.name.rpartition('.')[2]]}; charset=utf-8"


class Assets:
    """All there are; whatever else is asked for is not there."""

    def __init__(self) -> None:
        self.known = {name: Asset(name) for name in FILES}

    def address(self, name: str) -> str:
        """Return where a page finds one."""
        return f"/assets/{name}?v={self.known[name].version}"

    @cached_property
    def plotly_styles(self) -> list[str]:
        """Return the ids under which plotly looks for styles of its maps.

        It would put them into the page itself, which our policy forbids, were they not there.
        """
        found = re.findall(rb'getElementById\("([0-9a-f]{64})"\)', self.known["plotly.js"].content)
        return sorted({name.decode() for name in found})


ASSETS = Assets()
