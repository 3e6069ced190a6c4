"""Rings and bonds, the vocabulary of each agent, and the prototypes built on it."""
