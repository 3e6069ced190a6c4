"""Benchmarks of a round, always relative to another measurement in the same process."""
