"""Transport to agents on other machines, with NVFlare 2.9 and mutual TLS.

`kits` makes the startup kits, `processes` starts server and sites from them, `segments` runs a
number of rounds. `controller`, `executor` and `launcher` are called by the engine. No other package
imports nvflare. `docs/engine.md` says what the engine does when a part of it dies.
"""

from motifair.extras import require

require("federation", "A federation between machines")
