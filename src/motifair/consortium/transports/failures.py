"""Descriptions of failures that are safe to send to others."""

from __future__ import annotations

from motifair.errors import MotifairError

LONGEST = 500


def describe_failure(error: BaseException) -> str:
    """Describe an exception without revealing data.

    Only messages of MotifairError are sent. Any other exception may quote an agent's data, so only
    its type is sent; the agent's log has the details.

    >>> describe_failure(MotifairError("The graphs are gone. Put them back."))
    'The graphs are gone. Put them back.'
    >>> describe_failure(KeyError("patient 17"))
    'failed with a KeyError; its own log has the details'
    """
    if isinstance(error, MotifairError):
        return str(error)[:LONGEST]
    return f"failed with a {type(error).__name__}; its own log has the details"
