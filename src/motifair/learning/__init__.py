"""Local training: objective, optimiser, keyed randomness."""
