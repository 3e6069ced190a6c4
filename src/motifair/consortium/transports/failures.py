"""Descriptions of failures that are safe to send to others."""

from __future__ import annotations

from motifair.errors import MotifairError

LONGEST = 500


def describe_failure(error: BaseException) -> str:
    """Describe an exception without revealing data.

    Only messages of MotifairError are sent, with names of files in place of paths. Any other
    exception may quote an agent's data, so only its type is sent; the agent's log has the details.

    >>> describe_failure(MotifairError("The graphs are gone. Put them back."))
    'The graphs are gone. Put them back.'
    >>> describe_failure(MotifairError("/home/eve/bank-a.state/seed is damaged; restore it."))
    'seed is damaged; restore it.'
    >>> describe_failure(KeyError("patient 17"))
    'failed with a KeyError; its own log has the details'
    """
    if isinstance(error, MotifairError):
        words = (word.rstrip("/").rsplit("/", 1)[-1] for word in str(error).split(" "))
        return " ".join(words)[:LONGEST]
    return f"failed with a {type(error).__name__}; its own log has the details"
