"""A federation between machines: its office, its server, its members' agents, and a demo of it."""
