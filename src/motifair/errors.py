"""The exception for user errors, and suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MotifairError(Exception):
    """A user error: one sentence that says what is wrong and how to fix it.

    The command line prints it without a traceback and exits with code 2.
    """


def nearest(name: str, names: Iterable[str]) -> str:
    """Suggest the names closest to a misspelt one, or list all of them if none is close.

    >>> nearest("PROTEIN", ["PROTEINS", "DD"])
    'Did you mean PROTEINS?'
    >>> nearest("zzz", ["PROTEINS", "DD"])
    'There are: PROTEINS, DD.'
    """
    known = list(names)
    folded = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(folded[c] for c in close)}?"
    return f"There are: {', '.join(known)}."
