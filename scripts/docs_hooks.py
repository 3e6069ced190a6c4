"""What MkDocs is told of this repository: links to source, and doctests in docstrings."""

from __future__ import annotations

import re
from typing import Any

import griffe


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead `[text](../src/motifair/a/b.py)` to the API reference of the module `motifair.a.b`."""
    return re.sub(
        r"\]\((?:\.\./)+src/([\w/]+)\.py\)",
        lambda found: f"][{found[1].replace('/', '.')}]",
        markdown,
    )


class Doctests(griffe.Extension):
    """Fence doctests, which Markdown would take for quotations of quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put every paragraph that starts with `>>>` between fences."""
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"^( *)>>> .*(?:\n *\S.*)*",
                lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```",
                obj.docstring.value,
                flags=re.MULTILINE,
            )
