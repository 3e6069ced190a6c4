"""A failure in words, as one agent may tell it to others."""

from __future__ import annotations

from motifair.errors import MotifairError

LONGEST = 500


def describe_failure(error: BaseException) -> str:
    """Say what went wrong without saying what the data were.

    Only the sentences we wrote ourselves travel whole. Any other exception may quote an agent's
    data, so its kind is all that is told; the details stand in the agent's own log.

    >>> describe_failure(MotifairError("The graphs are gone. Put them back."))
    'The graphs are gone. Put them back.'
    >>> describe_failure(KeyError("patient 17"))
    'failed with a KeyError; its own log has the details'
    """
    if isinstance(error, MotifairError):
        return str(error)[:LONGEST]
    return f"failed with a {type(error).__name__}; its own log has the details"
