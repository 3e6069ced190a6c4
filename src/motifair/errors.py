"""The one exception a user's mistake ends in."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MotifairError(Exception):
    """A mistake of the user's: one sentence that says what is wrong and names the fix.

    The command line prints it without a traceback and exits with code 2.
    """


def nearest(name: str, names: Iterable[str]) -> str:
    """Name what was probably meant, or all there is.

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
