"""Slow, obvious re-implementations that the tests compare the package with."""
