"""Server, agents, the round loop, and what is kept of a run."""
