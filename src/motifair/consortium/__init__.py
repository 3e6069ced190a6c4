"""A federation between machines: terms, agents, coordinator, transports, ledger, dashboard."""
