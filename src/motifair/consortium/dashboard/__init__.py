"""The dashboard: a federation in a browser."""

from motifair.extras import require

require("web", "The dashboard")
