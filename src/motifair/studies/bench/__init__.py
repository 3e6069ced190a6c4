"""How fast a round is, always beside something else that was measured in the same process."""
