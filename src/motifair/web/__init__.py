"""The dashboard: a federation in a browser."""
