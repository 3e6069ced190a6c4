"""Agents on other machines, by NVFlare 2.9 with mutual TLS.

`kits` makes what each member needs to take part, `processes` starts server and sites from it,
`segments` lets them work for a number of rounds. `controller`, `executor` and `launcher` are what
the engine itself calls. Nothing but this package imports nvflare. `docs/engine.md` says what the
engine does when a part of it dies.
"""

from motifair.extras import require

require("federation", "A federation between machines")
