"""The command `motifair`."""

from __future__ import annotations

import gc
import sys

from motifair.errors import MotifairError


def main() -> None:
    """Run the command; a user's mistake is one sentence and exit code 2."""
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    # Hardly anything that is imported is garbage: to look for it as often as usual takes 0.4 s.
    gc.set_threshold(20_000)
    from motifair.cli.app import app
    from motifair.files import file_errors

    try:
        with file_errors():
            app([a for a in arguments if a != "--debug"])
    except MotifairError as error:
        if debug:
            raise
        print(f"motifair: {error}", file=sys.stderr)
        sys.exit(2)
