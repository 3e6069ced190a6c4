"""The version of the package, from its installed metadata (the one in `pyproject.toml`)."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("motifair")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
