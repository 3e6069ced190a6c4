"""The HTML templates and styles of reports and statements."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def environment(package: str) -> Environment:
    """Return how the templates in the assets of a package are filled in: text is escaped, and what
    is not given is an error.
    """
    return Environment(
        loader=PackageLoader(package, "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


_ENVIRONMENT = environment("motifair.report")


def render(name: str, **content: Any) -> str:
    """Fill in a template; text is escaped."""
    return _ENVIRONMENT.get_template(name).render(content)


def asset(name: str) -> Markup:
    """Return a style or a script, to be put into a page as it is."""
    assert _ENVIRONMENT.loader is not None
    return Markup(_ENVIRONMENT.loader.get_source(_ENVIRONMENT, name)[0])
