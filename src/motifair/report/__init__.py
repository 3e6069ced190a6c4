"""Tables for the terminal and pictures of a run."""
