"""The paper's equations as pure functions: torch in, torch out, nothing else of ours."""
