"""The exception for user errors, and suggestions for misspelt names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class MotifairError(Exception):
    """A user error: one sentence that says what is wrong and how to fix it.

    The command line prints it without a traceback and exits with code 2.
    """


def nearest(name: str, names: Iterable[str]) -> str:
    """Suggest the names closest to a misspelt one, or list all of them if none is close.

    >>> nearest("PROTEIN", ["PROTEINS", "DD"])
    'Did you mean PROTEINS?'
    >>> nearest("smiles", ["Canonical SMILES", "site"])
    'Did you mean Canonical SMILES?'
    >>> nearest("zzz", ["PROTEINS", "DD"])
    'There are: PROTEINS, DD.'
    """
    known = list(names)
    like = {k: _likeness(name.lower(), k.lower()) for k in known}
    least = max(0.6, max(like.values(), default=0.0) - 0.2)
    close = sorted((k for k in known if like[k] >= least), key=like.__getitem__, reverse=True)
    if close:
        return f"Did you mean {' or '.join(close[:2])}?"
    return f"There are: {', '.join(known)}."


def _likeness(typed: str, name: str) -> float:
    """Return how like a name is to what was typed, or the most like of its words, from 0 to 1."""
    parts = (name, *re.findall(r"[^\W_]+", name))
    return max(difflib.SequenceMatcher(None, part, typed).ratio() for part in parts)
