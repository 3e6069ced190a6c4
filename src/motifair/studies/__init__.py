"""Studies that reproduce the paper's tables and figures; each can be interrupted and resumed."""
